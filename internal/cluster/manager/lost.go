// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"maps"
	"time"

	"weir/internal/cluster/wire"
)

// Limits of a move that is under way. A move that passes one of them ends here as lost:
// it does not count against the moves at once any more, and what waits for it goes on
// without it. On its nodes it goes on by its journal. The source's final report is taken
// in as the truth whenever it comes.
const (
	// moveSilence is the time without a new report. A source that lives answers a
	// reminder, which is sent after remindAfter.
	moveSilence = 5 * time.Minute
	// moveStill is the time without progress (advances). The longest step without bytes may
	// take 30 minutes (an image by a registry).
	moveStill = 45 * time.Minute
	// moveLongest is the time from the order to the end, whatever the source reports: 100 GB
	// at 100 Mbit/s take 2.2 hours.
	moveLongest = 6 * time.Hour
	// leastGrowth is what the bytes of a step have to grow by to be progress: over moveStill
	// it is 3 kbit/s.
	leastGrowth = 1 << 20
	// fastestLink bounds what a move can carry, in bytes per second: 400 Gbit/s.
	fastestLink = 50e9
	// cancelPatience is the time in which a source answers that it is to cancel a move.
	cancelPatience = 2 * time.Minute
)

// overdue says why a move that is under way ends now without a report of its source, and
// as what; why is "" while it may go on. Nothing is held against a source for the time in
// which this manager did not run.
func (m *Manager) overdue(mv *move, now time.Time) (state wire.MoveState, why string) {
	since := func(t time.Time) time.Duration { return now.Sub(later(t, m.started)) }
	switch {
	case mv.Cancel != nil && mv.Cancel.Answer == "" && since(mv.Cancel.Asked) > cancelPatience:
		return wire.MoveCancelled, "node " + mv.From + " has not answered that it is cancelled; see weir ps where the container runs once the node is heard of"
	case mv.State != wire.MoveRunning:
		return "", "" // its deadline ends it
	case since(mv.Said) > moveSilence:
		return wire.MoveLost, fmt.Sprintf("node %s has said nothing about it for %v; see weir ps where the container runs once the node is heard of", mv.From, moveSilence)
	case since(mv.Changed) > moveStill:
		return wire.MoveLost, fmt.Sprintf("it has not come further than %q for %v; see the log of the agent on %s", mv.Step, moveStill, mv.From)
	case now.Sub(mv.Ordered) > moveLongest && since(m.started) > moveSilence:
		return wire.MoveLost, fmt.Sprintf("it has not ended within %v; see the log of the agent on %s", moveLongest, mv.From)
	}
	return "", ""
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// settled reports whether the source has said how the move ended.
func (m *move) settled() bool { return m.State.Settles() }

// revives reports whether a report about a move that the manager has ended as lost means
// that it is under way after all.
func (m *move) revives(r wire.MoveReport, now time.Time) bool {
	return m.State == wire.MoveLost && r.State == wire.MoveRunning && now.Sub(m.Ordered) < moveLongest && m.advances(r, now)
}

// advances reports whether a report says that the move has come further: it has ended, is
// in a step that it was not in before, or has moved more bytes in one than ever. A source
// that goes back and forth comes no further, nor does one that moves more than a link can.
func (m *move) advances(r wire.MoveReport, now time.Time) bool {
	if r.State != wire.MoveRunning {
		return true
	}
	most, known := m.Progress[stepName(r)]
	switch {
	case r.Step == "":
		return len(m.Progress) == 0
	case !known:
		return len(m.Progress) < maxSteps
	}
	possible := now.Sub(m.Ordered).Seconds() * fastestLink
	return r.Bytes >= most+leastGrowth && float64(r.Bytes) <= possible
}

// further returns the progress of a move with that of one more report.
func (m *move) further(r wire.MoveReport) map[string]uint64 {
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

func stepName(r wire.MoveReport) string { return wire.Clip(r.Step, maxStepName) }
