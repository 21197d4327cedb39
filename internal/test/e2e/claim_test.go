// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/core/policy"
)

// contended returns a bed with an agent and two workloads, of the weights 1 and 3, that
// both want more of network 0 than there is, and what they should get of it.
func contended(t *testing.T, networks int) (b *bed, a *agent, ideal []float64) {
	b = newBed(t, 2, networks)
	b.configure("workloads:\n  w1: {weight: 1}\n  w2: {weight: 3}\n")
	a = b.start()
	b.steered(a)
	b.flood(0, 1, 0.9)
	b.flood(0, 2, 0.9)
	b.warmUp()
	return b, a, b.ideal(policy.Policy{Weight: 1}, policy.Policy{Weight: 3})
}

// A network namespace has one agent. A second one is refused, whatever its socket,
// its state folder and its links, and what the first one holds stays as it is.
func TestSecondAgent(t *testing.T) {
	b, a, ideal := contended(t, 2)
	b.same("alone", b.full(0, time.Second), ideal, unchanged)
	qdisc, traces := b.rootQdisc(0), b.traces()

	away := t.TempDir()
	for _, args := range []string{
		"agent --docker=false --link up0=10mbit --socket %[1]s/weir.sock --state-dir %[1]s",
		"agent --docker=false --link up1=10mbit --socket %[1]s/weir.sock --state-dir %[1]s",
		"agent --docker=false --link dummy9=10mbit --socket %[1]s/weir.sock --state-dir %[1]s --backend tc",
		"cleanup --socket %[1]s/weir.sock --state-dir %[1]s",
	} {
		args = fmt.Sprintf(args, away)
		b.oneLine("weir "+args, b.cli(strings.Fields(args)...), 1, fmt.Sprintf("process %d", a.pid()), "systemctl stop weir")
	}
	b.same("beside refused agents", b.full(0, time.Second), ideal, unchanged)
	if got := b.rootQdisc(0); got != qdisc {
		t.Errorf("qdisc was %q, is %q", qdisc, got)
	}
	b.unchanged("after the refusals", traces, b.traces())
	if left, _ := filepath.Glob(filepath.Join(away, "*.sock")); len(left) > 0 {
		t.Errorf("a refused agent left %v", left)
	}

	// The claim ends with its process, however that ends.
	a.kill()
	a = b.start()
	b.steered(a)
	a.stop()
	b.weir("cleanup")
	if pins := inventory(t, nil).Pins; len(pins) > 0 {
		t.Errorf("pins are left: %v", pins)
	}
	if _, err := os.Stat("/sys/fs/bpf/weir"); err == nil {
		t.Error("/sys/fs/bpf/weir is left")
	}
}
