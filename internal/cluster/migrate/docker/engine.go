// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"weir/internal/base/command"
	"weir/internal/base/dockerapi"
	"weir/internal/cluster/move"
	"weir/internal/core/accept"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/docker/daemon"
	"weir/internal/core/wire"
)

// Engine is a Docker engine of this machine.
type Engine struct {
	client *client.Client
	socket string
	root   atomic.Pointer[root]
	rules  *accept.Rules // nil = none: orders come from root on this machine
}

// Guard makes this the engine of a node that takes containers from other nodes: of a
// configuration it accepts what rules name and no more. Call it before any order.
func (e *Engine) Guard(rules accept.Rules) { e.rules = &rules }

// root is the daemon's folder, for as long as it is the same daemon: to ask for it
// takes some ten milliseconds, which a container would stand still for.
type root struct {
	daemon int
	dir    string
}

func (e *Engine) rootDir(ctx context.Context, p place) (string, error) {
	if known := e.root.Load(); known != nil && known.daemon == p.pid {
		return known.dir, nil
	}
	info, err := e.client.Info(ctx)
	if err != nil {
		return "", err
	}
	e.root.Store(&root{p.pid, info.DockerRootDir})
	return info.DockerRootDir, nil
}

// Open returns the engine at host, e.g. "unix:///var/run/docker.sock"; "" means
// DOCKER_HOST, or the default socket. The engine need not run yet.
func Open(host string) (*Engine, error) {
	c, err := dockerapi.New(host)
	if err != nil {
		return nil, fmt.Errorf("docker engine %q: %w", host, err)
	}
	socket, ok := strings.CutPrefix(c.DaemonHost(), "unix://")
	if !ok {
		return nil, errors.Join(fmt.Errorf("docker engine %q: containers are migrated by the node that they are on; name a socket such as unix:///var/run/docker.sock", c.DaemonHost()), c.Close())
	}
	return &Engine{client: c, socket: socket}, nil
}

// Kind implements migrate.Engine.
func (e *Engine) Kind() wire.EngineName { return wire.EngineDocker }

// Address returns the engine's address, e.g. unix:///var/run/docker.sock.
func (e *Engine) Address() string { return "unix://" + e.socket }

// Close ends the connection.
func (e *Engine) Close() error { return e.client.Close() }

// place says where the daemon lives: its mounts and its way to find programs.
type place struct {
	pid  int
	path string // PATH
}

// place returns the process that listens on the engine's socket, dockerd, or the init that
// opened the socket for it. Either has the mount namespace that counts.
func (e *Engine) place() (place, error) {
	pid, err := daemon.Listener(e.socket)
	if err != nil {
		return place{}, err
	}
	return place{pid: pid, path: daemon.Environ(pid, "PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin")}, nil
}

// file returns the path by which this process reaches a path of the daemon's.
func (p place) file(path string) string {
	return filepath.Join("/proc", strconv.Itoa(p.pid), "root", path)
}

// command returns a command that runs among the daemon's mounts and in its network namespace:
// CRIU takes its own for the host's, in which it must not drop every packet.
func (p place) command(ctx context.Context, args ...string) *exec.Cmd {
	return command.New(ctx, "nsenter", append([]string{"--mount=/proc/" + strconv.Itoa(p.pid) + "/ns/mnt", "--net=/proc/" + strconv.Itoa(p.pid) + "/ns/net", "--", "env", "PATH=" + p.path}, args...)...)
}

// Copy finds the container that was created for a migration.
func (e *Engine) Copy(ctx context.Context, move string) (id string, running bool, err error) {
	list, err := e.client.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", migrate.MoveLabel+"="+move))})
	if err != nil || len(list) == 0 {
		return "", false, err
	}
	return list[0].ID, list[0].State == "running" || list[0].State == "paused", nil
}

// Do takes one step.
func (e *Engine) Do(ctx context.Context, step move.Step, o migrate.MoveSpec) (migrate.StepOutcome, error) {
	steps := map[move.Step]func(context.Context, migrate.MoveSpec) (migrate.StepOutcome, error){
		move.PushImage: e.pushImage,
		move.PullImage: e.pullImage,
		move.Create:    e.create,
		move.PreCopy:   e.preCopy,
		move.Freeze:    e.freeze,
		move.Commit:    e.commit,
		move.Push:      e.push,
		move.Pull:      e.pull,
		move.Restore:   e.restore,
		move.Confirm:   e.confirm,
		move.Forget:    e.forget,
		move.Discard:   e.discard,
		move.Thaw:      e.thaw,
	}
	do, ok := steps[step]
	if !ok {
		return migrate.StepOutcome{}, failed("the Docker engine knows no step %s", step)
	}
	out, err := do(ctx, o)
	return out, definite(ctx, err)
}

// definite makes an error of the engine a definite answer. One that comes of the
// caller's giving up is none.
func definite(ctx context.Context, err error) error {
	switch {
	case err == nil, move.CodeOf(err) != "", ctx.Err() != nil, client.IsErrConnectionFailed(err):
		return err
	case errdefs.IsNotFound(err):
		return &move.Error{Code: move.CodeNoContainer, Msg: err.Error()}
	}
	return &move.Error{Code: move.CodeFailed, Msg: oneLine(err.Error())}
}

var (
	engineSays = regexp.MustCompile(`^Error response from daemon: `)
	criuLog    = regexp.MustCompile(`\s*log file: \S+`)
	runcSays   = regexp.MustCompile(`^exit status \d+: time=\S+ level=error msg="(.*)"$`)
)

// oneLine returns an error of the engine's or the runtime's without the text around it.
func oneLine(text string) string {
	text = engineSays.ReplaceAllString(text, "")
	if said := runcSays.FindStringSubmatch(text); said != nil {
		text = strings.NewReplacer(`\n`, " ", `\"`, `"`).Replace(said[1])
	}
	return strings.Join(strings.Fields(criuLog.ReplaceAllString(text, "")), " ")
}

func failed(format string, args ...any) error {
	return &move.Error{Code: move.CodeFailed, Msg: fmt.Sprintf(format, args...)}
}

func refused(format string, args ...any) error {
	return &move.Error{Code: move.CodeRefused, Msg: fmt.Sprintf(format, args...)}
}

// journey sums up an engine's messages about a push or pull.
type journey struct {
	layers map[string]bool // that travelled, by the short name that the engine gives them
	digest string          // of the manifest that was pushed
}

// drain reads an engine's progress to its end, which is when the work is done. It
// returns the error that the engine has put in there, if any.
func drain(r io.ReadCloser) (journey, error) {
	defer r.Close()
	d, moved := json.NewDecoder(r), journey{layers: map[string]bool{}}
	for {
		var m struct {
			Aux    struct{ Digest string }
			Error  string `json:"error"`
			Status string `json:"status"`
			ID     string `json:"id"`
		}
		switch err := d.Decode(&m); {
		case errors.Is(err, io.EOF):
			return moved, nil
		case err != nil:
			return moved, err
		case m.Error != "":
			return moved, failed("%s", m.Error)
		case m.Status == "Pushed" || m.Status == "Download complete":
			moved.layers[m.ID] = true
		case m.Aux.Digest != "":
			moved.digest = m.Aux.Digest
		}
	}
}
