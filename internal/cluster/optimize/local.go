// SPDX-License-Identifier: Apache-2.0

package optimize

import "slices"

// Options has the parameters of all algorithms.
type Options struct {
	// Alpha is how much S counts against the cost of moves, 0 to 1: at 1 moves cost
	// nothing, at 0 nothing is moved. DefaultAlpha unless there is a reason for another.
	Alpha float64
	// MaxMoves limits how many containers are moved; 0 = no limit.
	MaxMoves int
	// Seed determines the random choices.
	Seed uint64
	// Effort is how many changes the local search tries, 0 = DefaultEffort.
	Effort int
}

// DefaultAlpha is the paper's (section III, figure 5).
const DefaultAlpha = 0.85

// DefaultEffort returns the effort that a problem of this many containers is worth:
// about 25 ms of CPU time for 200 of them and 0.8 s for 10,000 (BenchmarkLocal).
func DefaultEffort(containers int) int { return 500_000 + 2_000*containers }

const (
	// A step tries moves with this many other nodes that promise most and as many
	// others as chance has it, and swaps with the first of them.
	promising      = 24
	drawn          = 8
	swapNeighbours = 8
	// Of a node with more containers only this many are tried, drawn anew.
	sampled = 24
	// What f has to fall by; less is rounding.
	leastGain = 1e-13
)

// Local is the local search. It goes to the node that is farthest from the mean, tries
// all moves from it and to it and swaps with the nodes that are as far off on the other
// side, makes the best of these, and goes on until no node has one that pays for itself.
// The rest of the effort goes into kicks: a few containers are put elsewhere by chance,
// their nodes are searched anew, and whatever does not end better is taken back.
//
// A move pays if alpha times the part of S that it takes away is more than (1 -
// alpha) times its part of the cost of moving every container: of 200 equal
// containers, one is moved only for at least 0.09 % of S.
//
// Two containers may be meant to change places where neither node has room for
// both at once. The plan leaves one of them where it is, and without it the other's
// move may be worth nothing; so the search is repeated with those left pinned.
func Local(p *Problem, o Options) Plan {
	q := *p
	var best Plan
	for try := range retries {
		plan := local(&q, o)
		left := plan.Dropped
		plan.Before, plan.After, plan.Tried = p.Score(p.Initial()), p.Score(plan.Placement), plan.Tried+best.Tried
		if try == 0 || o.fitness(plan) < o.fitness(best) {
			best = plan
		} else {
			best.Tried = plan.Tried
		}
		if len(left) == 0 {
			break
		}
		q.Containers = slices.Clone(q.Containers)
		for _, c := range left {
			q.Containers[c].Pinned = true
		}
	}
	return best
}

const retries = 3

// fitness returns f of a plan, with S as a part of its value without any move.
func (o Options) fitness(p Plan) float64 {
	s := 1.0
	if p.Before.S > 0 {
		s = p.After.S / p.Before.S
	}
	return o.Alpha*s + (1-o.Alpha)*p.After.Cost
}

func local(p *Problem, o Options) Plan {
	s := newSearch(p, o)
	s.relieve()
	if s.first = s.stability(); s.first > 0 {
		s.weight = s.Alpha / s.first
		s.descend()
		s.kicks()
	}
	plan := p.Plan(s.at)
	plan.Tried = s.tried
	return plan
}

type search struct {
	*state
	Options
	rng   *rng
	first float64 // S at the beginning, by which it is divided
	// weight is the change of f for a unit of S.
	weight float64
	tried  int
	// settled nodes have been searched and nothing around them has changed since.
	settled []bool
	near    []int // the other nodes of this step
	promise []float64
	fromA   []int32
	fromB   []int32
	undo    []change
}

// change is a move that was made.
type change struct{ container, from int }

func newSearch(p *Problem, o Options) *search {
	if o.Effort == 0 {
		o.Effort = DefaultEffort(len(p.Containers))
	}
	if o.MaxMoves == 0 {
		o.MaxMoves = len(p.Containers)
	}
	s := &search{state: newState(p, p.Initial()), Options: o, rng: newRNG(o.Seed), settled: make([]bool, len(p.Nodes))}
	return s
}

// fitness returns f.
func (s *search) fitness() float64 {
	return s.weight*s.stability() + (1-s.Alpha)*s.spent
}

