// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"testing"

	"weir/internal/core/plan"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
	"weir/internal/host/dataplane/mark/marktest"
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
	s := b.state(plan.Class{Weight: 1, Discipline: discipline.PQ, Queues: queues})
	s.Classes[0].Discipline, s.Classes[0].Queues = discipline.PQ, queues
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

// Where another program has overwritten the mark, the class is in the seal.
func TestOverwrittenMark(t *testing.T) {
	b := newBed(t, 2)
	backend := b.backend()
	s := b.state(plan.Class{Weight: 1}, plan.Class{Weight: 1})
	b.Set(backend, s)
	for _, port := range s.Ports {
		marktest.Overwrite(t, port.Ifindex, 2<<16|0xf00) // as if all were of class 2
	}
	const packets = 20
	before := sentPackets(t, backend, 2)
	b.Boxes[0].Run("bash", "-c", "for i in $(seq 20); do echo x > /dev/udp/10.77.0.254/9; done")
	if got := sentPackets(t, backend, 1); got < packets {
		t.Errorf("class 1 sent %d packets, want %d at least", got, packets)
	}
	if got := sentPackets(t, backend, 2) - before; got >= packets {
		t.Errorf("class 2 sent %d packets, which it has not", got)
	}
}
