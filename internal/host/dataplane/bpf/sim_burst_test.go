// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"math"
	"testing"
	"time"

	"weir/internal/core/plan"
)

// TestBurst: after it was quiet a class sends its burst above its max, beside others by its
// share; then its max holds. A min is held all the time, and what was used up comes back
// at the rate of the max.
func TestBurst(t *testing.T) {
	const burst = 2_500_000 // 2 s of its max
	web := plan.Class{ID: 1, Weight: 1, Max: 10e6, Burst: burst}
	s := simulate(fairLink(100e6), web, plan.Class{ID: 2, Weight: 1, Min: 60e6}, plan.Class{ID: 3, Weight: 1})
	s.send(greedy(2))
	s.send(greedy(3))
	s.run(5 * time.Second)
	s.send(greedy(1))
	s.run(500 * time.Millisecond) // its share: 20
	s.run(4500 * time.Millisecond)
	s.run(5 * time.Second) // used up
	s.stop(1)
	s.run(1 * time.Second) // half of it comes back
	s.send(greedy(1))
	s.run(5 * time.Second)
	s.run(5 * time.Second)
	p := s.result(t)
	within := func(what string, got, want, part float64) {
		t.Helper()
		if math.Abs(got-want) > part*want {
			t.Errorf("%s: %.0f, want %.0f", what, got, want)
		}
	}
	within("its share at first", p[1].rate(1, 500*time.Millisecond), 20e6, 0.03)
	within("burst and max", p[1].sent[1]+p[2].sent[1], burst+10e6/8*5, 0.01)
	within("max", p[3].rate(1, 5*time.Second), 10e6, 0.01)
	within("half a burst and max", p[5].sent[1], burst/2+10e6/8*5, 0.01)
	within("max again", p[6].rate(1, 5*time.Second), 10e6, 0.01)
	for i, over := range []time.Duration{5 * time.Second, 500 * time.Millisecond, 4500 * time.Millisecond, 5 * time.Second} {
		if got := p[i].rate(2, over); got < 0.98*60e6 {
			t.Errorf("phase %d: the min of 60 Mbit/s is %.1f", i+1, got/1e6)
		}
	}
}

// TestBurstOfAGroup: the members of a group share its burst.
func TestBurstOfAGroup(t *testing.T) {
	const burst = 2_500_000
	group := plan.Class{ID: 4, Weight: 1, Max: 10e6, Burst: burst, Group: true}
	s := simulate(fairLink(100e6), group, plan.Class{ID: 1, Weight: 1, Parent: 4}, plan.Class{ID: 2, Weight: 1, Parent: 4})
	s.run(5 * time.Second)
	s.send(greedy(1))
	s.send(greedy(2))
	s.run(5 * time.Second)
	s.run(5 * time.Second)
	p := s.result(t)
	if got := p[1].sent[1] + p[1].sent[2]; math.Abs(got-burst-10e6/8*5) > 0.01*got {
		t.Errorf("the group sent %.0f bytes, want %.0f", got, burst+10e6/8*5)
	}
	if got := p[2].sent[1] + p[2].sent[2]; math.Abs(got-10e6/8*5) > 0.01*got {
		t.Errorf("then it sent %.0f bytes, want %.0f", got, 10e6/8*5)
	}
}
