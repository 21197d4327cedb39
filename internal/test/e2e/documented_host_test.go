// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/core/plan"
	"weir/internal/test/doccommand"
)

// documented is a host on which the commands of a page run.
type documented struct {
	t        *testing.T
	page     page
	host     *space
	dir      string // in which the commands run
	aliases  string // of the page, one in each line
	boxes    map[string]*space
	senders  []*process
	services map[string]*service // agent and manager
	fallback bool
	source   bool // compilers and the repository are here
}

// service is a program that runs while commands do.
type service struct {
	cmd *exec.Cmd
	log bytes.Buffer
}

// hidden are the folders of the machine that a page's commands write to.
var hidden = []string{"/etc/weir", "/var/lib/weir", "/var/log/weir", "/var/log/weir-manager", "/var/backups"}

func newDocumented(t *testing.T, p page) *documented {
	t.Helper()
	dir, source := documentation(t)
	mountBPFFS(t)
	d := &documented{t: t, page: p, host: newSpace(t, "host"), dir: t.TempDir(), source: source,
		boxes: map[string]*space{}, services: map[string]*service{}, fallback: !onBPF()}
	d.network()
	for _, folder := range hidden {
		d.hide(folder)
	}
	if dockerd, err := exec.LookPath("dockerd"); err == nil {
		d.cover(dockerd, "/dev/null", "", unix.MS_BIND, "") // it does not run here, which would be a problem
	}
	for _, folder := range []string{"bpf", "docs", "lab"} {
		path, err := filepath.Abs(filepath.Join(dir, folder))
		if err = errors.Join(err, os.Symlink(path, filepath.Join(d.dir, folder))); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range p.Files {
		d.write(filepath.Join(d.dir, name), text)
	}
	if p.Switch {
		d.addSwitch()
	}
	if p.Config != "" {
		d.write("/etc/weir/weir.yaml", p.Config)
		d.start("weir agent")
	}
	return d
}

// network gives the host its uplink, and each workload of the page its devices.
func (d *documented) network() {
	d.t.Helper()
	srv := newSpace(d.t, "srv")
	d.host.bridge("br0")
	d.host.plug("br0", "eth0", srv, "eth0", serverAt(0))
	launch(srv, "receive").read()
	for i, name := range d.page.Workloads {
		box := newSpace(d.t, name)
		d.host.plug("br0", "veth-"+name, box, "eth0", workloadAt(0, i+1))
		box.knows("eth0", serverAt(0))
		srv.knows("eth0", workloadAt(0, i+1))
		d.boxes[name] = box
	}
	for _, name := range d.page.Taps {
		d.host.run("ip tuntap add " + name + " mode tap")
		d.host.run("ip link set " + name + " master br0 up")
	}
	if d.page.Address != "" {
		d.host.run("ip address add " + d.page.Address + " dev lo")
	}
}

// hide gives the test an empty folder in the place of one of the machine's.
func (d *documented) hide(dir string) {
	d.t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		d.t.Fatal(err)
	}
	d.cover(dir, "tmpfs", "tmpfs", 0, "mode=755")
}

// cover mounts something over a path until the test ends.
func (d *documented) cover(path, what, kind string, flags uintptr, data string) {
	d.t.Helper()
	if err := unix.Mount(what, path, kind, flags, data); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			d.t.Error(err)
		}
	})
}

