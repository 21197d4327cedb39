// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
		before := a.spent()
		time.Sleep(seconds * time.Second)
		each := (a.spent() - before) / seconds
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
