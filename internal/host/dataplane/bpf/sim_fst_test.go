// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
)

// paced is a class that sends by a schedule.
func paced(id plan.ClassID, rate policy.Rate) plan.Class {
	return plan.Class{ID: id, Name: "paced", Weight: 1, Interval: plan.IntervalOf(rate)}
}

// schedule is what the packets of a class should have done, from the formula:
// a packet may leave at max(when it came, FST of the one before), and its own FST
// is length * interval later.
func schedule(list []departure, interval plan.Interval) (due []time.Duration) {
	var fst time.Duration
	var part uint64 // of a nanosecond
	for _, d := range list {
		at := max(d.born, fst)
		due = append(due, at)
		part += uint64(d.length) * uint64(interval)
		fst = at + time.Duration(part>>plan.IntervalShift)
		part %= 1 << plan.IntervalShift
	}
	return due
}

// followsSchedule draws the traffic of class 1, and holds each packet that leaves to an
// interval's formula: none leaves before its time, and none more than most after it.
func followsSchedule(t *rapid.T, s *simulation, interval plan.Interval, most time.Duration) {
	t.Helper()
	s.trace(1)
	src := traffic{id: 1, length: rapid.IntRange(60, 9000).Draw(t, "length"), window: rapid.IntRange(1, 50).Draw(t, "window"),
		delay: time.Duration(rapid.IntRange(1, 20e6).Draw(t, "delay"))}
	if rapid.Bool().Draw(t, "steady") {
		src.interval = time.Duration(rapid.IntRange(20e3, 50e6).Draw(t, "every"))
	}
	s.send(src)
	s.run(2 * time.Second)
	left := s.result(t)[0].left[1]
	if len(left) == 0 {
		t.Fatalf("nothing left\n%s", s)
	}
	for i, due := range schedule(left, interval) {
		if late := left[i].at - due; late < 0 || late > most {
			t.Fatalf("packet %d leaves %v after its time\n%s", i, late, s)
		}
	}
}

// On a link that is not busy, packets leave when the formula says, to the
// nanosecond, whatever the scheduler, the discipline, lengths and traffic; 20 µs is
// what the packet of another flow may keep the line busy for.
func TestScheduleIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		link := fairLink(1e9)
		link.Scheduler = rapid.SampledFrom(plan.Schedulers).Draw(t, "scheduler")
		c := paced(1, policy.Rate(rapid.IntRange(100e3, 100e6).Draw(t, "rate")))
		c.Discipline = rapid.SampledFrom([]discipline.Name{discipline.FIFO, discipline.SFQ}).Draw(t, "discipline")
		c.AQM.Target = 0
		if rapid.Bool().Draw(t, "max as well") {
			c.Max = policy.Rate(c.Interval.Rate()) * 2
		}
		s := simulate(link, c)
		followsSchedule(t, s, c.Interval, 20*time.Microsecond)
	})
}

// What a packet takes at a rate is seldom a whole number of nanoseconds: at this one,
// packets of 200 bytes take 2,912.47. What is cut off is not lost, so clocks of mins,
// maxes, schedules and strict queues keep to the rate, whatever the packets' length.
func TestSmallPacketsAddUp(t *testing.T) {
	const rate, over = 549_361_332, 10 * time.Second
	c := plan.Class{ID: 1, Name: "c", Weight: 1}
	other := traffic{id: 2, length: frames, window: 100, delay: 10 * time.Microsecond}
	for _, tt := range []struct {
		name   string
		class  func(*plan.Class)
		others []traffic
	}{
		{"schedule", func(c *plan.Class) { c.Interval = plan.IntervalOf(rate) }, nil},
		{"max", func(c *plan.Class) { c.Max = rate }, nil},
		{"min", func(c *plan.Class) { c.Min = rate }, []traffic{other}},
		{"schedule of a queue", func(c *plan.Class) {
			queues := weighted(1, 1)
			queues[0].Interval = plan.IntervalOf(rate)
			c.Discipline, c.Queues = discipline.PQ, queues
		}, nil},
		{"strict queue", func(c *plan.Class) {
			queues := weighted(1, 1)
			queues[0].Rate = rate
			c.Discipline, c.Queues = discipline.LLQ, queues
		}, []traffic{{id: 1, flow: 1, length: frames, window: 100, delay: 10 * time.Microsecond}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := c
			tt.class(&c)
			s := simulate(fairLink(1e9), c, plan.Class{ID: 2, Name: "other", Weight: policy.MaxWeight})
			s.send(traffic{id: 1, length: 200, interval: 2666}) // 600 Mbit/s
			for _, o := range tt.others {
				s.send(o)
			}
			s.settle()
			s.run(over)
			got := 8 * s.result(t)[1].flow(1, 0).sent / over.Seconds()
			if off := got/rate - 1; math.Abs(off) > 5e-5 {
				t.Errorf("%.3f Mbit/s, %+.4f %% of %.3f", got/1e6, 100*off, rate/1e6)
			}
		})
	}
}

