// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"fmt"
	"time"

	"weir/internal/core/wire"
)

// Limits of a move that is under way. A move that passes one of them ends here as lost:
// it does not count against the moves at once any more, and what waits for it goes on
// without it. On its nodes it goes on by its journal. The source's final report is taken
// in as the truth whenever it comes.
const (
	// Silence is the time without a new report. A source that lives answers a
	// reminder, which is sent after RemindAfter.
	Silence = 5 * time.Minute
	// Still is the time without progress (advances). The longest step without bytes may
	// take 30 minutes (an image by a registry).
	Still = 45 * time.Minute
	// Longest is the time from the order to the end, whatever the source reports: 100 GB
	// at 100 Mbit/s take 2.2 hours.
	Longest = 6 * time.Hour
	// leastGrowth is what the bytes of a step have to grow by to be progress: over Still
	// it is 3 kbit/s.
	leastGrowth = 1 << 20
	// fastestLink bounds what a move can carry, in bytes per second: 400 Gbit/s.
	fastestLink = 50e9
	// RemindAfter is the time without a word about an order after which it is sent again.
	RemindAfter = time.Minute
	// CancelPatience is the time in which a source answers that it is to cancel a move.
	CancelPatience = 2 * time.Minute
)

// Overdue says why a move that is under way ends now without a report of its source, and
// as what; why is "" while it may go on. Nothing is held against a source for the time
// before started, in which this manager did not run.
func (m *Move) Overdue(now, started time.Time) (state wire.MoveState, why string) {
	since := func(t time.Time) time.Duration { return now.Sub(Later(t, started)) }
	switch {
	case m.Cancel != nil && m.Cancel.Answer == "" && since(m.Cancel.Asked) > CancelPatience:
		return wire.MoveCancelled, "node " + m.From + " has not answered that it is cancelled; see weir ps where the container runs once the node is heard of"
	case m.State != wire.MoveRunning:
		return "", "" // its deadline ends it
	case since(m.Said) > Silence:
		return wire.MoveLost, fmt.Sprintf("node %s has said nothing about it for %v; see weir ps where the container runs once the node is heard of", m.From, Silence)
	case since(m.Changed) > Still:
		return wire.MoveLost, fmt.Sprintf("it has not come further than %q for %v; see the log of the agent on %s", m.Step, Still, m.From)
	case now.Sub(m.Ordered) > Longest && since(started) > Silence:
		return wire.MoveLost, fmt.Sprintf("it has not ended within %v; see the log of the agent on %s", Longest, m.From)
	}
	return "", ""
}

// Later returns the later one of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