// relieve takes containers off nodes that hold more than they have, the one whose
// move costs least for its size first, wherever there is room: too much memory is
// worse than any S.
func (s *search) relieve() {
	for n := range s.nodes {
		for s.over(n) {
			best, target, least := -1, -1, 0.0
			for _, c := range s.nodes[n].list {
				if s.p.Containers[c].Pinned || s.moves >= s.MaxMoves || !s.eases(int(c), n) {
					continue
				}
				for to := range s.nodes {
					if to == n || !s.fits(int(c), to, -1) {
						continue
					}
					value := s.delta(n, to, &s.p.Containers[c].Demand, 1) + s.cost[c]
					if best < 0 || value < least {
						best, target, least = int(c), to, value
					}
				}
			}
			if best < 0 {
				break
			}
			s.move(best, target)
		}
	}
}

// over says whether a node holds more than it has.
func (s *search) over(n int) bool {
	for _, r := range limited {
		if s.nodes[n].load[r] > s.p.Nodes[n].Capacity[r]*slack {
			return true
		}
	}
	return s.nodes[n].min > s.p.Nodes[n].Guaranteed
}

// eases says whether a container has some of what its node has too little of.
func (s *search) eases(c, n int) bool {
	for _, r := range limited {
		if s.nodes[n].load[r] > s.p.Nodes[n].Capacity[r]*slack && s.p.Containers[c].Demand[r] > 0 {
			return true
		}
	}
	return s.nodes[n].min > s.p.Nodes[n].Guaranteed && s.p.Containers[c].Min > 0
}

// descend makes the best change around the worst node until there is none.
func (s *search) descend() {
	clear(s.settled)
	for changed := true; changed; {
		changed = false
		for s.tried < s.Effort {
			worst := s.worst()
			if worst < 0 {
				break
			}
			if s.improve(worst) {
				changed = true
			} else {
				s.settled[worst] = true
			}
		}
		if s.tried >= s.Effort {
			return
		}
		clear(s.settled)
	}
}

// worst returns the unsettled node that is farthest from the mean, -1 if all are settled.
func (s *search) worst() int {
	worst, most := -1, -1.0
	for n := range s.nodes {
		if s.settled[n] {
			continue
		}
		if d := s.deviation(n); d > most {
			worst, most = n, d
		}
	}
	return worst
}

// option is a change that a step may make: c goes from its node to the node to,
// and back, if it is not -1, the other way.
type option struct {
	gain    float64
	c, back int
	to      int
}

// improve makes the best change that has to do with node a.
func (s *search) improve(a int) bool {
	best := option{gain: leastGain, c: -1, back: -1}
	s.choose(a)
	s.fromA = s.draw(s.fromA[:0], a)
	for _, b := range s.near {
		for _, c := range s.fromA {
			s.tryMove(&best, int(c), b)
		}
		s.fromB = s.draw(s.fromB[:0], b)
		for _, c := range s.fromB {
			s.tryMove(&best, int(c), a)
		}
	}
	for _, b := range s.near[:min(swapNeighbours, len(s.near))] {
		s.fromB = s.draw(s.fromB[:0], b)
		for _, c := range s.fromA {
			for _, back := range s.fromB {
				s.trySwap(&best, int(c), int(back), b)
			}
		}
	}
	if best.c < 0 {
		return false
	}
	s.make(best)
	return true
}

func (s *search) make(o option) {
	from := s.at[o.c]
	s.settled[from], s.settled[o.to] = false, false
	s.undo = append(s.undo, change{o.c, from})
	s.move(o.c, o.to)
	if o.back >= 0 {
		s.undo = append(s.undo, change{o.back, o.to})
		s.move(o.back, from)
	}
}

// tryMove evaluates a move and keeps it if it is the best so far.
func (s *search) tryMove(best *option, c, to int) {
	s.tried++
	fall := -s.weight * s.delta(s.at[c], to, &s.demand[c], 1)
	if gain := fall - (1-s.Alpha)*s.extra(c, to); gain > best.gain && s.allowed(c, -1, to) {
		*best = option{gain, c, -1, to}
	}
}

// trySwap does the same for a swap of c with back, which is on the node to.
func (s *search) trySwap(best *option, c, back, to int) {
	s.tried++
	from, u := s.at[c], s.demand[c]
	for r, v := range &s.demand[back] {
		u[r] -= v
	}
	gain := -s.weight*s.delta(from, to, &u, 0) - (1-s.Alpha)*(s.extra(c, to)+s.extra(back, from))
	if gain > best.gain && s.allowed(c, back, to) {
		*best = option{gain, c, back, to}
	}
}

