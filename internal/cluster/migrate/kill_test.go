// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"golang.org/x/sys/unix"

	"weir/internal/base/nsthread"
	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// trap is a CRIU for the engines that are started after it: while it is set for a node, each
// CRIU there stops at its beginning, for killAt to find it.
type trap struct{ file string }

func newTrap(t *testing.T) trap {
	dir := t.TempDir()
	real, err := exec.LookPath("criu")
	if err != nil {
		t.Skip("no criu: scripts/deps cluster installs it")
	}
	set := trap{filepath.Join(dir, "set")}
	script := fmt.Sprintf("#!/bin/sh\ngrep -qsFf %s /proc/$PPID/cmdline && kill -STOP $$\nexec %s \"$@\"\n", set.file, real)
	if err := os.WriteFile(filepath.Join(dir, "criu"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return set
}

// killAt kills a program (criu, or runc above it; with "" CRIU stands still from then on) on a
// node at the moment when a log of CRIU's has a mark: CRIU goes on by a millisecond at a time. The
// function returned ends the wait and says whether it came to that.
func (set trap) killAt(t *testing.T, n *clustertest.Node, log, mark, program string) func() bool {
	ctx, cancel := context.WithCancel(t.Context())
	if err := os.WriteFile(set.file, []byte(n.Dir()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan bool, 1)
	go func() {
		// Its thread comes before all others of a busy machine, and ends with this
		// function.
		runtime.LockOSThread()
		if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 10}, 0); err != nil {
			t.Logf("without real time: %v", err)
		}
		for ctx.Err() == nil {
			for _, pid := range programs(n, "criu") {
				if killIn(ctx, n, pid, log, mark, program) {
					_ = os.Remove(set.file) // of its own folder
					done <- true
					return
				}
			}
			pause(2 * time.Millisecond)
		}
		done <- false
	}()
	return func() bool {
		cancel()
		_ = os.Remove(set.file) // or it is removed already
		return <-done
	}
}

// killIn is killAt for one CRIU. It returns false if that ends before it comes to the mark.
func killIn(ctx context.Context, n *clustertest.Node, criu int, log, mark, program string) bool {
	for ctx.Err() == nil && syscall.Kill(criu, syscall.SIGSTOP) == nil {
		logs, _ := filepath.Glob(filepath.Join(n.Dir(), log))
		for _, l := range logs {
			text, _ := os.ReadFile(l)
			if !bytes.Contains(text, []byte(mark)) && (mark != freezes || len(frozenOn(n)) == 0) {
				continue
			}
			if program == "" {
				return true
			}
			for _, p := range strings.Split(program, "+") {
				for _, pid := range programs(n, p) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			_ = syscall.Kill(criu, syscall.SIGCONT)
			return true
		}
		_ = syscall.Kill(criu, syscall.SIGCONT)
		pause(time.Millisecond)
	}
	return false
}

// freezes is the mark of CRIU's log when it freezes a container by cgroups of version 1. By
// version 2 it says nothing, and the cgroup itself tells.
const freezes = "freezer.state=FR"

// frozenOn lists the cgroups of a node's containers that are frozen.
func frozenOn(n *clustertest.Node) []string {
	base := filepath.Base(n.Dir())
	return append(frozen("/sys/fs/cgroup/"+base+"/*"), frozen("/sys/fs/cgroup/*/"+base+"/*")...)
}

// pause sleeps without giving up the thread.
func pause(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil)
}

// programs finds CRIU (swrk) or runc (runc) at work for a node.
func programs(n *clustertest.Node, program string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		text, _ := os.ReadFile(file)
		args := strings.ReplaceAll(string(text), "\x00", " ")
		pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
		switch {
		case program == "criu" && (strings.Contains(args, " swrk ") || strings.Contains(args, " --rpc ")):
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			_, fields, _ := strings.Cut(string(stat), ") ")
			if f := strings.Fields(fields); len(f) > 1 {
				parent, _ := os.ReadFile("/proc/" + f[1] + "/cmdline")
				if strings.HasPrefix(string(parent), "runc") && strings.Contains(string(parent), n.Dir()) {
					pids = append(pids, pid)
				}
			}
		case program == "runc" && strings.HasPrefix(args, "runc ") && strings.Contains(args, n.Dir()):
			pids = append(pids, pid)
		}
	}
	return pids
}

// kill is a program that is killed at a moment of a move.
type kill struct {
	node    string // a, the source, or b, the target
	program string // criu, runc, or both with + between
	mark    string // of CRIU's log there
	seldom  bool   // with -long alone
}