// The contract still holds for the others: to them a class with a schedule is one
// that wants no more than that.
//
// A schedule is never ahead of what its class may have had since its first packet, by
// more than the frames that the line takes in advance. Within a shorter time it may
// have more by what it was late when that began: others' turns, LATE_NS at most.
func TestContractBesideSchedules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := policy.Rate(rapid.SampledFrom([]uint64{20e6, 100e6, 1e9}).Draw(t, "capacity"))
		classes, sharers, sources := drawClasses(t, capacity)
		for i := range classes {
			if rapid.IntRange(0, 1).Draw(t, "paced?") == 0 {
				continue
			}
			rate := policy.Rate(float64(capacity) * rapid.Float64Range(0.01, 0.5).Draw(t, "pace"))
			rate = max(rate, classes[i].Min)
			classes[i].Interval = plan.IntervalOf(rate)
			if sharers[i].Max == 0 || sharers[i].Max > rate {
				sharers[i].Max = rate
			}
		}
		s := simulate(fairLink(capacity), classes...)
		for _, src := range sources {
			s.send(src)
		}
		s.settle()
		over := max(time.Duration(float64(1000*frames*8*len(classes))/float64(capacity)*1e9), 500*time.Millisecond)
		s.run(over)
		phases := s.result(t)
		settled, got := phases[0], phases[1]
		const ahead, late = 10 * frames * 8.0, 10 * time.Millisecond // bits; LATE_NS
		for i, share := range policy.Divide(capacity, sharers).Shares {
			rate := got.rate(classes[i].ID, over)
			if math.Abs(rate-share.Bps) > 0.01*float64(capacity) {
				t.Fatalf("class %d: %.3f Mbit/s, ideal %.3f of %v (%s)\n%s", classes[i].ID, rate/1e6, share.Bps/1e6, capacity, share.Binds, s)
			}
			if classes[i].Interval == 0 {
				continue
			}
			scheduled := classes[i].Interval.Rate()
			since := 8 * (settled.sent[classes[i].ID] + got.sent[classes[i].ID])
			if surplus := since - scheduled*(settling+over).Seconds(); surplus > ahead {
				t.Fatalf("class %d: %.0f bits more than its schedule of %.3f Mbit/s since its start\n%s", classes[i].ID, surplus, scheduled/1e6, s)
			}
			if rate*over.Seconds() > scheduled*(over+late).Seconds()+ahead {
				t.Fatalf("class %d: %.3f Mbit/s, its schedule has %.3f\n%s", classes[i].ID, rate/1e6, scheduled/1e6, s)
			}
		}
	})
}

// A new interval counts from the next packet on, and an interval that is taken away
// leaves nothing behind.
func TestScheduleChanges(t *testing.T) {
	for _, scheduler := range plan.Schedulers {
		t.Run(scheduler, func(t *testing.T) {
			link := fairLink(100e6)
			link.Scheduler = scheduler
			c := paced(1, 1e6)
			s := simulate(link, c)
			s.send(traffic{id: 1, length: frames, window: 20, delay: 100 * time.Microsecond})
			for _, rate := range []policy.Rate{1e6, 8e6, 2e6, 0, 4e6} {
				c.Interval = plan.IntervalOf(rate)
				s.setClass(c)
				s.settle()
				s.run(4 * time.Second)
			}
			phases := s.result(t)
			for i, want := range []float64{1e6, 8e6, 2e6, 100e6, 4e6} {
				if got := phases[2*i+1].rate(1, 4*time.Second); math.Abs(got-want) > 0.004*want+frames*2 {
					t.Errorf("%.3f Mbit/s, want %.3f", got/1e6, want/1e6)
				}
			}
		})
	}
}

// Schedules within a group, which has a max, and beside one.
func TestSchedulesInGroups(t *testing.T) {
	a, b := paced(1, 5e6), paced(2, 7e6)
	a.Parent, b.Parent = 9, 9
	group := plan.Class{ID: 9, Name: "group", Weight: 1, Max: 40e6, Group: true, Discipline: discipline.SFQ}
	rest := plan.Class{ID: 3, Name: "rest", Weight: 1, Parent: 9}
	other := plan.Class{ID: 4, Name: "other", Weight: 1}
	s := simulate(fairLink(100e6), group, a, b, rest, other)
	for id := plan.ClassID(1); id <= 4; id++ {
		s.send(traffic{id: id, length: frames, window: 30, delay: 100 * time.Microsecond})
	}
	s.settle()
	s.run(4 * time.Second)
	s.stop(3)
	s.stop(4)
	s.settle()
	s.run(4 * time.Second)
	phases := s.result(t)
	for i, want := range []map[plan.ClassID]float64{{1: 5e6, 2: 7e6, 3: 28e6, 4: 60e6}, {1: 5e6, 2: 7e6}} {
		for id, rate := range want {
			if got := phases[2*i+1].rate(id, 4*time.Second); math.Abs(got-rate) > 0.01*rate {
				t.Errorf("phase %d, class %d: %.3f Mbit/s, want %.3f", i, id, got/1e6, rate/1e6)
			}
		}
	}
}

