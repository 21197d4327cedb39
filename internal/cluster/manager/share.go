// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"slices"
	"time"

	"weir/internal/cluster/optimize"
)

// No node takes part, as source or as target, in more than a share of the moves at once
// and of the moves that the manager begins by itself in an hour. So a node whose moves
// never end, or fail as fast as they are ordered, leaves places to the others. In a
// cluster of two nodes every move is of both, and there is no other node to leave a
// place to.
//
// For example, with 2 moves at once and 20 an hour, one node has 1 and 15.

// share returns how many of n the moves of one node may be.
func share(n, members int) int {
	if members <= 2 || n < 2 {
		return n
	}
	return n - max(1, n/4)
}

// places counts the moves at once. A node's moves beyond its share (one that was lost and
// is under way once more) take no place of others.
type places struct {
	all, share int
	taken      int
	of         map[string]int // by node, source or target
}

func newPlaces(atOnce, members int) *places {
	return &places{all: atOnce, share: share(atOnce, members), of: map[string]int{}}
}

// full reports whether a node has its share.
func (p *places) full(node string) bool { return p.of[node] >= p.share }

// free reports whether there is a place for a move.
func (p *places) free(mv *move) bool {
	return p.taken < p.all && !p.full(mv.From) && !p.full(mv.To)
}

// take gives a move a place, if there is one for it.
func (p *places) take(mv *move) {
	if !p.free(mv) {
		return
	}
	p.taken++
	p.of[mv.From]++
	p.of[mv.To]++
}

// placesOf counts those of the moves that hold a place: all but dry runs.
func (m *Manager) placesOf(moves []*move) *places {
	p := newPlaces(m.opts.Automatic.AtOnce, m.members.Len())
	for _, mv := range moves {
		if !mv.DryRun {
			p.take(mv)
		}
	}
	return p
}

// underWay returns the first moves of a queue.
func underWay(queue []*move) []*move {
	for i, mv := range queue {
		if !mv.underWay() {
			return queue[:i]
		}
	}
	return queue
}

// queue returns the moves that have not ended in the order in which they begin: those
// under way, then an operator's, then those of the planner and for places; the oldest
// first. The lock is held.
func (m *Manager) queue() []*move {
	class := func(mv *move) int {
		switch {
		case mv.underWay():
			return 0
		case mv.unbidden():
			return 2
		}
		return 1
	}
	list := m.byAge()
	slices.SortStableFunc(list, func(a, b *move) int { return cmp.Compare(class(a), class(b)) })
	return list
}

// spent reports whether a node has had its share of the moves of the last hour that no
// operator has ordered. The lock is held.
func (m *Manager) spent(node string, now time.Time) bool {
	return m.lately(now, node) >= share(m.opts.Automatic.PerHour, m.members.Len())
}

// closeFull keeps a plan from the nodes that have their share of the moves: containers on
// them stay, and none goes there. The lock is held.
func (m *Manager) closeFull(p *problem, held *places, now time.Time) {
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if !held.full(n.Name) && !m.spent(n.Name, now) {
			continue
		}
		n.Closed = true
		for c := range p.Containers {
			if p.Containers[c].Node == i {
				p.Containers[c].Pinned = true
			}
		}
	}
}

// sharing returns how many of the first moves of a plan leave each node within its share.
func (m *Manager) sharing(p *problem, moves []optimize.Move, held *places, now time.Time) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	hour, most := map[string]int{}, share(m.opts.Automatic.PerHour, m.members.Len())
	for i, o := range moves {
		mv := p.move(o, now, "")
		for _, node := range []string{mv.From, mv.To} {
			if hour[node]++; m.lately(now, node)+hour[node] > most || held.full(node) {
				return i
			}
		}
		held.take(mv)
	}
	return len(moves)
}
