// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"slices"
	"time"

	"weir/internal/core/control"
	"weir/internal/lab/scenario"
)

// step measures how the goodput of a workload went to its reservation, if traffic
// began or the reservation was changed in this phase. Its seconds count from when the
// generator was started or the policy was sent.
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
		if f.Workload == w && bulk(f) && f.From >= span.From && f.From < span.To {
			began, before, stepped = f.From, 0, true
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

func known(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}