var kills = []kill{
	{"a", "criu", freezes, false},
	{"a", "criu", "SEIZE", true},
	{"a", "criu", "net: Collecting netns", false},
	{"a", "criu", "Dumping task (pid", true},
	{"a", "criu", "Writing image inventory", true},
	{"a", "criu", "Unfreezing tasks into", false}, // all is written, and the processes are killed
	{"a", "runc", freezes, true},
	{"a", "runc+criu", freezes, false}, // as with the helper's unit
	{"a", "runc", "net: Collecting netns", true},
	{"a", "runc", "Dumping task (pid", false},
	{"b", "criu", "Running setup-namespaces scripts", true},
	{"b", "criu", "Restoring namespaces", true},
	{"b", "criu", "Switched to the restorer", false},
	{"b", "criu", "net: Unlock network", true},
	{"b", "criu", "Running pre-resume scripts", true},
	{"b", "runc", "Restoring namespaces", true},
	{"b", "runc", "Switched to the restorer", false},
}

var criuLogs = map[string]string{
	"a": "data/containers/*/weir-*/work/dump.log",
	"b": "data/containerd/daemon/io.containerd.runtime.v2.task/moby/*/restore.log",
}

// TestNothingOfAKilledMoveStays: CRIU or runc is killed at a step of a move. The container goes
// on with its memory and can be reached, and no rule, freeze, process or device of the move is
// left on either node.
func TestNothingOfAKilledMoveStays(t *testing.T) {
	set := newTrap(t)
	b := &faultBed{bed: newBed(t, clustertest.Options{Nodes: []string{"a", "b"}}), before: map[string]string{}}
	const name = "count"
	for _, n := range b.Nodes() {
		b.before[n.Name] = b.leftovers(n.Name, name)
	}
	b.start("a", name, nil, "mib=16", "tcp=1")
	for i, k := range kills {
		if k.seldom && !*long {
			continue
		}
		title := fmt.Sprintf("%s of %s killed at %q", k.program, k.node, k.mark)
		if !t.Run(title, func(t *testing.T) { b.killMove(t, set, i, k, name, title) }) {
			t.FailNow() // the rest would only repeat it
		}
	}
}

// killMove moves a container from a to b, and kills a program at a step.
func (b *faultBed) killMove(t *testing.T, set trap, i int, k kill, name, title string) {
	b.t = t
	p := b.check(name, "a", "b", migrate.Request{})
	b.must(p.Err())
	p.Order.Lease, p.Order.PreCopy = 8*time.Second, false // without which a move goes on
	j, err := b.journals.Begin(p.Order)
	b.must(err)
	killed := set.killAt(t, b.Node(k.node), criuLogs[k.node], k.mark, k.program)
	r, err := migrate.Run(context.Background(), b.nodes["a"], b.nodes["b"], j, nil)
	came := killed()
	b.must(errors.Join(err, j.Close()))
	t.Logf("%d %s: %s after %v: %s; %s", i, title, r.State, r.Downtime.Round(time.Millisecond), r.Err, r.Warning)
	if !came || r.State != wire.MoveRolledBack || strings.Contains(r.Warning, "without") {
		t.Fatalf("%s: killed %v, %s: %s %s%s", title, came, r.State, r.Err, r.Warning, steps(r))
	}
	b.reaches("a", name)
	c := b.waitCount("a", name, 0)
	if c = b.waitCount("a", name, c.Last+3); c.Starts != 1 {
		t.Errorf("%s: it has started %d times", title, c.Starts)
	}
	for _, n := range b.Nodes() {
		if got := b.leftovers(n.Name, name); got != b.before[n.Name] {
			t.Errorf("%s: left on %s:\n%s\nwanted:\n%s", title, n.Name, got, b.before[n.Name])
		}
		if got := b.remnants(n); len(got) > 0 {
			t.Errorf("%s: left on %s: %q", title, n.Name, got)
		}
	}
}

