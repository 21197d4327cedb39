// SPDX-License-Identifier: Apache-2.0

package dockertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/docker/docker/client"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"weir/internal/base/nsthread"
)

const (
	startTimeout = 30 * time.Second // dockerd is up in about 1 s on an idle machine
	stopTimeout  = 20 * time.Second
)

// ErrNotPossible is wrapped by the error on a machine that cannot run a private engine;
// the error's message has the reason.
var ErrNotPossible = errors.New("cannot run a private Docker engine")

// Engine is a private dockerd and its network namespace.
type Engine struct {
	// Socket is the path of the engine's socket; "unix://" + Socket is a DOCKER_HOST.
	Socket string
	// Netns is a path by which the network namespace of the engine's bridges
	// can be entered, valid while this process lives and Stop was not called.
	Netns string

	dir       string // holds everything the engine writes
	options   Options
	netns     netns.NsHandle
	client    *client.Client
	daemon    *daemon
	borrowed  []func() error // what gives folders in /etc back
	imageDone bool
}

// Options are the settings of an engine. With the zero value StartWith does the same as
// Start.
type Options struct {
	// Parent is the directory in which the engine's folder is made; "" is the temporary
	// directory.
	Parent string
	// Netns is the network namespace of the engine, which the engine closes; nil makes a
	// new one.
	Netns func() (netns.NsHandle, error)
	// Config is put over the entries of daemon.json.
	Config map[string]any
	// CRIU are the lines of its /etc/criu/runc.conf; nil leaves the host's.
	CRIU []string
}

// Start starts an engine that keeps its files in a new directory below parent
// ("" = the system's temporary directory; keep it short, since sockets live
// there). It returns when the engine answers. The caller has to Stop it.
func Start(ctx context.Context, parent string) (*Engine, error) {
	return StartWith(ctx, Options{Parent: parent})
}

// StartHere starts an engine as Start does, in the network namespace of the calling
// process: the engine's bridges are made there.
func StartHere(ctx context.Context, parent string) (*Engine, error) {
	return StartWith(ctx, Options{Parent: parent, Netns: netns.Get})
}

// StartWith starts an engine as Start does, with options.
func StartWith(ctx context.Context, o Options) (*Engine, error) {
	if err := possible(); err != nil {
		return nil, err
	}
	if o.Netns == nil {
		o.Netns = newNetns
	}
	dir, err := os.MkdirTemp(o.Parent, "weir-docker-")
	if err != nil {
		return nil, err
	}
	e := &Engine{Socket: filepath.Join(dir, "docker.sock"), dir: dir, options: o}
	hidden := []string{"/etc/docker"}
	if o.CRIU != nil {
		hidden = append(hidden, "/etc/criu")
	}
	for _, folder := range hidden {
		giveBack, err := Borrow(folder)
		if err != nil {
			return nil, errors.Join(err, e.Stop())
		}
		e.borrowed = append(e.borrowed, giveBack)
	}
	if err := e.up(ctx); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

// possible says whether an engine can be started at all.
func possible() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: it needs root", ErrNotPossible)
	}
	for _, program := range []string{"dockerd", "unshare", "ldd"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: %s is not installed", ErrNotPossible, program)
		}
	}
	return nil
}

func (e *Engine) up(ctx context.Context) error {
	var err error
	if e.netns, err = e.options.Netns(); err != nil {
		return fmt.Errorf("get the engine's network namespace: %w", err)
	}
	e.Netns = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(e.netns))
	if err := e.writeConfig(); err != nil {
		return err
	}
	e.client, err = client.NewClientWithOpts(client.WithHost("unix://"+e.Socket), client.WithAPIVersionNegotiation())
	if err != nil {
		return err
	}
	return e.startDaemon(ctx)
}

// newNetns makes a network namespace with its loopback device up. It is held by
// the descriptor alone, so that nothing is left if this process is killed.
func newNetns() (netns.NsHandle, error) {
	return nsthread.New(func() error {
		return netlink.LinkSetUp(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "lo", Index: 1}})
	})
}

// writeConfig writes daemon.json. The cgroup driver is named because the default
// on hosts with systemd would need a slice.
func (e *Engine) writeConfig() error {
	settings := map[string]any{
		"data-root":      filepath.Join(e.dir, "data"),
		"exec-root":      filepath.Join(e.dir, "exec"),
		"pidfile":        filepath.Join(e.dir, "docker.pid"),
		"hosts":          []string{"unix://" + e.Socket},
		"cgroup-parent":  e.cgroup(),
		"exec-opts":      []string{"native.cgroupdriver=cgroupfs"},
		"bip":            "172.31.1.1/24",
		"iptables":       false,
		"ip-masq":        false,
		"userland-proxy": false,
	}
	maps.Copy(settings, e.options.Config)
	config, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return err
	}
	if e.options.CRIU != nil {
		if err := e.WriteCRIU(); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(e.dir, "daemon.json"), config, 0o600)
}

// WriteCRIU writes the engine's runc.conf, as Options.CRIU has it.
func (e *Engine) WriteCRIU() error {
	dir := filepath.Join(e.dir, "criu")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "runc.conf"), []byte(strings.Join(e.options.CRIU, "\n")+"\n"), 0o644)
}

func (e *Engine) cgroup() string { return "/" + filepath.Base(e.dir) }

// Client returns a client of the engine, closed by Stop.
func (e *Engine) Client() *client.Client { return e.client }

// Dir holds everything the engine writes: data, exec, docker.pid, dockerd.log, and
// what it would put into the temporary directory.
func (e *Engine) Dir() string { return e.dir }

// Pid returns the process id of dockerd, 0 while it does not run.
func (e *Engine) Pid() int {
	if e.daemon == nil {
		return 0
	}
	return e.daemon.process.Pid
}