// With every scheduler, what a schedule leaves of the link is the others'.
func TestWhatAScheduleLeaves(t *testing.T) {
	for _, scheduler := range plan.Schedulers {
		link := fairLink(100e6)
		link.Scheduler = scheduler
		s := simulate(link, paced(1, 5e6), plan.Class{ID: 2, Name: "a", Weight: 1}, plan.Class{ID: 3, Name: "b", Weight: 3, Max: 20e6})
		for id := plan.ClassID(1); id <= 3; id++ {
			s.send(traffic{id: id, length: frames, window: 200, delay: 100 * time.Microsecond})
		}
		s.settle()
		s.run(6 * time.Second)
		got := s.result(t)[1]
		for id, want := range map[plan.ClassID]float64{1: 5e6, 2: 75e6, 3: 20e6} {
			if rate := got.rate(id, 6*time.Second); math.Abs(rate-want) > 0.02*want {
				t.Errorf("%s: class %d %.3f Mbit/s, want %.3f", scheduler, id, rate/1e6, want/1e6)
			}
		}
	}
}

// The same for queues: exact where no other traffic is in the way; the other queues
// and classes have the rest.
func TestScheduleOfAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		link := fairLink(1e9)
		link.Scheduler = rapid.SampledFrom(plan.Schedulers).Draw(t, "scheduler")
		queues := weighted(1, 1)
		queues[0].Reserve, queues[0].Interval = 1, plan.IntervalOf(policy.Rate(rapid.IntRange(100e3, 100e6).Draw(t, "rate")))
		queues[0].Rate = 1e9
		c := plan.Class{ID: 1, Name: "c", Weight: 1, Queues: queues}
		c.Discipline = rapid.SampledFrom([]discipline.Name{discipline.PQ, discipline.CBWFQ, discipline.LLQ}).Draw(t, "discipline")
		s := simulate(link, c)
		followsSchedule(t, s, queues[0].Interval, 100*time.Microsecond)
	})
}

func TestWhatAScheduledQueueLeaves(t *testing.T) {
	for _, d := range []discipline.Name{discipline.PQ, discipline.CBWFQ, discipline.LLQ} {
		queues := weighted(3, 1)
		queues[0].Interval, queues[0].Rate = plan.IntervalOf(4e6), 90e6
		c := plan.Class{ID: 1, Name: "c", Weight: 1, Discipline: d, Queues: queues}
		other := plan.Class{ID: 2, Name: "other", Weight: 3}
		s := simulate(fairLink(100e6), c, other)
		for _, src := range []traffic{{id: 1}, {id: 1, flow: 1}, {id: 2}} {
			src.length, src.window, src.delay = frames, 100, 100*time.Microsecond
			s.send(src)
		}
		s.settle()
		s.run(4 * time.Second)
		queues = weighted(3, 1)
		queues[0].Rate, queues[1].Interval = 90e6, plan.IntervalOf(2e6)
		c.Queues = queues // the schedule is the other's now
		s.setClass(c)
		s.stopFlow(1, 0)
		s.settle()
		s.run(4 * time.Second)
		c.Queues, c.Discipline = nil, discipline.SFQ // what is held leaves
		s.setClass(c)
		s.settle()
		s.run(4 * time.Second)
		phases := s.result(t)
		for _, want := range []struct {
			phase, flow int
			rate        float64
		}{{1, 0, 4}, {1, 1, 21}, {3, 1, 2}, {5, 1, 25}} {
			got := phases[want.phase].flow(1, want.flow).sent * 8 / 4e6
			if math.Abs(got-want.rate) > 0.02*want.rate {
				t.Errorf("%s, phase %d: flow %d %.3f Mbit/s, want %.3f", d, want.phase, want.flow, got, want.rate)
			}
		}
		if got := phases[1].rate(2, 4*time.Second) / 1e6; math.Abs(got-75) > 0.5 {
			t.Errorf("%s: the other class %.3f Mbit/s, want 75", d, got)
		}
	}
}

// A queue with a schedule goes away while packets are held for it: they leave, and each
// queue still accounts for all that entered it, which the simulator checks.
func TestScheduledQueueGoesAway(t *testing.T) {
	for _, d := range []discipline.Name{discipline.PQ, discipline.CBWFQ, discipline.LLQ} {
		queues := weighted(1, 1, 1)
		queues[2].Reserve, queues[2].Interval = 1e6, plan.IntervalOf(1e6)
		c := plan.Class{ID: 1, Name: "c", Weight: 1, Discipline: d, Queues: queues}
		s := simulate(fairLink(100e6), c)
		s.send(traffic{id: 1, flow: 2, length: frames, window: 50, delay: 100 * time.Microsecond})
		s.settle()
		c.Queues = weighted(1, 1)
		s.stopFlow(1, 2)
		s.setClass(c)
		s.settle()
		phases := s.result(t)
		if got := phases[1].flow(1, 2).sent / frames; got < 40 {
			t.Errorf("%s: %.0f packets left of the 50 that were held", d, got)
		}
	}
}
