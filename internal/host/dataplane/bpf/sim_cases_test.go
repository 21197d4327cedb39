// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
)

const mbit = policy.Rate(1e6)

// five are classes 1 to 5 with weights 1 to 5.
func five() []plan.Class {
	var classes []plan.Class
	for i := 1; i <= 5; i++ {
		classes = append(classes, plan.Class{ID: plan.ClassID(i), Name: fmt.Sprint("c", i), Weight: uint32(i)})
	}
	return classes
}

func greedy(id plan.ClassID) traffic {
	return traffic{id: id, length: frames, window: 20, delay: 100 * time.Microsecond}
}

// holds checks a phase against the contract: class i wants all it can get if
// active[i], nothing otherwise.
func holds(t *testing.T, link plan.Link, classes []plan.Class, active map[plan.ClassID]bool, got phase, over time.Duration, within float64) {
	t.Helper()
	var sharers []policy.Sharer
	for _, c := range classes {
		sharer := policy.Sharer{Weight: c.Weight, Min: c.Min, Max: c.Max}
		if active[c.ID] {
			sharer.Demand = policy.Unlimited
		}
		sharers = append(sharers, sharer)
	}
	want := policy.Divide(link.Capacity, sharers)
	for i, c := range classes {
		if rate := got.rate(c.ID, over); math.Abs(rate-want.Shares[i].Bps) > within*float64(link.Capacity) {
			t.Errorf("class %d: %.2f Mbit/s, ideal %.2f", c.ID, rate/1e6, want.Shares[i].Bps/1e6)
		}
	}
}

func ids(classes []plan.Class) map[plan.ClassID]bool {
	m := map[plan.ClassID]bool{}
	for _, c := range classes {
		m[c.ID] = true
	}
	return m
}

// classList makes classes 1, 2, ... with these weights.
func classList(weights ...uint32) (classes []plan.Class) {
	for i, weight := range weights {
		classes = append(classes, plan.Class{ID: plan.ClassID(i + 1), Weight: weight})
	}
	return classes
}

// mins and maxes, in Mbit/s, go to the first classes; 0 is none.
func mins(classes []plan.Class, m ...policy.Rate) []plan.Class {
	for i := range m {
		classes[i].Min = m[i] * mbit
	}
	return classes
}

func maxes(classes []plan.Class, m ...policy.Rate) []plan.Class {
	for i := range m {
		classes[i].Max = m[i] * mbit
	}
	return classes
}

// paperCases are the policies of the qCon paper's figures 7 to 11 at 100 Mbit/s.
func paperCases() map[string][]plan.Class {
	return map[string][]plan.Class{
		"figure 7, 1 to 1":  classList(1, 1, 1),
		"figure 7, 1 to 3":  classList(1, 2, 3),
		"figure 7, 1 to 5":  classList(1, 3, 5),
		"figure 9, case 1":  classList(1, 2, 3, 4, 5),
		"figure 9, case 2":  mins(classList(1, 2, 3, 4, 5), 30),
		"figure 9, case 3":  mins(classList(1, 2, 3, 4, 5), 30, 20),
		"figure 9, case 4":  mins(classList(1, 2, 3, 4, 5), 30, 20, 15),
		"figure 9, case 5":  mins(classList(1, 2, 3, 4, 5), 30, 20, 15, 15),
		"figure 10, case 2": maxes(classList(1, 1, 1, 1, 1), 10),
		"figure 10, case 3": maxes(classList(1, 1, 1, 1, 1), 10, 10),
		"figure 10, case 4": maxes(classList(1, 1, 1, 1, 1), 10, 10, 15),
		"figure 10, case 5": maxes(classList(1, 1, 1, 1, 1), 10, 10, 15, 25),
		"figure 11, case 2": mins(classList(1, 2, 3), 30),
		"figure 11, case 3": maxes(mins(classList(1, 2, 3), 30), 0, 0, 15),
	}
}

// ancsCases are those of the ANCS paper's figures 5 and 6, of 1 Gbit/s there, at
// 100 Mbit/s.
func ancsCases() map[string][]plan.Class {
	return map[string][]plan.Class{
		"ANCS figure 5, case 1": classList(1, 2, 3, 4, 5),
		"ANCS figure 5, case 2": maxes(classList(1, 2, 3, 4, 5), 0, 0, 0, 0, 15),
		"ANCS figure 5, case 3": maxes(mins(classList(1, 2, 3, 4, 5), 20), 0, 0, 0, 0, 15),
		"ANCS figure 6, one":    classList(1),
		"ANCS figure 6, two":    classList(1, 2),
		"ANCS figure 6, three":  classList(1, 2, 3),
		"ANCS figure 6, four":   classList(1, 2, 3, 4),
	}
}

