// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"math"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
)

// What the schedule promises of single clocks, bounds and limits. testdata/mutants.yaml breaks
// each.

// TestMinAfterAlone: a class with a min that had the link alone has its min as soon as others come.
func TestMinAfterAlone(t *testing.T) {
	const window = 200 * time.Millisecond
	s := simulate(fairLink(100*mbit), mins(classList(1, 10, 10), 40)...)
	s.send(greedy(1))
	s.run(5 * time.Second)
	s.send(greedy(2))
	s.send(greedy(3))
	s.run(window)
	if rate := s.result(t)[1].rate(1, window); rate < 39e6 {
		t.Errorf("it has %.1f of its 40 Mbit/s", rate/1e6)
	}
}

// TestMinAfterItsGroupWasHeld: a member whose group's max left it less than its min for 5 s does
// not make up for that at another's cost once the group may send.
func TestMinAfterItsGroupWasHeld(t *testing.T) {
	const window = time.Second
	group := plan.Class{ID: 1, Weight: 1, Group: true, Max: 10 * mbit}
	member := plan.Class{ID: 11, Weight: 1, Parent: 1, Min: 30 * mbit}
	other := plan.Class{ID: 12, Weight: 2, Parent: 1}
	s := simulate(fairLink(100*mbit), group, member, other)
	s.send(greedy(11))
	s.send(greedy(12))
	s.run(5 * time.Second)
	group.Max = 0
	s.setClass(group)
	s.run(window)
	if rate := s.result(t)[1].rate(11, window); math.Abs(rate/33.33e6-1) > 0.02 {
		t.Errorf("it has %.1f of 33.3 Mbit/s", rate/1e6)
	}
}

// TestFloodLeavesSlots: a flood of small packets with a limit above what a link can hold takes half
// of the link's slots, so that another class finds room for hundreds at once.
func TestFloodLeavesSlots(t *testing.T) {
	classes := classList(1, 1)
	classes[0].Limit = plan.Limit{Packets: 60_000, Bytes: 64 << 20}
	s := simulate(fairLink(10*mbit), classes...)
	s.send(traffic{id: 1, length: 64, interval: 5 * time.Microsecond})
	s.run(2 * time.Second)
	s.send(traffic{id: 2, length: 64, window: 500, delay: time.Millisecond})
	s.run(500 * time.Millisecond)
	if lost := s.result(t)[1].dropped[2]; lost > 0 {
		t.Errorf("%d packets of the other class found no room", lost)
	}
}

// TestLimitOfPackets: a class holds exactly as many packets as its limit.
func TestLimitOfPackets(t *testing.T) {
	const limit, sent = 50, 80
	class := plan.Class{ID: 1, Weight: 1, Max: mbit, Limit: plan.Limit{Packets: limit}, Discipline: discipline.FIFO}
	s := simulate(fairLink(100*mbit), class)
	s.send(traffic{id: 1, length: frames, window: sent, delay: time.Hour})
	s.run(time.Microsecond)
	p := s.result(t)[0]
	left := uint64(p.sent[1]) / frames
	if lost := p.dropped[1]; lost != sent-left-limit {
		t.Errorf("%d of %d packets lost, %d have left, %d may wait", lost, sent, left, limit)
	}
}

// TestLateTimers: a link whose timers fire late loses nothing by up to 10 ms, and no burst makes
// good what is more.
func TestLateTimers(t *testing.T) {
	for late, want := range map[time.Duration]float64{5 * time.Millisecond: 1, 50 * time.Millisecond: 10.85 / 50.85} {
		s := simulate(fairLink(100*mbit), classList(1)...)
		fmt.Fprintln(s, "tardy", late.Nanoseconds())
		s.send(traffic{id: 1, length: frames, window: 1000, delay: 100 * time.Microsecond})
		s.settle()
		s.run(5 * time.Second)
		if got := s.result(t)[1].total * 8 / 5 / 100e6; math.Abs(got/want-1) > 0.03 {
			t.Errorf("timers %v late: %.1f %% of the link, want %.1f", late, got*100, want*100)
		}
	}
}

// TestBoostIsBounded: a hundred classes that become active at once beside bulk go before it within
// the line's time, not all at once.
func TestBoostIsBounded(t *testing.T) {
	const pings = 100
	classes := []plan.Class{{ID: 1, Weight: 1}}
	for i := range pings {
		classes = append(classes, plan.Class{ID: plan.ClassID(i + 2), Weight: 1})
	}
	s := simulate(fairLink(100*mbit), classes...)
	s.send(greedy(1))
	for _, c := range classes[1:] {
		s.send(traffic{id: c.ID, length: 1000, interval: 40 * time.Millisecond})
	}
	s.settle()
	s.run(2 * time.Second)
	// A long batch, 0.8 ms of boosted classes, and the last packet of each.
	if p := s.result(t)[1]; p.ahead > 1900*time.Microsecond {
		t.Errorf("the sum ran %v ahead of the line", p.ahead)
	}
}

