// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
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
	"weir/internal/test/logtest"
)

func (b *bed) socket() string     { return filepath.Join(b.dir, "weir.sock") }
func (b *bed) stateDir() string   { return filepath.Join(b.dir, "state") }
func (b *bed) configFile() string { return filepath.Join(b.dir, "weir.yaml") }

// configure writes the agent's configuration: all links and workloads of the
// bed, and what more is given, in YAML.
func (b *bed) configure(more string) {
	b.t.Helper()
	b.configureLinks("", more)
}

// configureLinks does the same with more settings of each link, such as ", force: true".
func (b *bed) configureLinks(settings, more string) {
	b.t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "socket: %s\nstate_dir: %s\ngroup: %s\ndocker: {enabled: false}\nlinks:\n", b.socket(), b.stateDir(), groupName)
	for _, n := range b.nets {
		fmt.Fprintf(&text, "  - {device: %s, egress: %dbit%s}\n", n.uplink, b.capacity, settings)
	}
	fmt.Fprintln(&text, "attach:")
	for i, box := range b.boxes {
		fmt.Fprintf(&text, "  - {name: w%d, netns: %s}\n", i+1, box.name)
	}
	b.write(text.String() + more)
}

// write replaces the configuration in one step.
func (b *bed) write(text string) {
	b.t.Helper()
	temp := b.configFile() + ".new"
	if err := errors.Join(os.WriteFile(temp, []byte(text), 0o644), os.Rename(temp, b.configFile())); err != nil {
		b.t.Fatal(err)
	}
}

// agent is a running "weir agent".
type agent struct {
	t    testing.TB
	cmd  *exec.Cmd
	log  logtest.Buffer // complete once done is closed
	done chan struct{}  // closed when it has ended
	*api.Client
}

// start starts an agent on the bed's host and waits until it answers.
func (b *bed) start(flags ...string) *agent {
	b.t.Helper()
	return b.startWithin(20*time.Second, flags...)
}

func (b *bed) startWithin(limit time.Duration, flags ...string) *agent {
	b.t.Helper()
	a := b.launchAgent(flags...)
	await(b.t, limit, "start of the agent", func() error {
		select {
		case <-a.done:
			b.t.Fatalf("agent ended: %s", a.log.String())
		default:
		}
		_, err := a.Status(context.Background())
		return err
	})
	return a
}

func (b *bed) launchAgent(flags ...string) *agent {
	b.t.Helper()
	a := &agent{t: b.t, done: make(chan struct{}), Client: api.NewClient(b.socket())}
	if *backend != "" {
		flags = append([]string{"--backend", *backend}, flags...)
	}
	args := append([]string{"agent", "--config", b.configFile()}, flags...)
	if a.cmd = exec.Command(weir, args...); b.limit != nil {
		a.cmd = b.limit.Command(weir, args...)
	}
	a.cmd.Stdout, a.cmd.Stderr = &a.log, &a.log
	b.host.start(a.cmd)
	go func() {
		_ = a.cmd.Wait() // judged by what it printed
		close(a.done)
	}()
	b.t.Cleanup(func() {
		a.signal(unix.SIGKILL)
		if b.t.Failed() {
			b.t.Logf("log of the agent %d:\n%s", a.pid(), a.log.String())
		}
	})
	return a
}

func (a *agent) pid() int { return a.cmd.Process.Pid }

// patience is how long a program may take to end. It is the kernel's time: while
// senders keep a busy machine's softirqs busy, closing an inotify descriptor waited
// 15 s for RCU.
const patience = time.Minute

// signal sends the agent a signal that ends it, and waits for that.
func (a *agent) signal(s syscall.Signal) {
	a.t.Helper()
	select {
	case <-a.done:
		return
	default:
	}
	_ = a.cmd.Process.Signal(s)
	select {
	case <-a.done:
	case <-time.After(patience):
		a.t.Fatalf("agent did not end within %v of %v", patience, s)
	}
}

// kill ends the agent without warning.
func (a *agent) kill() { a.t.Helper(); a.signal(unix.SIGKILL) }

// stop ends the agent as systemd does.
func (a *agent) stop() { a.t.Helper(); a.signal(unix.SIGTERM) }

// workload asks for a workload that must be there.
func (a *agent) workload(name string) api.Workload {
	a.t.Helper()
	w, err := a.Workload(context.Background(), name)
	if err != nil {
		a.t.Fatal(err)
	}
	return w
}

// answer has the output and exit code of a command of weir.
type answer struct {
	code           int
	stdout, stderr string
}

// cli runs a command of weir on the bed's host.
func (b *bed) cli(args ...string) answer {
	b.t.Helper()
	return b.cliAs(nil, args...)
}

func (b *bed) cliAs(who *syscall.Credential, args ...string) answer {
	b.t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, weir, args...)
	cmd.Env = append(os.Environ(), "WEIR_SOCKET="+b.socket(), "HOME=/")
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &errs, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	err := b.host.do(cmd.Run)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatalf("weir %s: %v", strings.Join(args, " "), err)
	}
	return answer{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// weir runs a command that has to succeed.
func (b *bed) weir(args ...string) string {
	b.t.Helper()
	got := b.cli(args...)
	if got.code != 0 {
		b.t.Fatalf("weir %s: exit code %d: %s", strings.Join(args, " "), got.code, got.stderr)
	}
	return got.stdout
}

// get returns the workloads of "weir get -o json", by their names.
func (b *bed) get() map[string]api.Workload {
	b.t.Helper()
	var list []api.Workload
	if err := json.Unmarshal([]byte(b.weir("get", "-o", "json")), &list); err != nil {
		b.t.Fatal(err)
	}
	workloads := map[string]api.Workload{}
	for _, w := range list {
		workloads[w.Name] = w
	}
	return workloads
}

// steered waits until each workload of the bed has its devices.
func (b *bed) steered(a *agent) {
	b.t.Helper()
	await(b.t, 5*time.Second, "workloads steered", func() error {
		for i := range b.boxes {
			w, err := a.Workload(context.Background(), fmt.Sprintf("w%d", i+1))
			if err != nil {
				return err
			}
			if w.State != "active" || len(w.Devices) != len(b.nets) {
				return fmt.Errorf("%s is %s with devices %v", w.Name, w.State, w.Devices)
			}
		}
		return nil
	})
}