func (d *documented) write(path, text string) {
	d.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

// follow runs the commands of a page in their order.
func (d *documented) follow(name string, commands []doccommand.Command) {
	for _, c := range commands {
		n, r := d.page.ruleOf(c.Text)
		if r.Source != "" && !d.source {
			continue
		}
		if strings.HasPrefix(c.Text, "alias ") {
			d.aliases += c.Text + "\n"
			continue
		}
		e := d.prepare(c, r)
		if r.Background {
			d.start(e.text)
			continue
		}
		fault := d.attempt(e)
		for deadline := time.Now().Add(r.Within); fault != "" && time.Now().Before(deadline); fault = d.attempt(e) {
			time.Sleep(200 * time.Millisecond)
		}
		if fault != "" {
			d.t.Errorf("%s:%d: %s\n(rule %q) %s", name, c.Line, e.text, n, fault)
		}
	}
}

// expected is a command with what it has to do here.
type expected struct {
	text   string
	most   time.Duration // then it is interrupted; 0 = it ends by itself
	code   int
	output []string // nil = whatever it prints is right
	after  string
}

// prepare brings the host to the state that the rule wants. It returns the command to run
// and the expected results.
func (d *documented) prepare(c doccommand.Command, r rule) expected {
	d.t.Helper()
	if r.Stopped != "" {
		d.stop(r.Stopped)
	}
	if r.Before != "" {
		if code, printed := d.run(r.Before, 0); code != 0 {
			d.t.Fatalf("%s: exit code %d: %s", r.Before, code, printed)
		}
	}
	e := expected{text: c.Text, most: r.For, code: r.Code, output: d.shown(c.Output), after: r.After}
	if r.Instead != "" {
		e.text, e.output = r.Instead, nil
	}
	if r.Fallback != nil && d.fallback {
		e.code = r.Fallback.Code
		if e.output != nil {
			e.output = r.Fallback.Prints
		}
	}
	return e
}

// shown returns the output that a page shows, as this host prints it; nil = the page
// shows none.
func (d *documented) shown(output []string) (list []string) {
	backend := plan.BackendBPF
	if d.fallback {
		backend = plan.BackendTC
	}
	for _, line := range output {
		for _, other := range d.page.Here {
			if other.On != "" && other.On != backend {
				continue
			}
			line = strings.ReplaceAll(line, other.Shown, other.Is)
		}
		list = append(list, line)
	}
	return list
}

// attempt runs a command once and returns the first difference from the expected results,
// "" if there is none.
func (d *documented) attempt(e expected) string {
	d.t.Helper()
	code, printed := d.run(e.text, e.most)
	if code != e.code {
		return fmt.Sprintf("ends with exit code %d, want %d; it prints\n%s", code, e.code, printed)
	}
	if e.output != nil {
		if missing := doccommand.Missing(e.output, printed); missing != "" {
			return fmt.Sprintf("does not print %q; it prints\n%s", missing, printed)
		}
	}
	if e.after != "" {
		if code, printed := d.run(e.after, 0); code != 0 {
			return fmt.Sprintf("is followed by %s, which ends with exit code %d and prints\n%s", e.after, code, printed)
		}
	}
	return ""
}

// run runs a command on the host; with most, it is interrupted after so long, as by Ctrl-C.
func (d *documented) run(text string, most time.Duration) (code int, printed string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(most, 2*patience))
	defer cancel()
	cmd := d.command(ctx, text)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGINT) }
	cmd.WaitDelay = patience
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := d.host.do(cmd.Run)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, context.DeadlineExceeded) {
		d.t.Fatalf("%s: %v", text, err)
	}
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal()), out.String() // as a shell says it
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

func (d *documented) command(ctx context.Context, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-O", "expand_aliases", "-o", "pipefail", "-c", d.aliases+text)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(weir)+":"+os.Getenv("PATH"), "HOME=/", "TERM=dumb")
	cmd.Dir = d.dir
	return cmd
}

// start starts an agent or a manager, in the place of the one before, and waits until it
// answers.
func (d *documented) start(text string) {
	d.t.Helper()
	name, answers := "agent", func(ctx context.Context) error {
		_, err := api.NewClient(api.DefaultSocket).Status(ctx)
		return err
	}
	if strings.HasPrefix(text, "weir manager ") {
		name, answers = "manager", func(ctx context.Context) error {
			_, err := api.NewManagerClient(api.DefaultManagerSocket).Cluster(ctx)
			return err
		}
	}
	d.stop(name)
	s := &service{cmd: d.command(context.Background(), "exec "+text)}
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	d.services[name] = s
	d.host.start(s.cmd)
	d.t.Cleanup(func() {
		d.end(s)
		if d.t.Failed() {
			d.t.Logf("log of %s:\n%s", text, s.log.String())
		}
	})
	await(d.t, 20*time.Second, text, func() error { return answers(d.t.Context()) })
	if name == "agent" {
		d.send()
	}
}

// send has the page's workloads send. Without an agent they would take all of a CPU.
func (d *documented) send() {
	for _, name := range d.page.Sending {
		d.senders = append(d.senders, launch(d.boxes[name], "tcp", fmt.Sprintf("%s:%d", serverAt(0).ip, tcpPort), "2"))
	}
}

// stop ends the agent or the manager, if it runs.
func (d *documented) stop(name string) {
	d.t.Helper()
	s := d.services[name]
	if s == nil {
		return
	}
	delete(d.services, name)
	if name == "agent" {
		for _, sender := range d.senders {
			sender.kill()
		}
		d.senders = nil
	}
	d.end(s)
}

// end ends a service and looks at what it said. Only the agent changes the host:
// what it found changed, it had not done right.
func (d *documented) end(s *service) {
	d.t.Helper()
	if s.cmd.ProcessState != nil {
		return
	}
	_ = s.cmd.Process.Signal(unix.SIGTERM)
	_ = s.cmd.Wait()
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, "another program changed") {
			d.t.Errorf("the agent found what nobody had done: %s", line)
		}
	}
}