func TestPaperCases(t *testing.T) {
	for scheduler, within := range map[string]float64{plan.SchedulerFair: 0.002, plan.SchedulerQcon: 0.03, plan.SchedulerAncs: 0.005} {
		cases := paperCases()
		maps.Copy(cases, ancsCases())
		for name, classes := range cases {
			t.Run(scheduler+"/"+name, func(t *testing.T) {
				got := saturated(t, scheduler, classes, 300)
				holds(t, got.link, classes, ids(classes), got.phase, 9*time.Second, within)
				if util := got.total * 8 / 9 / 100e6; util < 0.99 || util > 1.001 {
					t.Errorf("link carried %.2f %% of its capacity", util*100)
				}
			})
		}
	}
}

type saturation struct {
	phase
	link plan.Link
}

// TestAncsWithShortQueues: who has fewer packets on their way than a period
// takes, as TCP over a short way has, still is one who sends all it can.
func TestAncsWithShortQueues(t *testing.T) {
	for name, classes := range ancsCases() {
		t.Run(name, func(t *testing.T) {
			got := saturated(t, plan.SchedulerAncs, classes, 20)
			holds(t, got.link, classes, ids(classes), got.phase, 9*time.Second, 0.01)
		})
	}
}

// saturated is 9 s of 100 Mbit/s while every class sends all it can, with
// `window` packets on their way: 300 are more than a class may send in 30 ms.
func saturated(t *testing.T, scheduler string, classes []plan.Class, window int) saturation {
	t.Helper()
	link := fairLink(100 * mbit)
	link.Scheduler = scheduler
	s := simulate(link, classes...)
	for _, c := range classes {
		s.send(traffic{id: c.ID, length: frames, window: window, delay: 100 * time.Microsecond})
	}
	s.settle()
	s.run(9 * time.Second)
	return saturation{s.result(t)[1], link}
}

// The order of the containers matters to Algorithm 1, as bpf/schedulers/qcon.h says: who
// comes after a container at its max shares what it leaves, who comes before
// does not.
func TestQconDependsOnTheOrder(t *testing.T) {
	for scheduler, want := range map[string]map[plan.ClassID]float64{
		plan.SchedulerQcon: {1: 40e6, 2: 10e6, 3: 50e6},
		plan.SchedulerAncs: {1: 45e6, 2: 10e6, 3: 45e6}, // what a max leaves, all share
	} {
		got := saturated(t, scheduler, maxes(classList(1, 1, 1), 0, 10), 300)
		for id, want := range want {
			if rate := got.rate(id, 9*time.Second); math.Abs(rate-want) > 1e6 {
				t.Errorf("%s: class %d: %.2f Mbit/s, want %.2f", scheduler, id, rate/1e6, want/1e6)
			}
		}
	}
}

// TestReaction: the shares of the tenth of a second that begins 100 ms after a
// change are those of the contract (200 ms for qcon and ancs).
func TestReaction(t *testing.T) {
	for scheduler, after := range map[string]time.Duration{plan.SchedulerFair: 100 * time.Millisecond, plan.SchedulerQcon: 200 * time.Millisecond, plan.SchedulerAncs: 200 * time.Millisecond} {
		within := map[string]float64{plan.SchedulerFair: 0.02, plan.SchedulerQcon: 0.05, plan.SchedulerAncs: 0.05}[scheduler]
		t.Run(scheduler, func(t *testing.T) {
			link := fairLink(100 * mbit)
			link.Scheduler = scheduler
			classes := five()
			now := ids(classes)
			s := simulate(link, classes...)
			const window = 300 * time.Millisecond
			var wants []func(phase)
			step := func(change func()) {
				change()
				s.run(after)
				s.run(window)
				then, active := append([]plan.Class(nil), classes...), map[plan.ClassID]bool{}
				for id, on := range now {
					active[id] = on
				}
				n := len(wants)
				wants = append(wants, func(p phase) {
					before := t.Failed()
					holds(t, link, then, active, p, window, within)
					if t.Failed() && !before {
						t.Logf("in step %d", n)
					}
				})
			}
			start := func(id plan.ClassID) {
				s.send(traffic{id: id, length: frames, window: 300, delay: 100 * time.Microsecond})
				now[id] = true
			}
			for id := range now {
				now[id] = false
			}
			step(func() { start(1) })
			for id := plan.ClassID(2); id <= 5; id++ {
				step(func() { start(id) })
			}
			step(func() { s.stop(5); now[5] = false })
			set := func(i int, change func(c *plan.Class)) {
				change(&classes[i])
				s.setClass(classes[i])
			}
			step(func() { set(0, func(c *plan.Class) { c.Min = 40 * mbit }) })
			step(func() { set(0, func(c *plan.Class) { c.Min = 0 }) })
			step(func() { set(3, func(c *plan.Class) { c.Max = 5 * mbit }) })
			step(func() { set(3, func(c *plan.Class) { c.Max = 0 }) })
			step(func() { set(1, func(c *plan.Class) { c.Weight = 20 }); s.setLink() })
			phases := s.result(t)
			for i, check := range wants {
				check(phases[2*i+1])
			}
			for i, p := range phases {
				for id, dropped := range p.dropped {
					if dropped > 0 {
						t.Errorf("phase %d: class %d lost %d packets", i, id, dropped)
					}
				}
			}
		})
	}
}

