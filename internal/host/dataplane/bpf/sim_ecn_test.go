// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy/discipline"
)

// ecnAQM is CoDel with marks.
var ecnAQM = plan.AQM{Target: discipline.DefaultTarget, Interval: discipline.DefaultInterval, ECN: true}

// ecnResult is what flows of one class did in a minute, after five seconds.
type ecnResult struct {
	flows       []flowResult
	utilisation float64
	p99         time.Duration
}

func (r ecnResult) drops() (n uint64) {
	for _, f := range r.flows {
		n += f.dropped
	}
	return n
}

func (r ecnResult) marks() (n uint64) {
	for _, f := range r.flows {
		n += f.marked
	}
	return n
}

const ecnOver = 20 * time.Second

// runTCP has TCPs of one class on 100 Mbit/s, 40 ms away.
func runTCP(t *testing.T, class plan.Class, marks bool, says ...tcpSays) ecnResult {
	t.Helper()
	s := simulate(fairLink(100e6), class)
	if !marks {
		s.WriteString("marks 0\n")
	}
	for i, say := range says {
		s.send(traffic{id: class.ID, flow: i * 8, length: frames, delay: 40*time.Millisecond + time.Duration(i-2)*700*time.Microsecond, tcp: say})
	}
	s.run(5 * time.Second)
	s.trace(1)
	s.run(ecnOver)
	got := s.result(t)[1]
	r := ecnResult{utilisation: got.total * 8 / ecnOver.Seconds() / 100e6}
	var waits []time.Duration
	for _, d := range got.left[class.ID] {
		waits = append(waits, d.at-d.born)
	}
	slices.Sort(waits)
	r.p99 = waits[len(waits)*99/100]
	for i := range says {
		r.flows = append(r.flows, got.flow(class.ID, i*8))
	}
	return r
}

func four(says tcpSays) []tcpSays { return []tcpSays{says, says, says, says} }

// TestECNMarksInPlaceOfDrops: flows that can be marked lose nothing, wait for as long as
// those that cannot, and fill the link as well, in each discipline. lab/bars/ecn.yaml has the
// bars; here 20 s are simulated, in which flows differ by chance.
func TestECNMarksInPlaceOfDrops(t *testing.T) {
	for _, class := range []plan.Class{port(discipline.SFQ), port(discipline.CBWFQ, weighted(1)...), port(discipline.PQ, weighted(1)...), port(discipline.LLQ, weighted(1, 1)...)} {
		class.AQM = ecnAQM
		if class.Discipline.HasQueues() {
			class.Isolation = discipline.NoIsolation
		}
		if class.Discipline == discipline.LLQ {
			class.Queues[0].Rate = 90e6
		}
		marked, dropped := runTCP(t, class, true, four(ect)...), runTCP(t, class, true, four(notECT)...)
		t.Logf("%s: marked %d, dropped %d, %.2f %%, p99 %v; without ECT: dropped %d, %.2f %%, p99 %v", class.Discipline,
			marked.marks(), marked.drops(), 100*marked.utilisation, marked.p99, dropped.drops(), 100*dropped.utilisation, dropped.p99)
		if marked.drops() > 0 || marked.marks() == 0 {
			t.Errorf("%s: %d drops, %d marks", class.Discipline, marked.drops(), marked.marks())
		}
		if marked.utilisation < 0.99 || marked.p99 > dropped.p99*105/100 {
			t.Errorf("%s: utilisation %.4f, p99 %v; by drops %.4f, %v", class.Discipline, marked.utilisation, marked.p99, dropped.utilisation, dropped.p99)
		}
		for i, f := range marked.flows {
			if share := f.sent * 8 / ecnOver.Seconds() / 25e6 / marked.utilisation; class.Discipline == discipline.SFQ && math.Abs(share-1) > 0.03 {
				t.Errorf("%s: flow %d has %.3f of its share", class.Discipline, i+1, share)
			}
		}
	}
}

// TestECNIgnored: a flow that says it can be marked and ignores marks has its share in sfq
// and no more, loses packets, and costs the others nothing.
func TestECNIgnored(t *testing.T) {
	class := port(discipline.SFQ)
	class.AQM = ecnAQM
	r := runTCP(t, class, true, ectDeaf, ect, ect, ect)
	t.Logf("%+v, %.2f %%", r.flows, 100*r.utilisation)
	if deaf := r.flows[0]; deaf.dropped == 0 || deaf.sent*8/ecnOver.Seconds() > 1.02*25e6 {
		t.Errorf("the flow that ignores marks: %+v", deaf)
	}
	for _, f := range r.flows[1:] {
		if f.dropped > 0 || f.sent*8/ecnOver.Seconds() < 0.97*25e6 {
			t.Errorf("a flow beside it: %+v", f)
		}
	}
}

