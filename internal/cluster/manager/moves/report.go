// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"weir/internal/core/wire"
)

// Report returns the move after a report of its source. ok is false if the report changes
// nothing: it was here before, or the source has said how the move ended.
func (m *Move) Report(r wire.MoveReport, now time.Time) (next Move, ok bool) {
	if r.Seq <= m.Seq || m.Ordered.IsZero() || m.State.Settles() || m.State.Final() && !r.State.Final() && !m.revives(r, now) {
		return *m, false
	}
	next = *m
	next.Said, next.Ended = now.UTC(), time.Time{}
	if m.advances(r, now) {
		next.Changed, next.Progress = now.UTC(), m.further(r)
	}
	if r.Cancel != "" && m.Cancel != nil {
		next.Cancel = &Cancellation{Asked: m.Cancel.Asked, Why: m.Cancel.Why, Answer: r.Cancel}
	}
	next.State, next.Seq, next.Step = r.State, r.Seq, cmp.Or(r.Step, m.Step)
	next.Error = r.Error
	if r.Downtime > 0 {
		next.Downtime = r.Downtime
	}
	if r.Step != "" {
		next.Steps = withStep(m.Steps, r)
	}
	if next.State.Final() {
		next.Ended, next.Progress = now.UTC(), nil
	}
	return next, true
}

// revives reports whether a report about a move that the manager has ended as lost means
// that it is under way after all.
func (m *Move) revives(r wire.MoveReport, now time.Time) bool {
	return m.State == wire.MoveLost && r.State == wire.MoveRunning && now.Sub(m.Ordered) < Longest && m.advances(r, now)
}

// advances reports whether a report says that the move has come further: it has ended, is
// in a step that it was not in before, or has moved more bytes in one than ever. A source
// that goes back and forth comes no further, nor does one that moves more than a link can.
func (m *Move) advances(r wire.MoveReport, now time.Time) bool {
	if r.State != wire.MoveRunning {
		return true
	}
	most, known := m.Progress[stepName(r)]
	switch {
	case r.Step == "":
		return len(m.Progress) == 0
	case !known:
		return len(m.Progress) < MaxSteps
	}
	possible := now.Sub(m.Ordered).Seconds() * fastestLink
	return r.Bytes >= most+leastGrowth && float64(r.Bytes) <= possible
}

// further returns the progress of a move with that of one more report.
func (m *Move) further(r wire.MoveReport) map[string]uint64 {
	if r.Step == "" || r.State != wire.MoveRunning {
		return m.Progress
	}
	next := maps.Clone(m.Progress)
	if next == nil {
		next = map[string]uint64{}
	}
	next[stepName(r)] = r.Bytes
	return next
}

func stepName(r wire.MoveReport) string { return wire.Clip(r.Step, MaxStepName) }

// withStep puts the report about a step in the place of those before it about the same.
func withStep(steps []wire.MoveReport, r wire.MoveReport) []wire.MoveReport {
	r.Step, r.Error, r.Cancel = wire.Clip(r.Step, MaxStepName), wire.Clip(r.Error, MaxStepError), ""
	r.Code = ""
	steps = slices.Clone(steps)
	if n := len(steps); n > 0 && (steps[n-1].Step == r.Step || n >= MaxSteps) {
		steps[n-1] = r
		return steps
	}
	return append(steps, r)
}
