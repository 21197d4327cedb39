// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/plan"
	"weir/internal/policy"
)

// busy makes class id send all it can by this many bulk flows.
func (s *simulation) busy(id plan.ClassID, flows int) {
	for f := range flows {
		s.send(traffic{id: id, flow: f, length: frames, window: 40, delay: 200 * time.Microsecond})
	}
}

// TestSparseFlowsOfBusyClasses: a flow that sends little in a class that sends all it can
// does not wait for the class's turn, nor for a batch, on slow links and fast ones, beside
// one busy class and beside eight; and the shares stay.
func TestSparseFlowsOfBusyClasses(t *testing.T) {
	const ping = 7
	for _, capacity := range []policy.Rate{20e6, 100e6, 400e6} {
		for _, others := range []int{1, 8} {
			t.Run(fmt.Sprintf("%v beside %d", capacity, others), func(t *testing.T) {
				var classes []plan.Class
				for id := range others + 1 {
					classes = append(classes, plan.Class{ID: plan.ClassID(id + 1), Weight: 1})
				}
				s := simulate(fairLink(capacity), classes...)
				s.busy(1, 2)
				for _, c := range classes[1:] {
					s.busy(c.ID, 4)
				}
				s.send(traffic{id: 1, flow: ping, length: 98, interval: 9 * time.Millisecond})
				s.settle()
				s.run(4 * time.Second)
				p := s.result(t)[1]
				got := p.flow(1, ping)
				if longest := time.Duration(got.longest); longest > 300*time.Microsecond {
					t.Errorf("the ping waited %v", longest)
				}
				holds(t, fairLink(capacity), classes, ids(classes), p, 4*time.Second, 0.01)
			})
		}
	}
}

// TestManySparseFlowsGainNothing: a class of two hundred flows that have one packet each
// gets its share and no more, and neither the sparse flow of an honest busy class nor a
// quiet class waits longer than beside bulk flows.
func TestManySparseFlowsGainNothing(t *testing.T) {
	classes := []plan.Class{{ID: 1, Weight: 1}, {ID: 2, Weight: 1}, {ID: 3, Weight: 1}}
	run := func(greedy func(s *simulation)) phase {
		s := simulate(fairLink(100e6), classes...)
		greedy(s)
		s.busy(2, 4)
		s.send(traffic{id: 2, flow: 7, length: 98, interval: 9 * time.Millisecond})
		s.send(traffic{id: 3, length: 98, interval: 9 * time.Millisecond})
		s.settle()
		s.run(4 * time.Second)
		return s.result(t)[1]
	}
	p := run(func(s *simulation) {
		for f := range 200 {
			s.send(traffic{id: 1, flow: f, length: frames, window: 1, delay: time.Microsecond})
		}
	})
	if share := p.sent[1] / (p.sent[1] + p.sent[2]); share < 0.495 || share > 0.505 {
		t.Errorf("two hundred flows of one packet get %.2f %% of what two classes share", share*100)
	}
	if longest := time.Duration(p.flow(3, 0).longest); longest > 250*time.Microsecond {
		t.Errorf("the quiet class waited %v", longest)
	}
	t.Logf("a sparse flow of an honest busy class waited %v at most", time.Duration(p.flow(2, 7).longest))
}
