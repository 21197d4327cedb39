// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"testing"

	"weir/internal/plan"
	"weir/internal/policy"
	"weir/internal/policy/classify"
)

// A packet's queue is in the mark beside its class, and HTB's classifier looks at
// the class alone: of containers with rules, and of the host with rules.
func TestRulesKeepTheClass(t *testing.T) {
	b := newBed(t, 1)
	b.Netns.Run("ip", "addr", "add", "10.77.0.100/24", "dev", "br0")
	backend := b.backend()
	match, err := classify.ParseMatches("{udp: 5001}")
	if err != nil {
		t.Fatal(err)
	}
	dscp := uint8(46)
	queues := []plan.Queue{{Name: "voice", Match: match, DSCP: &dscp}, {Name: "rest"}}
	s := b.state(plan.Class{Weight: 1, Discipline: policy.PQ, Queues: queues})
	s.Classes[0].Discipline, s.Classes[0].Queues = policy.PQ, queues
	b.Set(backend, s)
	const packets = 20
	send := "for i in $(seq 20); do echo x > /dev/udp/10.77.0.254/5001; echo x > /dev/udp/10.77.0.254/9; done"
	for class, run := range []func(...string) string{b.Netns.Run, b.Boxes[0].Run} {
		before := sentPackets(t, backend, plan.ClassID(class))
		run("bash", "-c", send)
		if got := sentPackets(t, backend, plan.ClassID(class)) - before; got < 2*packets {
			t.Errorf("class %d sent %d packets, want %d at least", class, got, 2*packets)
		}
	}
}

func sentPackets(t *testing.T, b *Backend, class plan.ClassID) uint64 {
	t.Helper()
	snap, err := b.Counters()
	if err != nil {
		t.Fatal(err)
	}
	return snap.Classes[class].SentPackets
}