// TestQuietClassesDoNotWait: a ping-like stream beside classes that take all
// they can get waits for a batch at the most, whatever their number.
func TestQuietClassesDoNotWait(t *testing.T) {
	for _, n := range []int{5, 100, 1000} {
		link := fairLink(100 * mbit)
		var classes []plan.Class
		for i := 1; i <= n+1; i++ {
			classes = append(classes, plan.Class{ID: plan.ClassID(i), Weight: 1})
		}
		s := simulate(link, classes...)
		for _, c := range classes[:n] {
			s.send(traffic{id: c.ID, length: frames, window: 4, delay: 100 * time.Microsecond})
		}
		s.send(traffic{id: plan.ClassID(n + 1), length: 98, interval: 21300 * time.Microsecond})
		s.settle()
		s.run(5 * time.Second)
		got := s.result(t)[1]
		if longest := got.longest[plan.ClassID(n+1)]; longest > 250*time.Microsecond {
			t.Errorf("%d classes: longest wait %v", n, longest)
		}
		if util := got.total * 8 / 5 / 100e6; util < 0.999 || util > 1.0005 {
			t.Errorf("%d classes: link carried %.3f %%", n, util*100)
		}
		if got.ahead > mostBefore {
			t.Errorf("%d classes: ran %v ahead of the line", n, got.ahead)
		}
	}
}

// TestFloodHurtsNobody: three times the link from one class leaves the others
// their shares.
func TestFloodHurtsNobody(t *testing.T) {
	link := fairLink(100 * mbit)
	classes := five()
	s := simulate(link, classes...)
	for _, c := range classes[:4] {
		s.send(greedy(c.ID))
	}
	s.send(traffic{id: 5, length: frames, interval: 40 * time.Microsecond})
	s.settle()
	s.run(5 * time.Second)
	got := s.result(t)[1]
	holds(t, link, classes, ids(classes), got, 5*time.Second, 0.002)
	for _, c := range classes[:4] {
		if got.dropped[c.ID] > 0 {
			t.Errorf("class %d lost %d packets to the flood", c.ID, got.dropped[c.ID])
		}
	}
}

// TestExtremes: weights at both ends, and as many classes as there are.
func TestExtremes(t *testing.T) {
	t.Run("weights 1 and 10000", func(t *testing.T) {
		link := fairLink(100 * mbit)
		classes := []plan.Class{{ID: 1, Weight: 1}, {ID: 2, Weight: 10000}, {ID: 3, Weight: 5000}}
		s := simulate(link, classes...)
		for _, c := range classes {
			s.send(greedy(c.ID))
		}
		s.run(20 * time.Second)
		s.run(200 * time.Second)
		got := s.result(t)[1]
		holds(t, link, classes, ids(classes), got, 200*time.Second, 0.001)
		want := 100e6 / 15001
		if rate := got.rate(1, 200*time.Second); math.Abs(rate-want) > want*0.1 {
			t.Errorf("class 1: %.0f bit/s, ideal %.0f", rate, want)
		}
	})
	t.Run("4095 classes", func(t *testing.T) {
		link := fairLink(1000 * mbit)
		var classes []plan.Class
		for i := 1; i < plan.MaxClasses; i++ {
			classes = append(classes, plan.Class{ID: plan.ClassID(i), Weight: uint32(1 + i%3)})
		}
		s := simulate(link, classes...)
		for _, c := range classes {
			s.send(traffic{id: c.ID, length: frames, window: 3, delay: 100 * time.Microsecond})
		}
		s.settle()
		s.run(10 * time.Second)
		got := s.result(t)[1]
		level := 1e9 / float64(2*len(classes))
		for _, c := range classes {
			ideal := level * float64(c.Weight)
			// A hundred packets each, three at a time.
			if rate := got.rate(c.ID, 10*time.Second); math.Abs(rate-ideal)*10/8 > 6*frames {
				t.Fatalf("class %d of weight %d: %.0f bit/s, ideal %.0f", c.ID, c.Weight, rate, ideal)
			}
		}
	})
}