// extra returns how much more it costs to have c on a node than where it is.
func (s *search) extra(c, to int) float64 {
	switch home := int(s.home[c]); home {
	case s.at[c]:
		return s.cost[c]
	case to:
		return -s.cost[c]
	}
	return 0
}

func (s *search) allowed(c, back, to int) bool {
	moves := s.moves + s.further(c, to)
	if s.p.Containers[c].Pinned || !s.fits(c, to, back) {
		return false
	}
	if back >= 0 {
		moves += s.further(back, s.at[c])
		if s.p.Containers[back].Pinned || !s.fits(back, s.at[c], c) {
			return false
		}
	}
	return moves <= max(s.MaxMoves, s.moves)
}

// further returns how many more containers are away from home if c goes to a node.
func (s *search) further(c, to int) int {
	switch home := int(s.home[c]); home {
	case s.at[c]:
		return 1
	case to:
		return -1
	}
	return 0
}

// choose fills near with the nodes that a step around a looks at: in front, sorted,
// those that promise most, because they are above the mean where a is below, and
// below where a is above.
func (s *search) choose(a int) {
	var off Vector // from the mean
	for r := range off {
		off[r] = s.nodes[a].x[r] - s.sum[r]*s.perNode
	}
	s.near, s.promise = s.near[:0], s.promise[:0]
	for b := range s.nodes {
		if b == a {
			continue
		}
		promise := 0.0
		for r, x := range &s.nodes[b].x {
			promise -= off[r] * x
		}
		at := len(s.near)
		switch {
		case at < promising:
			s.near, s.promise = append(s.near, b), append(s.promise, promise)
		case promise > s.promise[at-1]:
			at--
		default:
			continue
		}
		for ; at > 0 && s.promise[at-1] < promise; at-- {
			s.near[at], s.promise[at] = s.near[at-1], s.promise[at-1]
		}
		s.near[at], s.promise[at] = b, promise
	}
	if len(s.nodes) > promising+1 {
		for range drawn {
			if b := s.rng.below(len(s.nodes)); b != a {
				s.near = append(s.near, b)
			}
		}
	}
}

// draw appends some containers of a node, all if they are few.
func (s *search) draw(list []int32, n int) []int32 {
	have := s.nodes[n].list
	if len(have) <= sampled {
		return append(list, have...)
	}
	for i := range sampled { // moves within the node's own list, whose order means nothing
		j := i + s.rng.below(len(have)-i)
		have[i], have[j] = have[j], have[i]
		s.where[have[i]], s.where[have[j]] = int32(i), int32(j)
	}
	return append(list, have[:sampled]...)
}

// kicks spends the rest of the effort.
func (s *search) kicks() {
	if len(s.nodes) < 2 || len(s.at) == 0 {
		return
	}
	// Where nothing can be moved a kick tries nothing; so count kicks as well.
	for kick := 0; s.tried < s.Effort && kick < s.Effort/100; kick++ {
		before := s.fitness()
		s.undo = s.undo[:0]
		for n := range s.settled {
			s.settled[n] = true
		}
		for range 1 + s.rng.below(3) {
			s.kick()
		}
		for s.tried < s.Effort {
			worst := s.worst()
			if worst < 0 {
				break
			}
			if !s.improve(worst) {
				s.settled[worst] = true
			}
		}
		if s.fitness() >= before-leastGain {
			for i := len(s.undo) - 1; i >= 0; i-- {
				s.move(s.undo[i].container, s.undo[i].from)
			}
		}
	}
}

// kick puts a container elsewhere: home, if it is not there, half of the time.
func (s *search) kick() {
	s.tried++
	c := s.rng.below(len(s.at))
	to := s.p.Containers[c].Node
	if s.at[c] == to || s.rng.below(2) == 0 {
		to = s.rng.below(len(s.nodes))
	}
	back := -1
	if list := s.nodes[to].list; len(list) > 0 && s.rng.below(2) == 0 {
		back = int(list[s.rng.below(len(list))])
	}
	if to != s.at[c] && s.allowed(c, back, to) {
		s.make(option{c: c, back: back, to: to})
	}
}
