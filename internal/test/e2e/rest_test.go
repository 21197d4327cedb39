// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An agent at rest does next to nothing: what it reads has not changed, and most of what may
// change is told by the kernel. The bars are CPU time, which in a virtual machine in virtual time
// is instructions (a nanosecond each), so that they mean the same on every host:
//
//	vm/run --virtual-time --copy e2e.test -- ./e2e.test -test.run AgentAtRest -test.v -backend bpf
func TestAgentAtRest(t *testing.T) {
	if *backend != "bpf" {
		t.Skip("skipped: the tc fallback computes its rates anew five times a second")
	}
	b := newBed(t, 0, 1)
	boxes := func(n int) {
		for i := len(b.boxes) + 1; i <= n; i++ {
			b.addBox(newSpace(t, fmt.Sprintf("w%d", i)), i)
		}
	}
	for _, bar := range []struct {
		workloads int
		most      time.Duration // of CPU time, in a second
	}{{0, 2 * time.Millisecond}, {5, 3 * time.Millisecond}, {100, 4 * time.Millisecond}} {
		boxes(bar.workloads)
		b.configure("")
		a := b.start()
		b.steered(a)
		time.Sleep(time.Minute) // the start, and what IPv6 sends after it
		const seconds = 120     // a multiple of all that the agent does now and then
		each := a.each(seconds)
		t.Logf("%d workloads: %.2f million instructions a second", bar.workloads, float64(each)/1e6)
		if each > bar.most {
			t.Errorf("%d workloads: %v of CPU time in a second at rest, want at most %v", bar.workloads, each, bar.most)
		}
		a.stop()
	}
}

// spent returns the CPU time that the agent has had.
func (a *agent) spent() (sum time.Duration) {
	a.t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", a.pid()))
	if err != nil || len(threads) == 0 {
		a.t.Fatalf("the agent's CPU time: %d threads, %v", len(threads), err)
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			a.t.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// A container that changes its own devices without end, as it may with CAP_NET_ADMIN in its own
// namespace, costs the agent a part of a CPU that is bounded, beyond what it takes at rest, and
// does not keep it from what others do. The kernel tells the agent of the addresses, since it
// listens to all namespaces, and of up and down as changes of the host's end.
func TestFloodOfNotices(t *testing.T) {
	for what, changes := range map[string]string{
		"addresses": "addr add 10.8.0.1/32 dev lo\naddr del 10.8.0.1/32 dev lo\n",
		"links":     "link set eth0 down\nlink set eth0 up\n",
		"names":     "link set lo down\nlink set lo name lo1\nlink set lo1 name lo\n",
	} {
		t.Run(what, func(t *testing.T) {
			b := newBed(t, 2, 1)
			b.configure("  - {name: w3, netns: w3}\n")
			a := b.start()
			b.steered(a)
			batch := filepath.Join(t.TempDir(), "batch")
			if err := os.WriteFile(batch, []byte(strings.Repeat(changes, 20_000)), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			rest := a.each(4)
			flood := exec.Command("sh", "-c", "while ip -batch "+batch+"; do :; done")
			flood.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			b.boxes[0].start(flood)
			defer func() { _ = syscall.Kill(-flood.Process.Pid, syscall.SIGKILL); _ = flood.Wait() }()
			time.Sleep(2 * time.Second)
			each := a.each(6)
			t.Logf("%v of CPU time in a second, at rest %v", each, rest)
			most := 40 * time.Millisecond
			if *backend != "bpf" { // outside of virtual time locks that the kernel spins on count, too
				most = 100 * time.Millisecond
			}
			if each-rest > most {
				t.Errorf("%v of CPU time in a second during a flood, at rest %v, want at most %v more", each, rest, most)
			}
			if w := a.workload("w2"); w.State != "active" {
				t.Errorf("the other workload is %s", w.State)
			}
			b.addBox(newSpace(t, "w3"), 3)
			begin := time.Now()
			b.steered(a)
			took := time.Since(begin)
			t.Logf("a workload that came was steered after %v", took)
			if took > time.Second {
				t.Errorf("a workload that came was steered after %v, want a second", took)
			}
		})
	}
}

// each returns the CPU time that the agent takes in a second, over some of them.
func (a *agent) each(seconds int) time.Duration {
	a.t.Helper()
	before := a.spent()
	time.Sleep(time.Duration(seconds) * time.Second)
	return (a.spent() - before) / time.Duration(seconds)
}
