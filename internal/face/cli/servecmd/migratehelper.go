// SPDX-License-Identifier: Apache-2.0

package servecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"weir/internal/base/cgroup"
	"weir/internal/base/safepath"
	"weir/internal/cluster/migrate/remote"
	members "weir/internal/cluster/node/membership"
	"weir/internal/cluster/warrant"
	"weir/internal/config"
	"weir/internal/core/wire"
	"weir/internal/face/cli/frame"
)

// migrateHelper holds the options of weir migrate-helper.
type migrateHelper struct {
	config string
	listen string
	state  string
	idle   time.Duration
	log    frame.LogFlags
}

// MigrateHelper makes weir migrate-helper.
func (a Commands) MigrateHelper() *cobra.Command {
	var m migrateHelper
	c := &cobra.Command{
		Use:   "migrate-helper",
		Short: "Take the steps of migrations for an agent that may not (systemd starts it)",
		Long: `Take the steps of migrations that the agent of this machine asks for: describe, freeze
and restore containers, pack and unpack the parts that travel. CRIU and the engine need nearly all
privileges for that, and weir.service gives the agent few, so that these steps have a
process of their own, which ends when nothing was asked for a while. It serves root alone,
opens nothing to the network, and takes no paths or commands from its caller: the engine
is that of ` + config.DefaultPath + `. It examines the manager's signed grants itself: each step
has to be of a move that was granted, of this node's role in it, and is taken once.

systemd starts it when the agent connects: systemctl enable --now weir-migrate.socket. An
agent that finds no such socket takes the steps itself.`,
		Example: `  systemctl enable --now weir-migrate.socket
  weir migrate-helper --listen /run/weir-migrate.sock --idle 0`,
		Args:              frame.Names(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := m.log.Log(a.Stderr)
			if err != nil {
				return err
			}
			return m.run(c.Context(), log)
		},
	}
	fs := c.Flags()
	fs.StringVar(&m.config, "config", "", "configuration `FILE` (default "+config.DefaultPath+" if it exists)")
	fs.StringVar(&m.listen, "listen", "", "`PATH` of a socket to make, where systemd hands no socket over (the agent looks at "+remote.Socket+")")
	fs.StringVar(&m.state, "state", "/var/lib/weir-migrate", "`FOLDER` of its state: the cluster's authority, the moves")
	fs.DurationVar(&m.idle, "idle", 30*time.Second, "how `LONG` to wait for another call; 0 = for ever")
	m.log.Register(c)
	return c
}

func (m migrateHelper) run(ctx context.Context, log *slog.Logger) error {
	if m.idle < 0 {
		return frame.Usagef("--idle %v: not a duration of 0 or more", m.idle)
	}
	cfg, err := config.Load(cmp.Or(m.config, config.DefaultPath))
	if m.config == "" && errors.Is(err, fs.ErrNotExist) {
		cfg, err = config.Default(), nil
	}
	if err != nil {
		return err
	}
	cgroup.LimitMemory()
	ln, err := m.open()
	if err != nil {
		return err
	}
	defer ln.Close()
	engine, err := ownEngine(engineKind(ctx, cfg.Docker.Socket), cfg.Docker.Socket, cfg.StateDir, cfg.Accept())
	if err != nil {
		return err
	}
	if err := sandboxed(engine.Kind()); err != nil {
		return errors.Join(err, engine.Close())
	}
	log = log.With("component", "migrate-helper")
	ledger, err := m.ledger(cfg, engine.Kind(), log)
	if err != nil {
		return errors.Join(err, engine.Close())
	}
	log.Debug("migration helper runs", "socket", ln.Addr().String(), "engine", engine.Kind())
	return errors.Join(remote.NewHelper(engine, ledger, m.idle, log).Serve(ctx, ln), ledger.Close(), engine.Close())
}

// sandboxed refuses to serve Podman in the sandbox of weir-migrate.service: what Podman
// restores is started by the helper and would keep the sandbox for good.
func sandboxed(kind wire.EngineName) error {
	set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err == nil && set != 0 && kind == wire.EnginePodman {
		return frame.Usagef("Podman's containers would inherit this unit's sandbox; install deploy/weir-migrate-podman.conf as /etc/systemd/system/weir-migrate.service.d/podman.conf, then systemctl daemon-reload")
	}
	return err
}

// ledger returns the ledger that examines the manager's grants.
func (m migrateHelper) ledger(cfg config.Config, kind wire.EngineName, log *slog.Logger) (*warrant.Admissions, error) {
	return warrant.Open(warrant.Options{Dir: m.state, Engine: kind, AcceptFrom: cfg.Cluster.AcceptFrom, Registry: cfg.Cluster.RegistryListen, Log: log,
		Sources: warrant.Sources{Identity: members.IdentityDir(clusterDir(cfg)), TokenFile: cfg.Cluster.TokenFile, Name: cfg.Cluster.Name}})
}

// open takes the socket that systemd hands over, or opens one.
func (m migrateHelper) open() (net.Listener, error) {
	if m.listen == "" {
		list, err := activation.Listeners()
		if err != nil {
			return nil, err
		}
		if len(list) != 1 || list[0] == nil {
			return nil, frame.Usagef("systemd handed %d sockets over, and one is needed; start it by weir-migrate.socket, or give --listen PATH", len(list))
		}
		return list[0], nil
	}
	ln, err := safepath.Listen(m.listen)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w", m.listen, err)
	}
	return ln, nil
}
