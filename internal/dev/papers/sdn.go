// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"time"

	"weir/internal/dev/papers/cases"
)

// technique is one of the paper's techniques: rates, jitter and loss of each flow
// with it, and the jitter that the paper's table 4 has.
type technique struct {
	figure
	table4 [4]float64 // ms, of flows 1 to 4
}

func (t technique) write(w *writer) {
	w.Line("## %s\n\n%s\n", t.title, t.did)
	fair, own, s := w.runs[t.scenario+"-fair"], w.runs[t.scenario+"-"+w.paper.own], w.scenarios[t.scenario]
	w.Head("case", "flow", "paper", "contract", "fair", "error", "jitter", "loss", w.paper.own, "error", "jitter", "loss")
	began := time.Duration(0)
	for p := range s.Phases {
		for i, c := range s.Workloads {
			if known := cmp.Or(fair, own); known == nil || known.phases[p].workloads[i].IdealBps == 0 && c.Traffic[0].Start >= began+s.Phases[p].For {
				continue // nothing measured, or it does not send yet
			}
			cells := []string{fmt.Sprint(p + 1), c.Name, "", ""}
			for _, x := range []*run{fair, own} {
				if x == nil {
					cells = append(cells, "-", "-", "-", "-")
					continue
				}
				m := x.phases[p].workloads[i]
				cells[2], cells[3] = printed(m), mbit(m.IdealBps)
				lost := "-"
				if m.Loss != nil {
					lost = fmt.Sprintf("%.1f %%", *m.Loss*100)
				}
				cells = append(cells, rateOf(x, p, i), errorOf(x, p, i), millis(m.JitterMs), lost)
			}
			w.Row(cells...)
		}
		began += s.Phases[p].For
	}
	w.Line("\n%s\n", t.why)
	w.claims(t.claims)
	for _, x := range []*run{fair, own} {
		w.bars(x, "jitter", "jitter", "ms, each line ten times the one below", cases.Jitter, 0.001)
		w.bars(x, "loss", "loss", "% of the datagrams", cases.Loss, 0)
	}
	w.plot(t.scenario + "-fair")
	w.plot(t.scenario + "-" + w.paper.own)
}

// jitter is the paper's table 4: the average over a flow's cases.
type jitter struct{ title, did, why string }

func (jitter) runs(string) []want { return nil }

func (j jitter) write(w *writer) {
	w.Line("## %s\n\n%s\n", j.title, j.did)
	w.Head("technique", "flow", "paper", "fair", "at or below", w.paper.own)
	counts := map[string]int{}
	for _, part := range w.paper.sections {
		t, ok := part.(technique)
		if !ok {
			continue
		}
		for i, printed := range t.table4 {
			fair, own := w.jitterOf(t.scenario+"-fair", i), w.jitterOf(t.scenario+"-"+w.paper.own, i)
			verdict := "-"
			if fair != nil {
				verdict = "has none"
				if fair.With == fair.Cases {
					verdict = yes(fair.Mean <= printed)
				}
				counts[verdict]++
			}
			w.Row(t.title, fmt.Sprintf("flow%d", i+1), fmt.Sprintf("%.2f ms", printed), fair.Text(), verdict, own.Text())
		}
	}
	w.Line("\nOf the flows %d are at or below the paper, %d are not, and %d have no average, since in some case none of their datagrams arrived.",
		counts[yes(true)], counts[yes(false)], counts["has none"])
	w.Line("\n%s\n", j.why)
}

// jitterOf a flow in a run; nil if there is no such run.
func (w *writer) jitterOf(name string, flow int) *cases.MeanJitter {
	x := w.runs[name]
	if x == nil {
		return nil
	}
	var ends []time.Duration
	for _, span := range x.scenario.Spans() {
		ends = append(ends, span.To)
	}
	return cases.Hear(x.loads(), ends, flow, x.scenario.Workloads[flow].Traffic[0].Start)
}

var sdn = paper{
	name: "sdn", own: "ovs-htb", tool: "Iperf", head: prose("sdn"), summary: prose("sdn-summary"),
	sections: []section{
		text(func(w *writer) { w.Line("%s\n", prose("sdn-parameters")) }),
		technique{figure{"sfq", "SFQ: figure 2(a)",
			`Four flows of 8 Mbit/s, all equal.`,
			`Weir tells flows apart by their addresses and ports; Open vSwitch has a queue for each host.`, nil},
			[4]float64{1.26, 4.07, 1.27, 0.66}},
		technique{figure{"pq", "PQ: figure 2(b)",
			`Four flows of 5 Mbit/s; flow 1 has the highest priority, flows 2 and 3 the same, flow 4 the lowest.`,
			`Open vSwitch's priority orders only what its queues borrow, so the lowest keeps its min-rate of 80 kbit/s, in the
paper too. With strict priority it gets nothing while the others want all, and then it has no jitter.`, nil},
			[4]float64{0.80, 3.00, 3.88, 93.60}},
		technique{figure{"cbwfq", "CBWFQ: figure 2(c)",
			`Four flows of 8 Mbit/s in queues with mins of 0.8, 1.6, 2.4 and 3.2 Mbit/s.`,
			`Of the last case the paper prints 3.15, 2.33, 2.56 and 0.80 Mbit/s "of the four flows", and not whose they are. The column takes
them for flows 4, 3, 2 and 1, by the mins; they are not 4:3:2:1 in any order.`, nil},
			[4]float64{6.89, 1.94, 2.00, 0.97}},
		technique{figure{"llq", "LLQ: figure 2(d)",
			`Four flows of 5 Mbit/s; flow 1 is in the strict queue, the others in queues with mins of 80, 160 and 240 kbit/s.`,
			`The strict queue's packets do not wait for the packet that is being sent: the link's rate is held over a few packets
instead. Open vSwitch has no such queue; there the flow has a min-rate above its own rate.`, []claim{
				tailed("The first flow's jitter is the paper's or less with fair.", "llq-fair", 0.02, "ms", callJitter),
				tailed("With Open vSwitch too.", "llq-ovs-htb", 0.02, "ms", callJitter)}},
			[4]float64{0.02, 9.28, 15.84, 3.78}},
		jitter{"Table 4: average jitter",
			`The average of each flow's jitter over the cases in which it sends.`,
			`Jitter of a flow that loses packets is mostly that of its losses: of evenly spaced datagrams those that arrive are
not evenly spaced.`},
		text(sdnConclusions),
	},
}

// callJitter is flow 1's in the last case, beside all others, ms.
func callJitter(x *run) *float64 { return x.phases[len(x.phases)-1].workloads[0].JitterMs }