// Command returns a command that runs in the engine's network namespace.
func (e *Engine) Command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + e.Netns, "--"}, args...)...)
}

// Restart ends dockerd, as a system's service manager would, and starts it again.
// Containers end with it; those with a restart policy come back.
func (e *Engine) Restart(ctx context.Context) error {
	if err := e.StopDaemon(); err != nil {
		return err
	}
	return e.startDaemon(ctx)
}

// StopDaemon ends dockerd; StartDaemon or Restart brings it back.
func (e *Engine) StopDaemon() error {
	if e.daemon == nil {
		return nil
	}
	err := e.daemon.stop()
	e.daemon = nil
	return err
}

// KillDaemon ends dockerd without a chance to tidy up, as a crash does.
func (e *Engine) KillDaemon() {
	if e.daemon != nil {
		_ = e.daemon.process.Kill() // fails only if it has ended already
		<-e.daemon.exited
		e.daemon = nil
	}
}

// StartDaemon starts dockerd again after StopDaemon.
func (e *Engine) StartDaemon(ctx context.Context) error { return e.startDaemon(ctx) }

func (e *Engine) startDaemon(ctx context.Context) error {
	daemon, err := startDaemon(e.dir, e.netns)
	if err != nil {
		return fmt.Errorf("start dockerd: %w", err)
	}
	e.daemon = daemon
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		if _, err = e.client.Ping(ctx); err == nil {
			return nil
		}
		select {
		case <-daemon.exited:
			return fmt.Errorf("dockerd ended at once: %s", daemon.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("dockerd does not answer: %w: %s", err, daemon.lastWords())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop removes the containers, ends dockerd and removes everything it wrote.
func (e *Engine) Stop() error {
	var errs []error
	if e.daemon != nil {
		errs = append(errs, e.removeContainers(), e.StopDaemon())
	}
	if e.client != nil {
		errs = append(errs, e.client.Close())
	}
	if e.netns > 0 {
		errs = append(errs, e.netns.Close())
	}
	e.endShims()
	errs = append(errs, removeCgroups(e.cgroup()), os.RemoveAll(e.dir))
	for _, giveBack := range e.borrowed {
		errs = append(errs, giveBack())
	}
	return errors.Join(errs...)
}

// endShims ends the processes that containerd keeps beside its containers, and loses when
// it is killed.
func (e *Engine) endShims() {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		line, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(line), "containerd-shim") || !strings.Contains(string(line), e.dir+"/") {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/cmdline", &pid); err == nil && pid > 0 {
			_ = unix.Kill(pid, unix.SIGTERM) // what runs beside it ends with its cgroup
		}
	}
}

// removeCgroups removes the engine's cgroups from every hierarchy, after ending any
// process that is still in there: a dockerd that had to be killed leaves its containers
// behind.
func removeCgroups(parent string) error {
	v1, _ := filepath.Glob("/sys/fs/cgroup/*" + parent)
	v2, _ := filepath.Glob("/sys/fs/cgroup" + parent)
	var errs []error
	for _, root := range append(v1, v2...) {
		var dirs []string
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for i := len(dirs) - 1; i >= 0; i-- { // children first
			errs = append(errs, removeCgroup(dirs[i]))
		}
	}
	return errors.Join(errs...)
}

func removeCgroup(dir string) error {
	deadline := time.Now().Add(5 * time.Second)
	for {
		procs, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for _, pid := range strings.Fields(string(procs)) {
			var n int
			if _, err := fmt.Sscan(pid, &n); err == nil && n > 0 {
				_ = unix.Kill(n, unix.SIGKILL)
			}
		}
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// daemon is one running dockerd.
type daemon struct {
	process *os.Process
	exited  chan struct{}
	log     string // path of what it printed
}

// script hides /etc/docker, where older engines keep a key, and becomes dockerd.
//
// With CRIU it has a /run in memory as machines have, since CRIU keeps its findings about
// the kernel there and nowhere else (it takes 60 ms to find them again).
const script = `mount -t tmpfs tmpfs /etc/docker || exit
	if [ -d "$1/criu" ]; then
		mount --bind "$1/criu" /etc/criu && mount -t tmpfs tmpfs /run || exit
	fi
	exec dockerd --config-file "$1/daemon.json"`

// startDaemon starts dockerd in ns. The thread that starts it lives as long as
// dockerd does, since the kernel sends the parent-death signal when that thread,
// not the process, ends.
func startDaemon(dir string, ns netns.NsHandle) (*daemon, error) {
	d := &daemon{exited: make(chan struct{}), log: filepath.Join(dir, "dockerd.log")}
	started := make(chan error)
	go func() {
		defer close(d.exited)
		runtime.LockOSThread() // never unlocked: the thread stays in ns
		output, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			started <- err
			return
		}
		defer output.Close()
		if err := netns.Set(ns); err != nil {
			started <- err
			return
		}
		cmd := exec.Command("unshare", "--mount", "--propagation", "private", "--", "sh", "-c", script, "sh", dir)
		cmd.Stdout, cmd.Stderr = output, output
		cmd.Env = append(os.Environ(), "TMPDIR="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
		err = cmd.Start()
		d.process = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	return d, <-started
}

func (d *daemon) stop() error {
	_ = d.process.Signal(syscall.SIGTERM) // fails only if it has ended already
	select {
	case <-d.exited:
		return nil
	case <-time.After(stopTimeout):
		_ = d.process.Kill()
		<-d.exited
		return fmt.Errorf("dockerd (pid %d) did not end within %s and was killed: %s", d.process.Pid, stopTimeout, d.lastWords())
	}
}

// lastWords returns the end of dockerd's output.
func (d *daemon) lastWords() string {
	text, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-5):], []byte("\n")))
}
