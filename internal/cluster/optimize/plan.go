// SPDX-License-Identifier: Apache-2.0

package optimize

import (
	"cmp"
	"slices"
)

// Relocation is the move of one container from one node to another.
type Relocation struct {
	Container int
	From, To  int
	Bytes     float64 // that have to travel
	Seconds   float64 // that it takes, by the problem's Cost
	// S is the stability metric after this move and those before it.
	S float64
	// Evens is the resource whose variance this move lowers most, None if it lowers
	// no variance by itself: it makes room for a later one, or is half of a swap.
	Evens Resource
}

// None is no resource.
const None Resource = -1

// Plan is the proposal of an algorithm.
type Plan struct {
	Placement Assignment   // at its end
	Moves     []Relocation // in the order in which they are to be made
	Before    Fitness
	After     Fitness
	// Dropped are containers that the algorithm would have moved, too, but that do
	// not fit where it wanted them, in no order of the moves.
	Dropped []int
	// Tried is how many changes were evaluated: placements for the genetic
	// algorithm, moves and swaps for the local search.
	Tried int
}

// Plan turns a placement into moves, those that lower S most first, such that no
// node is overfilled at any point; a container for which there is room may be moved
// earlier to make room. Where two containers want to change places and neither node
// has room for both, one of them stays.
func (p *Problem) Plan(wanted Assignment) Plan {
	initial := p.Initial()
	s := newState(p, initial)
	plan := Plan{Before: p.Score(initial)}
	var pending []int
	gain := make(map[int]float64)
	for c, to := range wanted {
		if from := initial[c]; from != to {
			if p.Containers[c].Pinned {
				plan.Dropped = append(plan.Dropped, c)
				continue
			}
			pending = append(pending, c)
			gain[c] = s.delta(from, to, &p.Containers[c].Demand, 1)
		}
	}
	slices.SortStableFunc(pending, func(a, b int) int { return cmp.Compare(gain[a], gain[b]) })
	for len(pending) > 0 {
		rest := pending[:0]
		for _, c := range pending {
			if !s.fits(c, wanted[c], -1) {
				rest = append(rest, c)
				continue
			}
			plan.Moves = append(plan.Moves, s.record(c, wanted[c]))
		}
		if len(rest) == len(pending) { // each waits for another one: the least useful stays
			plan.Dropped = append(plan.Dropped, rest[len(rest)-1])
			rest = rest[:len(rest)-1]
		}
		pending = rest
	}
	plan.Placement = s.at
	plan.After = p.Score(s.at)
	slices.Sort(plan.Dropped)
	return plan
}

// record makes a move and says what it did.
func (s *state) record(c, to int) Relocation {
	container := &s.p.Containers[c]
	before := s.variance()
	m := Relocation{Container: c, From: s.at[c], To: to, Bytes: container.Bytes, Seconds: s.p.cost().Seconds(container), Evens: None}
	s.move(c, to)
	after, most := s.variance(), 0.0
	for r := range after {
		m.S += after[r]
		if fall := before[r] - after[r]; fall > most {
			m.Evens, most = Resource(r), fall
		}
	}
	return m
}
