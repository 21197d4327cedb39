// SPDX-License-Identifier: Apache-2.0

package optimize

import (
	"cmp"
	"slices"

	"weir/internal/core/policy"
)

// Seat is a node where a container can have a guaranteed bandwidth that its own
// node cannot hold, with the moves that make room for it, in this order. The
// container itself may stay, if another one makes room.
type Seat struct {
	Node  int
	Moves []Relocation
}

// Place looks for a seat for a container whose min its node has refused: want is
// what it would have, its Min in the problem is what it has. Three kinds of seats
// are looked at, and the one whose moves cost least is taken, the one with the
// lowest S among equals:
//
//   - another node with room: the container moves;
//   - its own node: another container with a min moves to where there is room;
//   - another node on which a container can move out to a third one first.
//
// If there is none, the second result has what each node lacks by itself, the one
// that lacks the least bandwidth first.
func (p *Problem) Place(c int, want policy.Rate) (*Seat, []Lack) {
	q := *p
	q.Containers = slices.Clone(p.Containers)
	q.Containers[c].Min = want
	s := newState(&q, q.Initial()) // its node has been promised too much now
	home := s.at[c]
	f := finder{state: s, c: c}
	if f.holds(0) {
		return &Seat{Node: home}, nil
	}
	if !q.Containers[c].Pinned {
		for n := range s.nodes {
			if n == home {
				continue
			}
			if s.fits(c, n, -1) {
				f.offer(n, target{c, n})
			} else {
				f.swapOut(n)
			}
		}
	}
	f.stay() // last: of two that cost the same, the one that asks moves
	if f.best != nil {
		return f.seat(), nil
	}
	return nil, f.lacks()
}

// finder keeps the best seat so far.
type finder struct {
	*state
	c       int
	best    []target
	node    int
	cost, s float64
}

// target is a container and the node to which it would go.
type target struct{ container, node int }

// holds says whether c's own node can hold its mins once this much has left.
func (f *finder) holds(leaves policy.Rate) bool {
	home := f.at[f.c]
	return f.nodes[home].min-leaves <= f.p.Nodes[home].Guaranteed
}

// stay looks for one that can leave c's node so that c need not.
func (f *finder) stay() {
	home := f.at[f.c]
	for _, e := range f.nodes[home].list {
		e := int(e)
		if e == f.c || !f.holds(f.p.Containers[e].Min) {
			continue
		}
		if to := f.elsewhere(e, home); to >= 0 {
			f.offer(home, target{e, to})
		}
	}
}

// swapOut looks for one that can leave n so that c can come.
func (f *finder) swapOut(n int) {
	for _, e := range f.nodes[n].list {
		e := int(e)
		if !f.fits(f.c, n, e) || f.best != nil && f.state.cost[e]+f.state.cost[f.c] > f.cost {
			continue
		}
		if to := f.elsewhere(e, n); to >= 0 {
			f.offer(n, target{e, to}, target{f.c, n})
		}
	}
}

// elsewhere returns the node with room for e that is best for S, -1 if there is none.
func (f *finder) elsewhere(e, but int) int {
	best, least := -1, 0.0
	if f.p.Containers[e].Pinned {
		return best
	}
	for to := range f.nodes {
		if to == but || !f.fits(e, to, -1) {
			continue
		}
		if d := f.delta(f.at[e], to, &f.p.Containers[e].Demand, 1); best < 0 || d < least {
			best, least = to, d
		}
	}
	return best
}

// offer keeps a seat if it is better than the best.
func (f *finder) offer(node int, moves ...target) {
	cost := 0.0
	for _, m := range moves {
		cost += f.state.cost[m.container]
	}
	if f.best != nil && cost > f.cost {
		return
	}
	s := f.after(moves)
	if f.best == nil || cmp.Or(cmp.Compare(cost, f.cost), cmp.Compare(s, f.s)) < 0 {
		f.best, f.node, f.cost, f.s = append([]target{}, moves...), node, cost, s
	}
}

// after returns S with these moves made. Two of them may touch the same node: they
// are made and taken back; one is only computed.
func (f *finder) after(moves []target) float64 {
	if len(moves) == 1 {
		m := moves[0]
		return f.stability() + f.delta(f.at[m.container], m.node, &f.p.Containers[m.container].Demand, 1)
	}
	var back []target
	for _, m := range moves {
		back = append(back, target{m.container, f.at[m.container]})
		f.move(m.container, m.node)
	}
	s := f.stability()
	for i := len(back) - 1; i >= 0; i-- {
		f.move(back[i].container, back[i].node)
	}
	return s
}

func (f *finder) seat() *Seat {
	seat := &Seat{Node: f.node}
	for _, m := range f.best {
		seat.Moves = append(seat.Moves, f.record(m.container, m.node))
	}
	return seat
}

// lacks returns what each node is short of, without any container leaving.
func (f *finder) lacks() []Lack {
	home := f.at[f.c]
	var list []Lack
	for n := range f.nodes {
		if n == home {
			list = append(list, Lack{Node: n, Bandwidth: f.nodes[n].min - f.p.Nodes[n].Guaranteed})
			continue
		}
		list = append(list, f.lack(f.c, n, -1))
	}
	slices.SortStableFunc(list, func(a, b Lack) int { return cmp.Compare(a.Bandwidth, b.Bandwidth) })
	return list
}
