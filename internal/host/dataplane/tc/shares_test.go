// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"testing"
	"time"

	"weir/internal/core/plan"
)

// The tolerances are of a link of 100 Mbit/s on a machine that does other things
// at the same time: an idle one is within 0.6 Mbit/s, one with five times more to
// do than processors was within 1.9. What was measured is in the test's log.

// A packet of container 2 is counted in class 2, one of the host in class 0. The
// bridge's and the containers' own chatter may add to any class.
func TestMarkIsSeenAtTheUplink(t *testing.T) {
	b := newBed(t, 2)
	backend := b.backend()
	b.Set(backend, b.state(plan.Class{Weight: 1}, plan.Class{Weight: 1}))
	before := b.Counters(backend)
	b.Boxes[1].Run("ping", "-q", "-c", "50", "-i", "0.01", "10.77.0.254")
	b.Netns.Run("ping", "-q", "-c", "30", "-i", "0.01", "10.77.0.254")
	after := b.Counters(backend)
	for id, want := range map[plan.ClassID]uint64{0: 30, 1: 0, 2: 50} {
		got := after.Classes[id].SentPackets - before.Classes[id].SentPackets
		if got < want || got > want+20 {
			t.Errorf("class %d sent %d packets, want %d", id, got, want)
		}
	}
}

func TestSharesHold(t *testing.T) {
	for _, tt := range []struct {
		name    string
		classes []plan.Class
	}{
		{"weights 1 2 3", []plan.Class{{Weight: 1}, {Weight: 2}, {Weight: 3}}},
		{"mins 30 20 15 15, weights 1 to 5", []plan.Class{
			{Weight: 1, Min: 30 * mbit}, {Weight: 2, Min: 20 * mbit}, {Weight: 3, Min: 15 * mbit},
			{Weight: 4, Min: 15 * mbit}, {Weight: 5},
		}},
		{"maxes", []plan.Class{{Weight: 1, Max: 10 * mbit}, {Weight: 2}, {Weight: 5, Max: 30 * mbit}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBed(t, len(tt.classes))
			backend := b.backend()
			s := b.state(tt.classes...)
			b.Set(backend, s)
			b.run(backend)
			var active []plan.ClassID
			for i := range tt.classes {
				b.traffic(i + 1)
				active = append(active, plan.ClassID(i+1))
			}
			b.near(tt.name, backend, 1500*time.Millisecond, 5*time.Second, ideal(s, active...), 3)
		})
	}
}