// reaches connects to a counter with tcp=1 from its node, and reads a line.
func (b *bed) reaches(node, name string) {
	b.t.Helper()
	c, err := b.Node(node).Docker().ContainerInspect(b.t.Context(), name)
	b.must(err)
	address := c.NetworkSettings.Networks["bridge"].IPAddress + ":7000"
	err = nsthread.InPath(b.Node(node).Netns, func() error {
		conn, err := net.DialTimeout("tcp", address, 3*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetReadDeadline(time.Now().Add(3 * time.Second))
		_, err = conn.Read(make([]byte, 1))
		return err
	})
	if err != nil {
		b.t.Errorf("%s cannot be reached on %s: %v", name, node, err)
	}
}

// inside runs f in a node's network namespace.
func (b *bed) inside(n *clustertest.Node, f func() error) error { return nsthread.InPath(n.Netns, f) }

// remnants lists what CRIU leaves on a node when it is killed: rules, freezes, processes that
// are in no container that runs, and the ends of cables to them.
func (b *bed) remnants(n *clustertest.Node) (list []string) {
	running, err := n.Docker().ContainerList(b.t.Context(), container.ListOptions{})
	b.must(err)
	known := map[string]bool{}
	for _, summary := range running {
		c, err := n.Docker().ContainerInspect(b.t.Context(), summary.ID)
		b.must(err)
		known[c.ID] = true
		for _, tool := range []string{"iptables-save", "ip6tables-save", "nft list ruleset"} {
			args := append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", c.State.Pid), "--"}, strings.Fields(tool)...)
			out, err := exec.Command("nsenter", args...).Output()
			if b.must(err); strings.Contains(string(out), "CRIU") {
				list = append(list, c.Name+" has rules of CRIU's ("+tool+")")
			}
		}
	}
	list = append(list, frozenOn(n)...)
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/" + filepath.Base(n.Dir()) + "/*")
	second, _ := filepath.Glob("/sys/fs/cgroup/" + filepath.Base(n.Dir()) + "/*/cgroup.procs")
	for _, file := range second {
		groups = append(groups, filepath.Dir(file))
	}
	for _, g := range groups {
		if procs, _ := os.ReadFile(g + "/cgroup.procs"); len(procs) > 0 && !known[filepath.Base(g)] {
			list = append(list, g+" has processes "+string(procs))
		}
	}
	for _, pid := range append(programs(n, "criu"), programs(n, "runc")...) {
		list = append(list, fmt.Sprintf("process %d of CRIU or runc", pid))
	}
	links, err := n.Command(b.t.Context(), "ip", "-brief", "link").Output()
	b.must(err)
	if cables := strings.Count("\n"+string(links), "\nveth"); cables > len(known) {
		list = append(list, fmt.Sprintf("%d cables to %d containers", cables, len(known)))
	}
	return list
}

// TestNothingOfAKilledAgentStays: the source's agent is killed while CRIU dumps, and CRIU stands
// still. The next agent finds it, ends it, and the container goes on with its memory.
func TestNothingOfAKilledAgentStays(t *testing.T) {
	set := newTrap(t)
	b := &faultBed{bed: newBed(t, clustertest.Options{Nodes: []string{"a", "b"}})}
	const name = "count"
	before := b.leftovers("b", name)
	b.start("a", name, nil, "mib=16", "tcp=1")
	for _, mark := range []string{"SEIZE", "net: Collecting netns"} {
		p := b.check(name, "a", "b", migrate.Request{})
		b.must(p.Err())
		j, err := b.journals.Begin(p.Order)
		b.must(err)
		reached := set.killAt(t, b.Node("a"), criuLogs["a"], mark, "")
		source, dead := abandoned{b.nodes["a"], make(chan bool)}, make(chan bool)
		go func() { // the agent that dies: it learns nothing any more, and does nothing
			defer close(dead)
			defer func() { _ = recover() }()
			_, _ = migrate.Run(context.Background(), source, b.nodes["b"], j, nil)
		}()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(set.file); err != nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("CRIU has not come to %q", mark)
			}
		}
		reached()
		b.must(j.Close())
		b.restartAgent("a")
		open, err := b.journals.Unfinished()
		b.must(err)
		if len(open) != 1 {
			t.Fatalf("%d journals are unfinished", len(open))
		}
		r, err := migrate.Resume(context.Background(), b.agent("a"), b.nodes["b"], open[0], nil)
		b.must(errors.Join(err, open[0].Close()))
		close(source.gone)
		<-dead
		t.Logf("%q: %s after %v: %s; %s", mark, r.State, r.Downtime.Round(time.Millisecond), r.Err, r.Warning)
		if r.State != wire.MoveRolledBack || strings.Contains(r.Warning, "without") {
			t.Fatalf("%q: %s: %s; %s", mark, r.State, r.Err, r.Warning)
		}
		b.reaches("a", name)
		c := b.waitCount("a", name, 0)
		if c = b.waitCount("a", name, c.Last+3); c.Starts != 1 {
			t.Errorf("%q: it has started %d times", mark, c.Starts)
		}
		for _, n := range b.Nodes() {
			if got := b.remnants(n); len(got) > 0 {
				t.Errorf("%q: left on %s: %q", mark, n.Name, got)
			}
		}
		if got := b.leftovers("b", name); got != before {
			t.Errorf("%q: left on b:\n%s\nwanted:\n%s", mark, got, before)
		}
	}
}

// abandoned is a node whose agent dies during its step freeze: no answer comes, and what the
// agent would have done after that does not happen.
type abandoned struct {
	migrate.Node
	gone chan bool
}

func (n abandoned) Do(ctx context.Context, step move.Step, o migrate.MoveSpec) (migrate.StepOutcome, error) {
	if step != move.Freeze {
		return n.Node.Do(ctx, step, o)
	}
	go func() { _, _ = n.Node.Do(context.Background(), step, o) }()
	<-n.gone
	panic(crash{})
}
