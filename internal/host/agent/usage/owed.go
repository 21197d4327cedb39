// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"weir/internal/core/plan"
	"weir/internal/core/policy"
)

// owed is what a class was promised while its packets waited.
type owed struct {
	promise float64 // bits per second
	turn    float64 // bits that others may send before its turn comes
}

const (
	// oneTurn is a scheduler's longest turn, in seconds of the link.
	oneTurn = 1e-3
	// lateness is how much later than promised a packet may be, in seconds: a scheduler makes
	// it good, but not before the counters are read.
	lateness = 0.01
	// scoreTolerance is the part by which less is still called kept. With the lateness it is 2
	// % where packets wait for a whole second.
	scoreTolerance = 0.01
	// shortWait is the shortest time of waiting in a second that is judged, in seconds.
	shortWait = 0.05
	// fewFrames is how much has to be owed to be judged, in full frames.
	fewFrames = 4
	// mostly is the part of a second that is known to be one of waiting, where not all of it is
	// known, to judge it.
	mostly = 0.7
)

// outcome is what came of a promise in a second.
type outcome int

const (
	unknown outcome = iota // nothing was owed, or not so much that one could tell, or the backend cannot tell
	held
	missed
)

// judge says what came of the promise in the second between two measurements. Where a backend does
// not know all times of waiting, only those seconds count that are known to be such, one after
// another, and those in which the class seemed to wait and got what it was promised: so a sender
// that gets what it asks for is never called starved, and one that is starved is found.
func (o owed) judge(before, now Class) outcome {
	w := now.Waits
	switch {
	case w.Whole && w.Seconds < shortWait:
		return unknown
	case !w.Whole && (w.part() < mostly || before.Waits.part() < mostly):
		if seemsToWait(before) && seemsToWait(now) && o.kept(now.Rate*w.Of, w.Of) {
			return held
		}
		return unknown
	case o.promise*(w.Seconds-lateness) < o.turn+fewFrames*8*policy.FullFrame:
		return unknown
	case o.kept(w.Bits, w.Seconds):
		return held
	}
	return missed
}

// kept reports whether so many bits in so many seconds are what was promised.
func (o owed) kept(bits, seconds float64) bool {
	return bits >= (1-scoreTolerance)*o.promise*(seconds-lateness)-o.turn-8*policy.FullFrame
}

func seemsToWait(c Class) bool { return c.BacklogBytes >= 2*policy.FullFrame }

// contended returns the shares that a link gives where every class whose packets waited for a part
// of the second wants all it can get. It is the least that each has beside the others at any time
// of the second.
func (d Division) contended() map[plan.ClassID]policy.Share {
	var now []plan.ClassID // that wait now and then
	for _, class := range d.State.Classes {
		if used := d.Used[class.ID]; !used.Hungry && used.Waits.Seconds >= scoreTolerance {
			now = append(now, class.ID)
		}
	}
	if len(now) == 0 {
		return d.Shares
	}
	return divide(d.State, d.Used, now...).Shares
}
