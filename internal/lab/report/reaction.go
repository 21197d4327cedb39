// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"time"

	"weir/internal/lab/scenario"
	"weir/internal/plan"
	"weir/internal/policy"
)

// CreditPeriod is how often the schedulers qcon and ancs hand out credits
// (WEIR_CREDIT_PERIOD_NS).
const CreditPeriod = 30 * time.Millisecond

// How the reaction to a change is measured.
const (
	// reactionMargin is how near a rate has to be to the ideal, as a share of
	// the link.
	reactionMargin = 0.05
	// eventSlack is how late a generator may be compared with the timeline:
	// iperf3 has to be started and to connect.
	eventSlack = time.Second
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
// rate is within 5 % of the link's capacity of its ideal, in every window that
// begins then or later and ends before the next change. A window begins at the
// instant that is judged, so that its length adds nothing to the time; what is
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
		took, ok := e.settled(e.event(e.stretch[i-1], st), st)
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

// moveEvents puts the borders between stretches to where the generators really
// began and ended, so that a late start is not taken for a wrong share. Borders
// of phases stay.
func (e *evaluation) moveEvents() {
	for i := 1; i < len(e.stretch); i++ {
		before, after := &e.stretch[i-1], &e.stretch[i]
		if before.Phase == after.Phase {
			at := min(e.event(*before, *after), after.To)
			before.To, after.From = at, at
		}
	}
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

// event is when a change really happened. A policy changes on time. A workload
// that starts or stops does so when its generator gets there: with the first
// 10 ms in which its rate has gone a tenth of the way to its new ideal, or with
// the last in which it had a tenth of the way still to go.
func (e *evaluation) event(before, after scenario.Stretch) time.Duration {
	at := after.From
	for w := range after.Ideal {
		was, is := before.Ideal[w], after.Ideal[w]
		switch {
		case before.Demand[w] < after.Demand[w] && was < is:
			at = max(at, e.firstAbove(w, after.From, was+(is-was)/10))
		case before.Demand[w] > after.Demand[w] && was > is:
			at = max(at, e.lastAbove(w, after.From, is+(was-is)/10))
		}
	}
	return at
}

func (e *evaluation) firstAbove(w int, from time.Duration, bps float64) time.Duration {
	for at := from; at < from+eventSlack; at += scenario.Bucket {
		if e.rate(w, at, at+scenario.Bucket) > bps {
			return at
		}
	}
	return from
}

func (e *evaluation) lastAbove(w int, from time.Duration, bps float64) time.Duration {
	for at := from + eventSlack; at > from; at -= scenario.Bucket {
		if e.rate(w, at-scenario.Bucket, at) > bps {
			return at
		}
	}
	return from
}

// settled is the time from the event to the first window of those that all hold
// up to the end of the stretch; false if there are not even two, one after the
// other.
func (e *evaluation) settled(event time.Duration, st scenario.Stretch) (time.Duration, bool) {
	event = event.Truncate(scenario.Bucket)
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
		if math.Abs(e.rate(w, from, to)-ideal) > reactionMargin*float64(e.s.Link.Capacity()) {
			return false
		}
	}
	return true
}
