// SPDX-License-Identifier: Apache-2.0

package servecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"weir/internal/core/accept"

	"github.com/spf13/pflag"

	"weir/internal/api"
	"weir/internal/base/cgroup"
	"weir/internal/base/version"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/docker"
	"weir/internal/cluster/migrate/podman"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/node"
	"weir/internal/cluster/node/profiler"
	"weir/internal/config"
	"weir/internal/core/wire"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/serving"
	"weir/internal/host/agent"
)

// membership holds the options of weir agent about its cluster.
type membership struct {
	manager string
	token   joinToken
	name    string
	cfg     config.Cluster
}

func (m *membership) register(fs *pflag.FlagSet) {
	fs.StringVar(&m.manager, "manager", "", "`HOST:PORT` of the manager of the cluster to be a node of")
	m.token.register(fs)
	fs.StringVar(&m.name, "node-name", "", "`NAME` of this node in the cluster (default the host's)")
}

// over puts the flags over the configuration.
func (m membership) over(c config.Config) membership {
	m.cfg = c.Cluster
	m.cfg.Manager = cmp.Or(m.manager, m.cfg.Manager)
	m.cfg.TokenFile = cmp.Or(m.token.file, m.cfg.TokenFile)
	m.cfg.Name = cmp.Or(m.name, m.cfg.Name)
	return m
}

// prepare gives the agent that the server is to offer, and what joins the cluster
// once the agent's socket is claimed; the latter returns what lets go of it.
func (m membership) prepare(ag *agent.Agent, cfg config.Config, log *slog.Logger) (api.Agent, func(context.Context) (func(), error), error) {
	if m.cfg.Manager == "" {
		if m.token.given() || m.name != "" {
			return nil, nil, frame.Usagef("--manager is missing; --token, --token-file and --node-name are about a cluster")
		}
		return ag, func(context.Context) (func(), error) { return func() {}, nil }, nil
	}
	o := node.Options{Manager: m.cfg.Manager, Name: cmp.Or(m.cfg.Name, node.HostName()), Listen: m.cfg.Listen, Advertise: m.cfg.Advertise,
		Registry: m.cfg.RegistryListen, AcceptFrom: m.cfg.AcceptFrom, AcceptPolicy: cfg.Accept().Policy, Dir: clusterDir(cfg), Agent: ag, Moves: movesGroup(log), Version: version.String(), Audit: ag.Audit(), Log: log,
		Kafka: serving.KafkaSecurity(m.cfg.Kafka)}
	if err := o.Kafka.Check(); err != nil {
		return nil, nil, frame.Usagef("cluster.%v", err)
	}
	var err error
	if o.Token, err = m.token.read(m.cfg.TokenFile, os.Stdin, log); err != nil {
		return nil, nil, err
	}
	member, err := node.NewMember(o)
	if err != nil {
		return nil, nil, err
	}
	ag.Observe(member.Look)
	return member.WithManager(ag), func(ctx context.Context) (func(), error) {
		closers, err := m.equip(ctx, member, ag, cfg, log)
		if err == nil {
			err = member.Join(ctx)
		}
		if err != nil {
			closers()
			return nil, err
		}
		done := make(chan struct{})
		go func() { defer close(done); member.Run(ctx) }()
		return func() { <-done; closers() }, nil
	}, nil
}

// clusterDir returns the folder of a member's certificates and state.
func clusterDir(cfg config.Config) string { return filepath.Join(cfg.StateDir, "cluster") }

// openEngine opens the engine that migrations use, behind a socket that speaks Docker's
// API: by the helper, if there is one, and else by this process itself.
func openEngine(ctx context.Context, helper, socket, state string, rules accept.Rules) (migrate.Engine, error) {
	kind := engineKind(ctx, socket)
	e, err := remote.Open(helper, kind)
	switch {
	case err == nil:
		return e, nil
	case errors.Is(err, fs.ErrNotExist):
		return ownEngine(kind, socket, state, rules)
	}
	return nil, fmt.Errorf("migration helper: %w", err)
}

// engineKind says whose socket it is that speaks Docker's API: docker or podman.
func engineKind(ctx context.Context, socket string) wire.EngineName {
	if podman.Serves(ctx, socket) {
		return wire.EnginePodman
	}
	return wire.EngineDocker
}

// ownEngine opens an engine with this process's own rights: Docker, or Podman, whose
// checkpoints are not in that API and are made by its command. Of what other nodes send it
// takes what rules name and no more; the helper reads them itself.
func ownEngine(kind wire.EngineName, socket, state string, rules accept.Rules) (migrate.Engine, error) {
	if kind == wire.EnginePodman {
		e, err := podman.Open(filepath.Join(state, "cluster", "podman"))
		if err == nil {
			e.Guard(rules)
		}
		return e, err
	}
	e, err := docker.Open("unix://" + socket)
	if err == nil {
		e.Guard(rules)
	}
	return e, err
}

// equip gives a member its access to a host with containers.
func (m membership) equip(ctx context.Context, member *node.Member, ag *agent.Agent, cfg config.Config, log *slog.Logger) (closers func(), err error) {
	var list []func()
	closers = func() {
		for _, f := range list {
			f()
		}
	}
	if !cfg.Docker.Enabled {
		log.Info("this node sends the manager no profile of its containers, so none of them is planned or moved", "reason", "docker: {enabled: false}")
		return closers, nil
	}
	engine, err := openEngine(ctx, remote.Socket, cfg.Docker.Socket, cfg.StateDir, cfg.Accept())
	if err != nil {
		return closers, err
	}
	profiler, err := profiler.New(engine.Kind(), cfg.Docker.Socket, ag)
	if err != nil {
		return closers, errors.Join(err, engine.Close())
	}
	list = append(list, profiler.Close)
	local, err := migrate.NewLocal(member.Name(), engine, filepath.Join(clusterDir(cfg), "migrate"), log)
	if err != nil {
		return closers, errors.Join(err, engine.Close())
	}
	list = append(list, func() { local.Close() })
	member.Equip(profiler.Profile, local)
	return closers, nil
}

// movesGroup returns the cgroup of migrations' sockets, nil where there can be none: their packets
// count as the host's then.
func movesGroup(log *slog.Logger) node.Moves {
	g, err := cgroup.NewInner(config.Migration)
	if err != nil {
		log.Info("packets of migrations are not told apart and count as the host's", "why", err)
		return nil
	}
	return g
}
