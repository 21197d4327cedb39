// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"math"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
)

// breakage describes a defect of the scheduler or of the programs before it; the zero
// value is none.
type breakage struct {
	batches  uint64        // so many times as large as they should be
	weight   float64       // class 3 has this part of a weight too much
	noCoDel  bool          // the default's AQM does nothing
	unmarked time.Duration // class 3's packets come as the host's for so long
}

const (
	brokenClass = plan.ClassID(3)
	hostClass   = plan.ClassID(9)
)

// simulateBroken is simulate with a defect.
func simulateBroken(b breakage, classes ...plan.Class) *simulation {
	s := simulate(fairLink(100*mbit), classes...)
	if b.batches > 0 {
		l := linkConfig(s.link, 5)
		fmt.Fprintln(s, "link", l.LinkCost, b.batches*l.BatchNs, b.batches*l.Quantum, b.batches*l.BulkBatchNs, b.batches*l.BulkQuantum,
			l.ShareShift, l.TotalCredit, l.LimitBytes, l.Overhead, l.Least, l.Cells, l.FromIp, l.Framed)
	}
	if b.weight > 0 {
		for _, class := range classes {
			if class.ID == brokenClass {
				c := classConfig(class, s.link)
				c.ShareCost = uint64(float64(c.ShareCost)/(1+b.weight) + 0.5)
				s.configure(class.ID, c)
			}
		}
	}
	return s
}

// brokenBars are bars, each of which says what does not hold, "" if all does.
var brokenBars = map[string]func(*testing.T, breakage) string{
	"latency": latencyBar, "shares": sharesBar, "queues": queuesBar, "steadiness": steadinessBar,
}

// mostBefore is what may be before a quiet class's packet on 100 Mbit/s, in the qdisc
// and in the line behind it: a batch of 0.2 ms, and the frame with which it ends.
const mostBefore = 330 * time.Microsecond

// latencyBar: beside five classes that send all they can, a ping waits for a batch at
// most, in the qdisc and in the line together.
func latencyBar(t *testing.T, b breakage) string {
	s := simulateBroken(b, append(five(), plan.Class{ID: 6, Weight: 1})...)
	for _, c := range five() {
		s.send(greedy(c.ID))
	}
	s.send(traffic{id: 6, length: 98, interval: 21300 * time.Microsecond})
	s.settle()
	s.run(5 * time.Second)
	got := s.result(t)[1]
	if got.longest[6]+got.ahead > mostBefore {
		return fmt.Sprintf("the ping waited for %v, the link was %v ahead of the line", got.longest[6], got.ahead)
	}
	return ""
}

// sharesBar: weights 1 to 5 get what they should within 0.5 % of their own share, and
// not of the link: 2 % of a share of 20 Mbit/s are 0.4 % of a link of 100.
func sharesBar(t *testing.T, b breakage) string {
	const over = 20 * time.Second
	s := simulateBroken(b, five()...)
	for _, c := range five() {
		s.send(greedy(c.ID))
	}
	s.settle()
	s.run(over)
	got := s.result(t)[1]
	for _, c := range five() {
		ideal := 100e6 * float64(c.Weight) / 15
		if off := got.rate(c.ID, over)/ideal - 1; math.Abs(off) > 0.005 {
			return fmt.Sprintf("class %d gets %+.2f %% of its share too much", c.ID, off*100)
		}
	}
	return ""
}

// queuesBar: what the plan makes of a workload without a word about its queues holds
// two bulk flows' packets for 30 ms at most, once they have slowed down.
func queuesBar(t *testing.T, b breakage) string {
	link := fairLink(10 * mbit)
	state, refusals, err := plan.Build(link, []plan.Workload{{Key: "web", Name: "web", Policy: policy.Policy{Weight: 1}}}, map[string]plan.ClassID{"web": flowClass})
	if err != nil || len(refusals) > 0 {
		t.Fatalf("%v, %v", err, refusals)
	}
	var class plan.Class
	for _, c := range state.Classes {
		if c.ID == flowClass {
			class = c
		}
	}
	if b.noCoDel {
		class.AQM = plan.AQM{}
	}
	s := simulate(link, class)
	for i := range 2 {
		s.send(traffic{id: flowClass, flow: i, length: frames, window: 80, delay: 20 * time.Millisecond})
	}
	s.run(3 * time.Second)
	s.run(5 * time.Second)
	if got := s.result(t)[1].longest[flowClass]; got > 30*time.Millisecond {
		return fmt.Sprintf("packets wait for %v", got)
	}
	return ""
}

// steadinessBar: in every 100 ms each class is within 5 % of the link of its ideal.
func steadinessBar(t *testing.T, b breakage) string {
	const window, windows = 100 * time.Millisecond, 30
	s := simulateBroken(b, append(five(), plan.Class{ID: hostClass, Weight: 1})...)
	for _, c := range five() {
		s.send(greedy(c.ID))
	}
	s.settle()
	for i := range windows {
		began := 10 * window
		switch at := time.Duration(i) * window; {
		case b.unmarked > 0 && at == began:
			s.stop(brokenClass)
			s.send(greedy(hostClass))
		case b.unmarked > 0 && at == began+b.unmarked:
			s.stop(hostClass)
			s.send(greedy(brokenClass))
		}
		s.run(window)
	}
	for i, got := range s.result(t)[1 : windows+1] {
		for _, c := range five() {
			if off := got.rate(c.ID, window)/100e6 - float64(c.Weight)/15; math.Abs(off) > 0.05 {
				return fmt.Sprintf("window %d: class %d is off by %+.1f %% of the link", i, c.ID, off*100)
			}
		}
	}
	return ""
}

// TestBarsOfTheSimulator: with nothing wrong every bar holds.
func TestBarsOfTheSimulator(t *testing.T) {
	for name, bar := range brokenBars {
		if wrong := bar(t, breakage{}); wrong != "" {
			t.Errorf("%s: %s", name, wrong)
		}
	}
}

// TestWhatIsBrokenIsNoticed breaks one thing at a time, and the bar about it has to see
// it: a bar that holds whatever the scheduler does is worth nothing.
func TestWhatIsBrokenIsNoticed(t *testing.T) {
	for _, c := range []struct {
		name, bar string
		broken    breakage
	}{
		{"batches three times as large", "latency", breakage{batches: 3}},
		{"one class's weight off by 2 %", "shares", breakage{weight: 0.02}},
		{"CoDel off", "queues", breakage{noCoDel: true}},
		{"marking dropped for 200 ms", "steadiness", breakage{unmarked: 200 * time.Millisecond}},
	} {
		wrong := brokenBars[c.bar](t, c.broken)
		if wrong == "" {
			t.Errorf("%s: the bar of %s does not see it", c.name, c.bar)
		}
		t.Logf("%s: %s: %s", c.name, c.bar, wrong)
	}
}
