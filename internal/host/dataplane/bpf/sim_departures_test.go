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

// later has the packets of a flow ask to leave so much later than they come.
func (s *simulation) later(t traffic, by time.Duration) {
	fmt.Fprintln(s, "later", int(t.id)+t.flow*plan.MaxClasses, by.Nanoseconds())
}

// mostBeyond is what a packet waits beyond its time on a link of 1 Gbit/s that is not busy: a
// bucket of the wheel, and what the packets of other flows keep the line busy for.
const mostBeyond = 33*time.Microsecond + 300*time.Microsecond

// Packets leave at the time that they ask for, and not before, whatever the scheduler, the
// discipline and the other flows ask for; a flow keeps its order. One that asks for more than 10 s
// is as one that asks for nothing.
func TestDepartureTimesAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		link := fairLink(1e9)
		link.Scheduler = rapid.SampledFrom(plan.Schedulers).Draw(t, "scheduler")
		c := plan.Class{ID: 1, Name: "c1", Weight: 1}
		c.Discipline = rapid.SampledFrom([]discipline.Name{discipline.FIFO, discipline.SFQ, discipline.PQ, discipline.CBWFQ, discipline.LLQ}).Draw(t, "discipline")
		if c.Discipline != discipline.FIFO && c.Discipline != discipline.SFQ {
			c.Queues = make([]plan.Queue, 8)
			for q := range c.Queues {
				c.Queues[q] = plan.Queue{Name: fmt.Sprint("q", q), Weight: 1}
			}
		}
		s := simulate(link, c)
		s.trace(1)
		asked := map[int]time.Duration{}
		for flow := range rapid.IntRange(1, 4).Draw(t, "flows") {
			src := traffic{id: 1, flow: flow, length: rapid.IntRange(60, 1514).Draw(t, "length"),
				interval: time.Duration(rapid.IntRange(10e6, 50e6).Draw(t, "every"))}
			by := time.Duration(rapid.OneOf(rapid.Int64Range(0, 30e6), rapid.Int64Range(0, 9e9), rapid.SampledFrom([]int64{11e9, 3600e9, math.MaxInt64 / 2})).Draw(t, "later"))
			s.later(src, by)
			s.send(src)
			if asked[flow] = by; by > 10*time.Second {
				asked[flow] = 0
			}
		}
		s.run(10 * time.Second)
		last, packets := map[int]time.Duration{}, 0
		for _, d := range s.result(t)[0].left[1] {
			packets++
			if beyond := d.at - d.born - asked[d.flow]; beyond < 0 || beyond > mostBeyond {
				t.Fatalf("flow %d asks for %v and leaves %v after that\n%s", d.flow, asked[d.flow], beyond, s)
			}
			if d.born < last[d.flow] {
				t.Fatalf("flow %d: a packet of %v leaves after one of %v\n%s", d.flow, d.born, last[d.flow], s)
			}
			last[d.flow] = d.born
		}
		if packets == 0 {
			t.Fatalf("nothing left\n%s", s)
		}
	})
}

// Packets with times get their class's share and no more, and cost the others nothing; none is lost
// for its time. The simulator checks that counters add up.
func TestDepartureTimesAndShares(t *testing.T) {
	for _, scheduler := range plan.Schedulers {
		link := fairLink(100e6)
		link.Scheduler = scheduler
		one, two := plan.Class{ID: 1, Name: "one", Weight: 1}, plan.Class{ID: 2, Name: "two", Weight: 3}
		modest := traffic{id: 1, flow: 1, length: 1000, interval: 8 * time.Millisecond}
		s := simulate(link, one, two)
		for flow := range 4 {
			eager := traffic{id: 1, flow: 2 + flow, length: frames, window: 20, delay: time.Millisecond}
			s.later(eager, time.Duration(flow)*7*time.Millisecond)
			s.send(eager)
		}
		s.later(modest, 9*time.Second)
		s.send(modest)
		s.send(traffic{id: 2, length: frames, window: 100, delay: time.Millisecond})
		s.settle()
		s.run(12 * time.Second)
		got := s.result(t)[1]
		for id, want := range map[plan.ClassID]policy.Rate{1: 25e6, 2: 75e6} {
			if rate := got.rate(id, 12*time.Second); math.Abs(rate-float64(want)) > 1e6 {
				t.Errorf("%s: class %d has %.2f Mbit/s, want %v", scheduler, id, rate/1e6, want)
			}
		}
		if n := got.flow(1, 1).dropped; n > 0 {
			t.Errorf("%s: %d packets of a flow below its share are dropped", scheduler, n)
		}
	}
}
