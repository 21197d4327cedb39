// SPDX-License-Identifier: Apache-2.0

// Package pace has the controllers of one link: one for each workload or queue with
// a reservation. It turns what was counted over a second into the intervals of the
// next.
//
//	counters of the link ─┐
//	                      ├─► Step ─► controllers ─► Paced ─► intervals of a plan.State
//	goodput of workloads ─┘
//
// Follow tells it the plan: controllers come and go with reservations, and a
// controller that stays is told of a new target without a bump. Adopt takes the
// intervals that an earlier process left in the kernel. It does no I/O; the agent and
// the lab read and write around it.
package pace

import (
	"maps"
	"math"
	"slices"
	"time"

	"weir/internal/core/control"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/goodput"
)

// Whole is the Queue of a loop that holds a workload and not one of its queues.
const Whole = -1

// ID says which loop: a class, or one of its queues.
type ID struct {
	Class plan.ClassID
	Queue int // from 0, or Whole
}

// Options are how a loop works. The zero Options are right.
type Options struct {
	Gains  control.Gains // zero = control.Default
	Frozen bool
	// Open is without feedback: packets leave at the reserved rate on the wire, as in
	// the paper's figure 7.
	Open bool
	// Cold begins at a hundredth of the reservation, as the paper's flows do, and not
	// at what headers demand.
	Cold bool
	// Summed acts by the paper's control law as it is printed.
	Summed bool
}

func (s Options) gains() control.Gains {
	if s.Gains == (control.Gains{}) {
		return control.Default
	}
	return s.Gains
}

// mostRatio is how many bytes on the wire a byte of payload may take: beyond it,
// packets carry 20 bytes each.
const mostRatio = 4

// coldStart is where a cold loop begins, part of its target.
const coldStart = 0.01

// Loop is one controller and what belongs to it.
type Loop struct {
	ID
	Name       string // of the workload
	QueueName  string // "" for Whole
	Controller *control.Controller
	Monitor    control.Monitor
	Held       bool // an experiment runs with it: Follow leaves it frozen
	settings   Options
	before     dataplane.QueueCounters // of the last step
	backlogged bool                    // a packet waited at the last step
	seen       bool
}

// Pacer has the loops of one link. Make it by New.
type Pacer struct {
	direction policy.Direction
	settings  func(workload, queue string) Options
	loops     map[ID]*Loop
	link      plan.Link
	readAt    time.Time
}

// New makes a Pacer without loops. settings are those of a workload, or of one of
// its queues ("" is the workload itself); nil = all zero.
func New(direction policy.Direction, settings func(workload, queue string) Options) *Pacer {
	if settings == nil {
		settings = func(string, string) Options { return Options{} }
	}
	return &Pacer{direction: direction, settings: settings, loops: map[ID]*Loop{}}
}

// Busy says whether there is any loop.
func (p *Pacer) Busy() bool { return len(p.loops) > 0 }

// Loops are all of them, by class and queue.
func (p *Pacer) Loops() []*Loop {
	return slices.SortedFunc(maps.Values(p.loops), func(a, b *Loop) int {
		if a.Class != b.Class {
			return int(a.Class) - int(b.Class)
		}
		return a.Queue - b.Queue
	})
}

// Loop finds one.
func (p *Pacer) Loop(id ID) (*Loop, bool) {
	l, ok := p.loops[id]
	return l, ok
}

// Watched are the classes whose goodput has to be measured.
func (p *Pacer) Watched() []plan.ClassID {
	classes := map[plan.ClassID]bool{}
	for id := range p.loops {
		classes[id.Class] = true
	}
	return slices.Sorted(maps.Keys(classes))
}

// Follow takes the plan: a loop for each reservation in it.
func (p *Pacer) Follow(want plan.State) {
	p.link = want.Link
	stays := map[ID]bool{}
	for _, c := range want.Classes {
		if c.Reserve != 0 {
			id := ID{c.ID, Whole}
			stays[id] = true
			p.follow(id, c, "", c.Reserve, c.Interval)
		}
		for q, queue := range c.Queues {
			if queue.Reserve != 0 {
				id := ID{c.ID, q}
				stays[id] = true
				p.follow(id, c, queue.Name, queue.Reserve, queue.Interval)
			}
		}
	}
	maps.DeleteFunc(p.loops, func(id ID, _ *Loop) bool { return !stays[id] })
}

func (p *Pacer) follow(id ID, c plan.Class, queue string, reserve policy.Rate, interval plan.Interval) {
	s := p.settings(c.Name, queue)
	bounds := p.bounds(c, reserve, s)
	l := p.loops[id]
	if l == nil || l.Name != c.Name || l.QueueName != queue || l.settings.Open != s.Open || l.settings.Cold != s.Cold || l.settings.Summed != s.Summed {
		wire := interval.Rate()
		switch {
		case s.Open:
			wire = float64(reserve)
		case s.Cold:
			wire = coldStart * float64(reserve)
		}
		l = &Loop{ID: id, Name: c.Name, QueueName: queue}
		l.Controller = control.New(control.Config{Gains: s.gains(), Target: float64(reserve), Bounds: bounds, Wire: wire, Open: s.Open, Summed: s.Summed})
		p.loops[id] = l
	}
	l.settings = s
	l.Controller.SetGains(s.gains())
	if s.Frozen != l.Controller.IsFrozen() && !l.Held {
		l.Controller.Freeze(s.Frozen)
	}
	l.Controller.Retarget(float64(reserve), bounds)
}

