// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"

	"weir/internal/dev/papers/cases"
)

// sdnConclusions holds what the SDN paper concludes in its sections 2 and 3 against the runs, of
// Weir's disciplines and of Open vSwitch's own queues. All are about the last case, in which all
// four flows send.
func sdnConclusions(w *writer) {
	w.Line("## The paper's conclusions\n\nWhat the paper concludes from figures 3 and 4, held against the last case.\n")
	for _, scheduler := range []string{"fair", w.paper.own} {
		name := func(technique string) string { return technique + "-" + scheduler }
		w.Line("With `%s`:\n", scheduler)
		w.claims([]claim{
			{says: "PQ's flow of the highest priority loses nothing.", needs: []string{name("pq")}, rule: func(w *writer) (bool, string) {
				lost := w.last(name("pq"), lossOf)
				return lost[0] == 0, fmt.Sprintf("%.1f %%", lost[0])
			}},
			{says: "CBWFQ loses the more, the less bandwidth a flow has.", needs: []string{name("cbwfq")}, rule: func(w *writer) (bool, string) {
				lost := w.last(name("cbwfq"), lossOf)
				return lost[0] > lost[1] && lost[1] > lost[2] && lost[2] > lost[3], cases.Joined(lost, "%.1f", "%")
			}},
			{says: "SFQ's loss is the same for all.", needs: []string{name("sfq")}, rule: func(w *writer) (bool, string) {
				lost := w.last(name("sfq"), lossOf)
				return cases.Spread(lost) <= 2, cases.Joined(lost, "%.1f", "%") + "; the bar is 2 between the least and the most"
			}},
			{says: "CBWFQ's slowest flow has more jitter than any of SFQ's.", needs: []string{name("cbwfq"), name("sfq")}, rule: func(w *writer) (bool, string) {
				slow, most := w.last(name("cbwfq"), jitterOf)[0], cases.Largest(w.last(name("sfq"), jitterOf))
				return slow > most, fmt.Sprintf("%.3f ms, and %.3f at most with SFQ", slow, most)
			}},
			{says: "LLQ's first flow has the least jitter of its four.", needs: []string{name("llq")}, rule: func(w *writer) (bool, string) {
				all := w.last(name("llq"), jitterOf)
				return all[0] < min(all[1], all[2], all[3]), cases.Joined(all, "%.3f", "ms")
			}},
			{says: "Flows 2 to 4 of LLQ jitter alike.", needs: []string{name("llq")}, rule: func(w *writer) (bool, string) {
				all := w.last(name("llq"), jitterOf)[1:]
				return cases.Largest(all) <= 2*min(all[0], all[1], all[2]), cases.Joined(all, "%.3f", "ms") + "; the bar is twice the least"
			}},
		})
	}
	w.Line("Weir's CBWFQ sends the packets of a class that is behind its weight next, so a slow class waits for a few packets; HTB lets a slow class send when it has the tokens for a packet, which is seldom. With Weir the slow class therefore jitters no more than SFQ's flows, and with Open vSwitch's own queues the paper's order is there.\n")
}

func lossOf(x *run, i int) *float64 {
	if v := x.phases[len(x.phases)-1].workloads[i].Loss; v != nil {
		percent := 100 * *v
		return &percent
	}
	return nil
}

func jitterOf(x *run, i int) *float64 { return x.phases[len(x.phases)-1].workloads[i].JitterMs }

// last are the numbers of a run's workloads in its last case, infinite where there is none.
func (w *writer) last(name string, number func(x *run, i int) *float64) (list []float64) {
	x := w.runs[name]
	for i := range x.scenario.Workloads {
		v := math.Inf(1)
		if got := number(x, i); got != nil {
			v = *got
		}
		list = append(list, v)
	}
	return list
}

// htbSection says what the qCon paper's premise about Linux traffic control is worth.
func htbSection(w *writer) {
	worst := func(scheduler string) (most float64) {
		for _, f := range w.paper.figures() {
			if x := w.runs[f.scenario+"-"+scheduler]; x != nil {
				off, _ := x.worst()
				most = max(most, off)
			}
		}
		return most
	}
	w.Line(prose("qcon-htb")+"\n", percent(worst("htb")), percent(worst("qcon")))
}

// table3 is the ANCS paper's comparison with other schedulers.
func table3(w *writer) {
	cpu := func(name string) string {
		if x := w.runs[name]; x != nil && len(x.phases) > 4 && x.phases[4].link.CPU != nil {
			return percent(*x.phases[4].link.CPU)
		}
		return notMeasured
	}
	w.Line(prose("ancs-table3")+"\n", cpu("fig08-fair"), cpu("fig08-htb"))
}
