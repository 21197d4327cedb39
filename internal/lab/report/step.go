// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"slices"
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
	if !stepped || before == target || !e.sends(w, span) {
		return
	}
	r := control.Respond(e.goodput(w, began, span.To, time.Second), 1, before, target)
	x.RiseS, x.Overshoot, x.SettleS, x.SteadyError = known(r.Rise), known(r.Overshoot), known(r.Settle), known(r.Steady)
}

// sends says whether a workload sends anything in a phase.
func (e *evaluation) sends(w int, span scenario.Span) bool {
	return slices.ContainsFunc(e.flows, func(f scenario.Flow) bool {
		return f.Workload == w && f.From < span.To && f.To > span.From
	})
}

// disturbedFor is how long after a phase's beginning its disturbance is looked for.
const disturbedFor = 5 * time.Second

// collapsed is the part of a reservation below which a second's goodput counts as
// collapsed.
const collapsed = 0.98

// lasts measures how well a reservation lasts. If it went on from the phase before: the
// largest deviation of any of the first five seconds' goodput from it. In every phase
// through which its workload wants it: the longest time in a row, in whole seconds of the
// measured window, in which the goodput was more than 2 % below it.
func (e *evaluation) lasts(x *Workload, w, p int, span scenario.Span) {
	target := x.ReserveBps
	if target == 0 || !e.wants(w, target, span.Measured, span.To) {
		return
	}
	if p > 0 && float64(e.s.Policies()[p-1][w].Reserve) == target && e.wants(w, target, span.From-time.Second, span.To) {
		worst := 0.0
		for _, bps := range e.goodput(w, span.From, min(span.To, span.From+disturbedFor), time.Second) {
			worst = max(worst, math.Abs(bps/target-1))
		}
		x.Disturbance = &worst
	}
	longest, now := 0.0, 0.0
	for _, bps := range e.goodput(w, span.Measured, span.To, time.Second) {
		now++
		if bps >= collapsed*target {
			now = 0
		}
		longest = max(longest, now)
	}
	x.RecoveryS = &longest
}

// wants says whether a workload offers a rate from one instant to another.
func (e *evaluation) wants(w int, bps float64, from, to time.Duration) bool {
	for _, st := range e.stretch {
		if st.To > from && st.From < to && float64(st.Demand[w]) < bps {
			return false
		}
	}
	return true
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