// bounds of what may leave on the wire: never less than the payload itself, never
// more than the link and the workload's max let through.
func (p *Pacer) bounds(c plan.Class, reserve policy.Rate, s Options) control.Bounds {
	b := control.Bounds{Least: float64(reserve), Most: min(mostRatio*float64(reserve), float64(p.link.Capacity))}
	if c.Max != 0 {
		b.Most = min(b.Most, float64(c.Max))
	}
	if s.Cold {
		b.Least *= coldStart
	}
	return b
}

// Adopt takes the intervals that are in force in the kernel for loops with the same
// target, and scales those for another one.
func (p *Pacer) Adopt(left plan.State) {
	for _, c := range left.Classes {
		p.adopt(ID{c.ID, Whole}, c.Reserve, c.Interval)
		for q, queue := range c.Queues {
			p.adopt(ID{c.ID, q}, queue.Reserve, queue.Interval)
		}
	}
}

func (p *Pacer) adopt(id ID, reserve policy.Rate, interval plan.Interval) {
	l := p.loops[id]
	if l == nil || reserve == 0 || interval == 0 || l.settings.Open {
		return
	}
	l.Controller.SetOutput(interval.Rate() * l.Controller.State().Target / float64(reserve))
}

// Paced is the plan with the intervals of now.
func (p *Pacer) Paced(want plan.State) plan.State {
	if len(p.loops) == 0 {
		return want
	}
	by := map[plan.ClassID]plan.Pacing{}
	for id, l := range p.loops {
		pacing := by[id.Class]
		interval := plan.IntervalOf(policy.Rate(math.Round(l.Controller.State().Wire)))
		if id.Queue == Whole {
			pacing.Class = interval
		} else {
			for len(pacing.Queues) <= id.Queue {
				pacing.Queues = append(pacing.Queues, 0)
			}
			pacing.Queues[id.Queue] = interval
		}
		by[id.Class] = pacing
	}
	return want.Paced(by)
}

// Measured is the goodput of the classes that are measured.
type Measured struct {
	At       time.Time
	Readings map[plan.ClassID]goodput.Reading
	// Part says how much of a class's goodput is this link's; nil = all.
	Part func(plan.ClassID) float64
}

// Step lets every loop act on what was counted since the last step.
func (p *Pacer) Step(snap dataplane.LinkCounters, m Measured) {
	seconds := snap.At.Sub(p.readAt).Seconds()
	first := p.readAt.IsZero() || seconds <= 0
	p.readAt = snap.At
	for _, l := range p.loops {
		counters, ok := l.counters(snap)
		if !ok {
			l.seen = false
			continue
		}
		sample := l.sample(counters, seconds)
		reading, known := m.Readings[l.Class]
		if known {
			sample.Goodput = l.goodput(m.At, reading, p.direction, sample)
			if m.Part != nil {
				sample.Goodput *= m.Part(l.Class)
			}
		} else {
			l.Monitor.Forget()
			sample.Goodput = math.NaN()
		}
		l.Monitor.Note(sample.Goodput)
		usable := l.seen && !first
		l.before, l.seen = counters, true
		l.backlogged = counters.BacklogPackets > 0
		if usable {
			l.Controller.Step(sample)
		}
	}
}

// counters are those of the loop's class or queue.
func (l *Loop) counters(snap dataplane.LinkCounters) (dataplane.QueueCounters, bool) {
	c, ok := snap.Classes[l.Class]
	if l.Queue != Whole {
		if l.Queue >= len(c.Queues) {
			return dataplane.QueueCounters{}, false
		}
		return c.Queues[l.Queue], ok
	}
	return dataplane.QueueCounters{
		EnqueuedPackets: c.EnqueuedPackets, EnqueuedBytes: c.EnqueuedBytes,
		SentPackets: c.SentPackets, SentBytes: c.SentBytes,
		BacklogPackets: c.BacklogPackets, BacklogBytes: c.BacklogBytes,
		Drops: c.Drops, DroppedBytes: c.DroppedBytes,
	}, ok
}

// sample is what the class did since the last step, without its goodput.
func (l *Loop) sample(now dataplane.QueueCounters, seconds float64) control.PeriodSample {
	before := l.before
	if now.SentBytes < before.SentBytes || now.EnqueuedBytes < before.EnqueuedBytes {
		before = dataplane.QueueCounters{} // it was made anew
	}
	drops := sum(now.Drops) - min(sum(now.Drops), sum(before.Drops))
	return control.PeriodSample{
		Offered: 8 * float64(now.EnqueuedBytes-before.EnqueuedBytes) / seconds,
		Sent:    8 * float64(now.SentBytes-before.SentBytes) / seconds,
		Waiting: drops > 0 || now.BacklogPackets >= 2 || now.BacklogPackets == 1 && l.backlogged,
	}
}

func sum(reasons map[string]uint64) uint64 {
	var n uint64
	for _, v := range reasons {
		n += v
	}
	return n
}

// goodput is the payload that was delivered since the last step, bits per second.
func (l *Loop) goodput(at time.Time, r goodput.Reading, d policy.Direction, s control.PeriodSample) float64 {
	c := r.Counts
	if l.Queue != Whole {
		c = r.Queues[l.Queue]
	}
	if d == policy.Ingress {
		return l.Monitor.Take(at, c.Came())
	}
	rate := l.Monitor.Take(at, c.Acked, c.Datagrams)
	if s.Offered > 0 { // of datagrams only what left has a chance to arrive
		rate -= l.Monitor.Last(1) * (1 - min(1, s.Sent/s.Offered))
	}
	return rate
}
