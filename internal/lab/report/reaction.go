// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"slices"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/lab/scenario"
)

// CreditPeriod is the time after which the schedulers qcon and ancs hand out credits
// (WEIR_CREDIT_PERIOD_NS).
const CreditPeriod = 30 * time.Millisecond

// How the reaction to a change is measured.
const (
	// reactionMargin is how near a rate has to be to the ideal, as a share of
	// the link.
	reactionMargin = 0.05
	// A workload with less than starved of its ideal has not got its share, however
	// small that is, if starvedFrames of its frames would fit into the window: fewer are
	// counted too coarsely.
	starved       = 0.5
	starvedFrames = 4
)

// ReactionWindow is the time over which rates are averaged to see whether the
// shares hold. It has to be a whole number of a scheduler's periods, or windows
// have different numbers of its bursts: 100 ms of qcon have three or four.
func ReactionWindow(scheduler string) time.Duration {
	if scheduler == plan.SchedulerQcon || scheduler == plan.SchedulerAncs {
		return 5 * CreditPeriod
	}
	return 100 * time.Millisecond
}

// reaction is how long the slowest change of a phase took to take hold, in
// milliseconds: from the change to the instant from which on every workload's
// rate is within 5 % of the link's capacity of its ideal, and at least half of it, in
// every window that begins then or later and ends before the next change. A change is
// what the lab does, at the time at which it does it: it sends the policy, starts a
// generator or stops it. The time is measured until the received traffic shows it, so
// the generator's own start, and what it still had to send when it was stopped, are
// part of the time. A window begins at the
// instant that is judged, so that its length adds nothing to the time; a rate that is
// wrong for less than a twentieth of it is not seen, whatever the size. Nil if
// nothing changed in the phase (changed is false), or if the shares never held.
// The scenario's own beginning is no change.
func (e *evaluation) reaction(p int) (slowest *float64, changed bool) {
	worst := 0.0
	for i, st := range e.stretch {
		if i == 0 || st.Phase != p || same(st, e.stretch[i-1], e.s.Link.Capacity()) {
			continue
		}
		changed = true
		took, ok := e.settled(st)
		if !ok {
			return nil, true
		}
		worst = max(worst, ms(took))
	}
	if !changed {
		return nil, false
	}
	return &worst, true
}

// same says that two stretches have the same ideals, within a thousandth of the
// link.
func same(a, b scenario.Stretch, capacity policy.Rate) bool {
	for w := range a.Ideal {
		if math.Abs(a.Ideal[w]-b.Ideal[w]) > float64(capacity)/1000 {
			return false
		}
	}
	return true
}

// settled is the time from the beginning of a stretch to the first window of those that
// all hold up to its end; false if there are not even two, one after the other.
func (e *evaluation) settled(st scenario.Stretch) (time.Duration, bool) {
	event := st.From.Truncate(scenario.Bucket)
	window := ReactionWindow(e.m.Scheduler)
	first := (st.To - window).Truncate(scenario.Bucket)
	for first >= event && e.holds(first, first+window, st) {
		first -= scenario.Bucket
	}
	first += scenario.Bucket
	return first - event, first+2*window <= st.To
}

func (e *evaluation) holds(from, to time.Duration, st scenario.Stretch) bool {
	for w, ideal := range st.Ideal {
		rate := e.rate(w, from, to)
		if math.Abs(rate-ideal) > reactionMargin*float64(e.s.Link.Capacity()) {
			return false
		}
		if rate < starved*ideal && e.countable(w, ideal*(to-from).Seconds(), st) {
			return false
		}
	}
	return true
}

// countable says whether so many bits of a workload are enough frames to be judged by
// themselves, and it sends as its generators are told: what pings or waits for answers
// has no rate of its own.
func (e *evaluation) countable(w int, bits float64, st scenario.Stretch) bool {
	frame := float64(e.s.Link.MTU + ethernetHeader)
	return bits >= starvedFrames*8*frame && slices.ContainsFunc(e.flows, func(f scenario.Flow) bool {
		return f.Workload == w && bulk(f) && f.From <= st.From && f.To >= st.To
	})
}
