// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/test/cputime"
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
func (a *agent) spent() time.Duration {
	a.t.Helper()
	sum, err := cputime.Of(a.pid())
	if err != nil {
		a.t.Fatal(err)
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
		"links":     flaps,
		"names":     "link set lo down\nlink set lo name lo1\nlink set lo1 name lo\n",
	} {
		t.Run(what, func(t *testing.T) {
			b := newBed(t, 2, 1)
			b.configure("  - {name: w3, netns: w3}\n")
			a := b.start()
			b.steered(a)
			time.Sleep(2 * time.Second)
			rest := a.each(4)
			b.boxes[0].flood(changes, "")
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
			b.comes(a, 3)
		})
	}
}

// Twenty containers that set their devices up and down without end, all at once, cost the agent no
// more than a part of a CPU either, and do not keep it from a workload that comes.
func TestManyFloodsOfNotices(t *testing.T) {
	const boxes, most = 20, 300 * time.Millisecond
	b := newBed(t, boxes, 1)
	b.configure(fmt.Sprintf("  - {name: w%d, netns: w%[1]d}\n", boxes+1))
	a := b.start()
	b.steered(a)
	rest := a.each(2)
	for _, box := range b.boxes {
		box.flood(flaps, "nice -n 19") // the host's CPU is not what this test is about
	}
	time.Sleep(time.Second)
	before, begun := b.carriers(), time.Now()
	each := a.each(4)
	changes := float64(b.carriers()-before) / time.Since(begun).Seconds()
	t.Logf("%v of CPU time in a second, at rest %v; carriers change %.0f times a second", each, rest, changes)
	if changes < 10*boxes {
		t.Errorf("carriers of %d devices change %.0f times a second only; this test proves nothing", boxes, changes)
	}
	if each > most {
		t.Errorf("%v of CPU time in a second while %d containers' devices go up and down, want at most %v", each, boxes, most)
	}
	b.comes(a, boxes+1)
}

// flaps has a container's device go up and down.
const flaps = "link set eth0 down\nlink set eth0 up\n"

// carriers returns how often the carriers of the host's devices have changed.
func (b *bed) carriers() (sum uint64) {
	b.t.Helper()
	var list []struct {
		Stats64 struct {
			Tx struct {
				Changes uint64 `json:"carrier_changes"`
			}
		}
	}
	if err := json.Unmarshal([]byte(b.host.run("ip -s -s -j link show")), &list); err != nil {
		b.t.Fatal(err)
	}
	for _, device := range list {
		sum += device.Stats64.Tx.Changes
	}
	return sum
}

// flood makes changes of devices in a namespace without end, until the test is over, by ip with a
// command before it.
func (s *space) flood(changes, with string) {
	s.t.Helper()
	batch := filepath.Join(s.t.TempDir(), "batch")
	if err := os.WriteFile(batch, []byte(strings.Repeat(changes, 20_000)), 0o600); err != nil {
		s.t.Fatal(err)
	}
	flood := exec.Command("sh", "-c", "while "+with+" ip -batch "+batch+"; do :; done")
	flood.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.start(flood)
	s.t.Cleanup(func() { _ = syscall.Kill(-flood.Process.Pid, syscall.SIGKILL); _ = flood.Wait() })
}

// comes plugs in a workload of the configuration, which is to be steered within a second.
func (b *bed) comes(a *agent, i int) {
	b.t.Helper()
	b.addBox(newSpace(b.t, fmt.Sprintf("w%d", i)), i)
	begin := time.Now()
	b.steered(a)
	took := time.Since(begin)
	b.t.Logf("a workload that came was steered after %v", took)
	if took > time.Second {
		b.t.Errorf("a workload that came was steered after %v, want a second", took)
	}
}

// each returns the CPU time that the agent takes in a second, over some of them.
func (a *agent) each(seconds int) time.Duration {
	a.t.Helper()
	before := a.spent()
	time.Sleep(time.Duration(seconds) * time.Second)
	return (a.spent() - before) / time.Duration(seconds)
}
