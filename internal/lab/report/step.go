// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"time"

	"weir/internal/control"
	"weir/internal/lab/scenario"
)

// goodputs are what the programs of each workload got in each second.
func (e *evaluation) goodputs() [][]float64 {
	rows := make([][]float64, len(e.s.Workloads))
	for w := range rows {
		rows[w] = e.goodput(w, 0, e.s.Duration(), time.Second)
	}
	return rows
}

// goodput is what the programs of a workload got in each step of a window, bits per
// second.
func (e *evaluation) goodput(w int, from, to, step time.Duration) []float64 {
	values := make([]float64, max(0, int((to-from)/step)))
	for _, r := range e.m.Reports {
		if e.flows[r.Flow].Workload != w {
			continue
		}
		for _, in := range r.Intervals {
			first := max(0, int((in.From-from)/step))
			for n := first; n < len(values); n++ {
				at := from + time.Duration(n)*step
				if at >= in.To {
					break
				}
				values[n] += float64(in.Bytes) * 8 * overlap(in.From, in.To, at, at+step) / step.Seconds()
			}
		}
	}
	return values
}

// step measures how the goodput of a workload went to its reservation, if traffic
// began or the reservation was changed in this phase.
func (e *evaluation) step(x *Workload, w, p int, span scenario.Span) {
	policies := e.s.Policies()
	target := float64(policies[p][w].Reserve)
	if x.ReserveBps = target; target == 0 {
		return
	}
	began, before := span.From, 0.0
	if p > 0 {
		before = float64(policies[p-1][w].Reserve)
	}
	stepped := before != target
	for _, f := range e.flows {
		if f.Workload == w && (f.Kind == scenario.TCP || f.Kind == scenario.UDP) && f.From >= span.From && f.From < span.To {
			began, before, stepped = e.firstInterval(w, f.From), 0, true
			break
		}
	}
	if !stepped || before == target {
		return
	}
	r := control.Respond(e.goodput(w, began, span.To, time.Second), 1, before, target)
	x.RiseS, x.Overshoot, x.SettleS, x.SteadyError = known(r.Rise), known(r.Overshoot), known(r.Settle), known(r.Steady)
}

// firstInterval is when the first interval of a workload's flows begins, not before an
// instant: their seconds count from there.
func (e *evaluation) firstInterval(w int, after time.Duration) time.Duration {
	first := time.Duration(math.MaxInt64)
	for _, r := range e.m.Reports {
		if e.flows[r.Flow].Workload == w && e.flows[r.Flow].From >= after && len(r.Intervals) > 0 {
			first = min(first, r.Intervals[0].From)
		}
	}
	if first == math.MaxInt64 {
		return after
	}
	return max(first, after)
}

func known(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}
