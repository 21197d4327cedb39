// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
)

// A queue with a max gets as much and no more, whatever its sender, discipline and place;
// another queue of the workload gets the rest of the link, and what waits behind the max waits
// for 100 ms, or for 8 frames at it.
func TestQueueMax(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := policy.Rate(rapid.IntRange(100e3, int(portRate)*3/4).Draw(t, "max"))
		d := rapid.SampledFrom([]discipline.Name{discipline.PQ, discipline.CBWFQ, discipline.LLQ}).Draw(t, "discipline")
		limited := rapid.IntRange(0, 1).Draw(t, "queue")
		queues := weighted(4, 1)
		queues[limited].Interval = plan.IntervalOf(most)
		if d == discipline.LLQ {
			queues[0].Rate = portRate
		}
		if d == discipline.CBWFQ && limited == 1 { // with the max as weight at least, the rest is what the other leaves
			queues[0].Weight, queues[1].Weight = 1, 1000
		}
		if d != discipline.CBWFQ && limited == 1 {
			limited, queues[0].Interval, queues[1].Interval = 0, queues[1].Interval, 0 // behind a greedy strict queue it would get nothing
		}
		s := simulate(fairLink(portRate), port(d, queues...))
		length := rapid.IntRange(100, 1514).Draw(t, "length")
		sender := traffic{id: flowClass, flow: limited, length: length, interval: time.Duration(float64(length) * 8e9 / float64(most) / rapid.Float64Range(1.01, 4).Draw(t, "times as much"))}
		if rapid.Bool().Draw(t, "waits for answers") {
			sender = traffic{id: flowClass, flow: limited, length: length, window: 4 + int(most/8/20)/length, delay: 10 * time.Millisecond}
		}
		s.send(sender)
		s.send(stream(1-limited, 2*portRate))
		s.settle()
		s.run(portPhase)
		got := s.result(t)[1]
		sent, rest := got.flow(flowClass, limited).sent, got.flow(flowClass, 1-limited).sent
		if want := float64(most) / 8 * portPhase.Seconds(); math.Abs(sent-want) > 0.001*want+2*float64(length) {
			t.Fatalf("%.0f bytes with a max of %d bit/s, want %.0f\n%s", sent, most, want, s)
		}
		if want := float64(portRate) / 8 * portPhase.Seconds(); sent+rest < 0.999*want {
			t.Fatalf("the link carries %.0f bytes of %.0f\n%s", sent+rest, want, s)
		}
		longest := max(100*time.Millisecond, time.Duration(8*1514*8e9/float64(most))) + 5*time.Millisecond
		if waited := got.flow(flowClass, limited).longest; waited > longest {
			t.Fatalf("a packet waited for %v, more than %v\n%s", waited, longest, s)
		}
	})
}

// TestQueuesOfSeveralPaces: queues whose next packet is further ahead than the wheel of held
// packets reaches (34 ms) delay none of another class whose time is between, also where timers fire
// late.
func TestQueuesOfSeveralPaces(t *testing.T) {
	const each = 3 * time.Millisecond
	class := func(id plan.ClassID, most policy.Rate) plan.Class {
		queues := weighted(1, 1)
		queues[0].Interval = plan.IntervalOf(most)
		return plan.Class{ID: id, Weight: 1, Discipline: discipline.PQ, Queues: queues}
	}
	classes := []plan.Class{class(1, policy.Rate(frames*8/each.Seconds()))}
	for i := range 8 { // a packet each in 37, 41, ... ms
		classes = append(classes, class(plan.ClassID(i+2), policy.Rate(frames*8/(0.037+0.004*float64(i)))))
	}
	s := simulate(fairLink(100*mbit), append(classes, plan.Class{ID: 20, Weight: 1})...)
	for _, c := range classes {
		s.send(traffic{id: c.ID, length: frames, window: 4, delay: time.Microsecond})
	}
	s.send(greedy(20))
	fmt.Fprintln(s, "tardy", (500 * time.Microsecond).Nanoseconds())
	s.settle()
	s.trace(1)
	s.run(5 * time.Second)
	left := s.result(t)[1].left[1]
	for i := range left[1:] {
		if gap := left[i+1].at - left[i].at; gap > each+2*time.Millisecond {
			t.Fatalf("%v between packets %d and %d of %d, which have a time each %v", gap, i, i+1, len(left), each)
		}
	}
	if want := int(5 * time.Second / each); len(left) < want-2 {
		t.Errorf("%d packets left, want %d", len(left), want)
	}
}
