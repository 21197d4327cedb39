// SPDX-License-Identifier: Apache-2.0

package moves

// No node takes part, as source or as target, in more than a share of the moves at once
// and of the moves that the manager begins by itself in an hour. So a node whose moves
// never end, or fail as fast as they are ordered, leaves slots to the others. In a
// cluster of two nodes every move is of both, and there is no other node to leave a
// slot to.
//
// For example, with 2 moves at once and 20 an hour, one node has 1 and 15.

// Share returns how many of n moves may be of one node.
func Share(n, members int) int {
	if members <= 2 || n < 2 {
		return n
	}
	return n - max(1, n/4)
}

// Slots counts the moves at once. A node's moves beyond its share (one that was lost and
// is under way once more) take no slot of others.
type Slots struct {
	all, share int
	taken      int
	of         map[string]int // by node, source or target
}

// NewSlots returns so many slots, in a cluster of so many nodes. The moves have slots but
// for dry runs.
func NewSlots(atOnce, members int, list []*Move) *Slots {
	s := &Slots{all: atOnce, share: Share(atOnce, members), of: map[string]int{}}
	for _, mv := range list {
		if !mv.DryRun {
			s.Take(mv)
		}
	}
	return s
}

// Taken returns the number of moves that have a slot.
func (s *Slots) Taken() int { return s.taken }

// Full reports whether a node has its share.
func (s *Slots) Full(node string) bool { return s.of[node] >= s.share }

// Free reports whether there is a slot for a move.
func (s *Slots) Free(mv *Move) bool {
	return s.taken < s.all && !s.Full(mv.From) && !s.Full(mv.To)
}

// Take gives a move a slot, if there is one for it.
func (s *Slots) Take(mv *Move) {
	if !s.Free(mv) {
		return
	}
	s.taken++
	s.of[mv.From]++
	s.of[mv.To]++
}
