// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"time"

	"weir/internal/lab/scenario"
)

// unsteady is the largest error of any workload's rate in any window of the measured
// part of a phase, as a share of the link: what a mean over the phase hides. Windows are
// those of reaction, from 10 ms to 10 ms; none of them crosses a change. Nil if there
// is none.
func (e *evaluation) unsteady(span scenario.Span) *float64 {
	window := ReactionWindow(e.m.Scheduler)
	capacity := float64(e.s.Link.Capacity())
	var worst *float64
	for _, st := range e.stretch {
		from, to := max(span.Measured, st.From), min(span.To, st.To)
		from = (from + scenario.Bucket - 1).Truncate(scenario.Bucket)
		for at := from; at+window <= to; at += scenario.Bucket {
			off := e.worstError(at, at+window, st) / capacity
			if worst == nil || off > *worst {
				worst = &off
			}
		}
	}
	return worst
}

// worstError is the largest distance of a workload's rate from its ideal, bits per second.
func (e *evaluation) worstError(from, to time.Duration, st scenario.Stretch) (most float64) {
	for w, ideal := range st.Ideal {
		most = max(most, math.Abs(e.rate(w, from, to)-ideal))
	}
	return most
}