// TestTurnsOfManyClasses: with 100 classes that send all they can, none waits for longer than a
// round of a frame each.
func TestTurnsOfManyClasses(t *testing.T) {
	const n = 100
	weights := make([]uint32, n)
	for i := range weights {
		weights[i] = 1
	}
	s := simulate(fairLink(100*mbit), classList(weights...)...)
	for id := plan.ClassID(1); id <= n; id++ {
		s.send(traffic{id: id, length: frames, window: 20, delay: 100 * time.Microsecond})
	}
	s.settle()
	s.trace(1)
	s.run(time.Second)
	left := s.result(t)[1].left[1]
	for i := range left[1:] {
		if gap := left[i+1].at - left[i].at; gap > 16*time.Millisecond { // a round is 12.1 ms
			t.Fatalf("%v between two packets", gap)
		}
	}
}

// TestMoveHasNoPast: a class that has sent for long and moves into a group has its share there, and
// again when it moves out.
func TestMoveHasNoPast(t *testing.T) {
	const window = 500 * time.Millisecond
	group := plan.Class{ID: 1, Weight: 1, Group: true}
	mover := plan.Class{ID: 11, Weight: 1}
	other := plan.Class{ID: 12, Weight: 1, Parent: 1}
	s := simulate(fairLink(100*mbit), group, mover, other)
	s.send(greedy(11))
	s.run(10 * time.Second)
	s.send(greedy(12))
	for _, parent := range []plan.ClassID{1, 0} {
		mover.Parent = parent
		s.setClass(mover)
		s.run(window)
	}
	for i, p := range s.result(t)[1:3] {
		for id := plan.ClassID(11); id <= 12; id++ {
			if rate := p.rate(id, window); math.Abs(rate-50e6) > 2e6 {
				t.Errorf("move %d: class %d has %.1f of 50 Mbit/s", i, id, rate/1e6)
			}
		}
	}
}

// TestMinThatIsGone: a class that lived on its min has its share as soon as the min is taken away.
func TestMinThatIsGone(t *testing.T) {
	const window = 100 * time.Millisecond
	classes := mins(classList(1, 100), 90)
	s := simulate(fairLink(100*mbit), classes...)
	s.send(greedy(1))
	s.send(greedy(2))
	s.run(5 * time.Second)
	classes[0].Min, classes[0].Weight = 0, 100
	s.setClass(classes[0])
	s.run(window)
	if rate := s.result(t)[1].rate(1, window); rate < 47e6 {
		t.Errorf("it has %.1f of 50 Mbit/s", rate/1e6)
	}
}

// onSchedule is a class whose first queue leaves at this rate, by a schedule.
func onSchedule(rate policy.Rate) plan.Class {
	queues := weighted(1, 1)
	queues[0].Interval, queues[0].Reserve = plan.IntervalOf(rate), rate
	return port(discipline.PQ, queues...)
}

// TestHeldPacketsHaveLimits: packets held for a schedule are within the limits of their class and
// of the link, as all others.
func TestHeldPacketsHaveLimits(t *testing.T) {
	const length = 1000
	t.Run("bytes of the class", func(t *testing.T) {
		class := onSchedule(mbit)
		class.Limit = plan.Limit{Packets: 4096, Bytes: 60_000}
		class.Queues[0].LimitPackets = 4096
		s := simulate(fairLink(100*mbit), class)
		s.send(traffic{id: flowClass, length: length, window: 100, delay: time.Hour})
		s.run(time.Microsecond)
		p := s.result(t)[0]
		if held := 100 - int(p.dropped[flowClass]) - int(p.sent[flowClass])/length; held > 60 {
			t.Errorf("%d packets of %d bytes are held, the class's limit is 60,000", held, length)
		}
	})
	t.Run("slots of the link", func(t *testing.T) {
		class := onSchedule(mbit)
		class.Limit = plan.Limit{Packets: 60_000, Bytes: 1 << 30}
		class.Queues[0].LimitPackets = 60_000
		s := simulate(fairLink(100*mbit), class, plan.Class{ID: 2, Weight: 1})
		s.send(traffic{id: flowClass, length: 64, interval: 10 * time.Microsecond})
		s.run(2 * time.Second)
		s.send(traffic{id: 2, length: 64, window: 500, delay: time.Millisecond})
		s.run(200 * time.Millisecond)
		if lost := s.result(t)[1].dropped[2]; lost > 0 {
			t.Errorf("%d packets of another class found no room", lost)
		}
	})
}