// TestECNBesideDrops: flows that can be marked and flows that cannot share a queue as if all
// were of one kind. One that ignores marks is dropped before packets wait for long.
func TestECNBesideDrops(t *testing.T) {
	class := port(discipline.CBWFQ, weighted(1)...)
	class.AQM = ecnAQM
	r := runTCP(t, class, true, notECT, ect, notECT, ect)
	t.Logf("%+v, p99 %v", r.flows, r.p99)
	if without, with := r.flows[0].sent+r.flows[2].sent, r.flows[1].sent+r.flows[3].sent; without > 1.5*with || with > 1.5*without {
		t.Errorf("those that can be marked sent %.0f bytes, the others %.0f", with, without)
	}
	r = runTCP(t, class, true, ectDeaf, ect, ect, ect)
	t.Logf("%+v, p99 %v", r.flows, r.p99)
	if r.flows[0].dropped == 0 || r.p99 > 15*time.Millisecond {
		t.Errorf("the flow that ignores marks: %+v; p99 %v", r.flows[0], r.p99)
	}
}

// TestIsolationOfHosts: with one hash for all packets of a host (bpf/marking/rules.h writes
// it), a host of 64 flows and one of a single flow have half each.
func TestIsolationOfHosts(t *testing.T) {
	for hosts, most := range map[int]float64{1: 0.05, 64: 0.51} {
		class := port(discipline.SFQ)
		s := simulate(fairLink(100e6), class)
		fmt.Fprintln(s, "hosts", hosts)
		for i := range 65 {
			s.send(traffic{id: class.ID, flow: i, length: frames, window: 20, delay: 50 * time.Microsecond})
		}
		s.settle()
		s.run(portPhase)
		p := s.result(t)[1]
		if share := p.flow(class.ID, 64).sent / p.total; share > most || hosts == 64 && share < 0.49 {
			t.Errorf("%d flows with one hash: the single flow has %.3f", hosts, share)
		}
	}
}

// TestDebtsOfClassesAreApart: a flow of one class never pays for a flow of another one with
// the same hash, which a sender can choose and `isolation` gives to all that talk to one host.
func TestDebtsOfClassesAreApart(t *testing.T) {
	busy, patient := port(discipline.SFQ), port(discipline.SFQ)
	busy.AQM, patient.AQM = ecnAQM, ecnAQM
	patient.ID, patient.AQM.Target, patient.AQM.Interval = busy.ID+1, time.Second, 10*time.Second
	s := simulate(fairLink(100e6), busy, patient)
	for _, class := range []plan.Class{busy, patient} {
		s.send(traffic{id: class.ID, length: frames, delay: 40 * time.Millisecond, tcp: ect})
	}
	s.run(5 * time.Second)
	s.run(ecnOver)
	p := s.result(t)[1]
	if got := p.flow(patient.ID, 0); got.marked > 0 {
		t.Errorf("%d packets of the class that owes nothing are marked", got.marked)
	}
	if got := p.flow(busy.ID, 0); got.marked == 0 || got.dropped > 0 {
		t.Errorf("the class that owes: %d marks, %d drops", got.marked, got.dropped)
	}
}

// TestECNWithoutItsProgram: where nothing marks, CoDel drops.
func TestECNWithoutItsProgram(t *testing.T) {
	class := port(discipline.SFQ)
	class.AQM = ecnAQM
	if r := runTCP(t, class, false, four(ect)...); r.drops() == 0 || r.marks() > 0 || r.p99 > 20*time.Millisecond {
		t.Errorf("%d drops, %d marks, p99 %v", r.drops(), r.marks(), r.p99)
	}
}

// TestCEThreshold: DCTCP keeps the queue near the threshold, loses nothing, and fills the link.
func TestCEThreshold(t *testing.T) {
	class := port(discipline.SFQ)
	class.AQM = ecnAQM
	class.AQM.CEThreshold = time.Millisecond
	r := runTCP(t, class, true, four(ectDCTCP)...)
	t.Logf("marked %d, dropped %d, %.2f %%, p99 %v", r.marks(), r.drops(), 100*r.utilisation, r.p99)
	if r.drops() > 0 || r.marks() == 0 || r.utilisation < 0.95 || r.p99 > 5*time.Millisecond {
		t.Errorf("marked %d, dropped %d, %.2f %%, p99 %v", r.marks(), r.drops(), 100*r.utilisation, r.p99)
	}
}
