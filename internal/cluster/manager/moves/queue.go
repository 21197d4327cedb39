// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"weir/internal/core/wire"
)

// ByAge returns the moves that have not ended, the oldest first.
func ByAge(all map[string]*Move) []*Move {
	var list []*Move
	for _, mv := range all {
		if !mv.State.Final() {
			list = append(list, mv)
		}
	}
	slices.SortFunc(list, func(a, b *Move) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return list
}

// Queue returns the moves that have not ended in the order in which they begin: those
// under way, then an operator's, then those of the planner and for places; the oldest
// first.
func Queue(all map[string]*Move) []*Move {
	class := func(mv *Move) int {
		switch {
		case mv.State.UnderWay():
			return 0
		case mv.Automatic():
			return 2
		}
		return 1
	}
	list := ByAge(all)
	slices.SortStableFunc(list, func(a, b *Move) int { return cmp.Compare(class(a), class(b)) })
	return list
}

// UnderWay returns the first moves of a queue, those that were ordered.
func UnderWay(queue []*Move) []*Move {
	for i, mv := range queue {
		if !mv.State.UnderWay() {
			return queue[:i]
		}
	}
	return queue
}

// Ready says whether a move may begin beside those that go before it. Where a container
// has to leave its target first, it waits, so that no node is overfilled meanwhile.
func Ready(mv *Move, before []*Move, all map[string]*Move) (ready bool, broken string) {
	for _, id := range mv.After {
		switch first := all[id]; {
		case first == nil:
		case first.State == wire.MoveDone:
		case first.State.Final():
			return false, fmt.Sprintf("move %s of %s, which had to be made first, ended as %s", id, first.Container, first.State)
		default:
			return false, ""
		}
	}
	return !slices.ContainsFunc(before, func(o *Move) bool {
		return !o.State.Final() && !o.DryRun && (o.From == mv.To || o.Container == mv.Container && o.From == mv.From)
	}), ""
}

// Begun returns the times at which moves of a node, "" = of any, that no operator has
// ordered were begun; those that wait count as begun now.
func Begun(all map[string]*Move, node string, now time.Time) []time.Time {
	var list []time.Time
	for _, mv := range all {
		switch {
		case !mv.Automatic(), node != "" && !mv.Touches(node):
		case !mv.Ordered.IsZero():
			list = append(list, mv.Ordered)
		case !mv.State.Final():
			list = append(list, now)
		}
	}
	return list
}

// Lately counts those of Begun that were begun in the last hour.
func Lately(all map[string]*Move, node string, now time.Time) (n int) {
	for _, t := range Begun(all, node, now) {
		if now.Sub(t) < time.Hour {
			n++
		}
	}
	return n
}
