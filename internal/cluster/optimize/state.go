// SPDX-License-Identifier: Apache-2.0

package optimize

import (
	"slices"

	"weir/internal/core/policy"
	"weir/internal/core/wire"
)

// state is a placement that can be changed step by step, and knows what each
// change does to S without adding everything up again.
//
// With x the utilisation of a node, S is the sum over the resources of
//
//	sum(x^2)/N - (sum(x)/N)^2
//
// and moving a container changes the x of two nodes. Variances do not change if
// the same is taken from every x, so x is kept as the distance from the mean of the
// beginning: the two terms stay small, and nothing is lost to rounding.
type state struct {
	p      *Problem
	at     Assignment
	nodes  []nodeState
	demand []Vector // of each container, side by side: this is where the time goes
	home   []int32  // of each container, where it is now in the problem
	where  []int32  // of each container in its node's list
	group  []int32  // of each container, 0 = none
	engine []int32  // of each container, 0 = any
	held   map[groupOn]int
	cost   []float64 // of each container, as a part of the cost of moving all
	// divide has what a load is divided by: by count of containers.
	reciprocal []float64
	shift      Vector
	sum        Vector // of all nodes' x
	squares    Vector
	perNode    float64 // 1/N
	spent      float64 // cost of all moves
	moves      int
	applied    int // since sum and squares were added up anew
}

type nodeState struct {
	load   Vector
	x      Vector // utilisation by the measure, less shift
	unit   Vector // utilisation of one unit of load
	min    policy.Rate
	list   []int32
	engine int32 // 0 = any
}

type groupOn struct{ group, node int32 }

// refreshAfter is after how many changes sum and squares are added up anew.
const refreshAfter = 4096

func newState(p *Problem, at Assignment) *state {
	s := &state{
		p: p, at: append(Assignment(nil), at...), nodes: make([]nodeState, len(p.Nodes)),
		where: make([]int32, len(p.Containers)), group: make([]int32, len(p.Containers)), engine: make([]int32, len(p.Containers)),
		held: map[groupOn]int{}, cost: make([]float64, len(p.Containers)), reciprocal: make([]float64, len(p.Containers)+1),
	}
	s.perNode = 1 / float64(max(len(p.Nodes), 1))
	for count := range s.reciprocal {
		s.reciprocal[count] = 1
		if p.Measure == MeasureMean && count > 0 {
			s.reciprocal[count] = 1 / float64(count)
		}
	}
	groups, engines := map[string]int32{}, map[wire.EngineName]int32{"": 0}
	number := func(engine wire.EngineName) int32 {
		if _, known := engines[engine]; !known {
			engines[engine] = int32(len(engines))
		}
		return engines[engine]
	}
	for n := range p.Nodes {
		s.nodes[n].engine = number(p.Nodes[n].Engine)
	}
	cost, all := p.cost(), 0.0
	for i := range p.Containers {
		c := &p.Containers[i]
		s.demand, s.home = append(s.demand, c.Demand), append(s.home, int32(c.Node))
		s.engine[i] = number(c.Engine)
		if c.Group != "" {
			if groups[c.Group] == 0 {
				groups[c.Group] = int32(len(groups) + 1)
			}
			s.group[i] = groups[c.Group]
		}
		s.cost[i] = cost.Seconds(c)
		all += s.cost[i]
	}
	for i := range s.cost {
		if all > 0 {
			s.cost[i] /= all
		}
	}
	for n, unit := range p.units() {
		s.nodes[n].unit = unit
	}
	for c, n := range s.at {
		s.enter(c, n)
		if n != int(s.home[c]) {
			s.spent += s.cost[c]
			s.moves++
		}
	}
	for n := range s.nodes {
		s.measure(&s.nodes[n])
	}
	for r := range s.shift {
		for n := range s.nodes {
			s.shift[r] += s.nodes[n].x[r] * s.perNode
		}
	}
	for n := range s.nodes {
		s.measure(&s.nodes[n])
	}
	s.refresh()
	return s
}

// enter and leave keep a node's list and what has no rounding.
func (s *state) enter(c, n int) {
	node := &s.nodes[n]
	s.at[c], s.where[c] = n, int32(len(node.list))
	node.list = append(node.list, int32(c))
	node.min += s.p.Containers[c].Min
	if g := s.group[c]; g != 0 {
		s.held[groupOn{g, int32(n)}]++
	}
}

func (s *state) leave(c int) {
	n := s.at[c]
	node := &s.nodes[n]
	last := len(node.list) - 1
	moved := node.list[last]
	node.list[s.where[c]], s.where[moved] = moved, s.where[c]
	node.list = node.list[:last]
	node.min -= s.p.Containers[c].Min
	if g := s.group[c]; g != 0 {
		s.held[groupOn{g, int32(n)}]--
	}
}

// measure adds a node's load up anew, so that rounding does not grow.
func (s *state) measure(n *nodeState) {
	n.load = Vector{}
	for _, c := range n.list {
		for r, v := range s.demand[c] {
			n.load[r] += v
		}
	}
	part := s.reciprocal[len(n.list)]
	for r := range n.x {
		n.x[r] = n.load[r]*n.unit[r]*part - s.shift[r]
	}
}

func (s *state) refresh() {
	s.sum, s.squares, s.applied = Vector{}, Vector{}, 0
	for n := range s.nodes {
		for r, x := range s.nodes[n].x {
			s.sum[r] += x
			s.squares[r] += x * x
		}
	}
}

// stability returns S.
func (s *state) stability() (total float64) {
	for _, v := range s.variance() {
		total += v
	}
	return total
}

func (s *state) variance() (v Vector) {
	for r := range v {
		mean := s.sum[r] * s.perNode
		v[r] = max(s.squares[r]*s.perNode-mean*mean, 0)
	}
	return v
}

// delta returns by how much S changes if u goes from node a to node b, and k
// containers with it: 1 for a move, 0 for a swap whose difference u is.
func (s *state) delta(a, b int, u *Vector, k int) float64 {
	na, nb := &s.nodes[a], &s.nodes[b]
	if s.p.Measure == MeasureMean {
		return s.deltaMean(na, nb, u, k)
	}
	total := 0.0
	for r, v := range u { // (x+w)^2 - x^2 = w * (2x+w)
		less, more := v*na.unit[r], v*nb.unit[r]
		d := more - less
		total += less*(less-2*na.x[r]) + more*(more+2*nb.x[r]) - d*(2*s.sum[r]+d)*s.perNode
	}
	return total * s.perNode
}

func (s *state) deltaMean(na, nb *nodeState, u *Vector, k int) float64 {
	partA, partB := s.reciprocal[len(na.list)-k], s.reciprocal[len(nb.list)+k]
	total := 0.0
	for r, v := range u {
		toA := (na.load[r]-v)*na.unit[r]*partA - s.shift[r]
		toB := (nb.load[r]+v)*nb.unit[r]*partB - s.shift[r]
		less, more := toA-na.x[r], toB-nb.x[r]
		d := less + more
		total += less*(toA+na.x[r]) + more*(toB+nb.x[r]) - d*(2*s.sum[r]+d)*s.perNode
	}
	return total * s.perNode
}

// move takes a container to a node.
func (s *state) move(c, to int) {
	from, home := s.at[c], int(s.home[c])
	if from == to {
		return
	}
	if from == home {
		s.spent += s.cost[c]
		s.moves++
	}
	if to == home {
		s.spent -= s.cost[c]
		s.moves--
	}
	s.subtract(from)
	s.subtract(to)
	s.leave(c)
	s.enter(c, to)
	s.measure(&s.nodes[from])
	s.measure(&s.nodes[to])
	s.add(from)
	s.add(to)
	if s.applied++; s.applied >= refreshAfter {
		s.refresh()
	}
}

func (s *state) subtract(n int) {
	for r, x := range s.nodes[n].x {
		s.sum[r] -= x
		s.squares[r] -= x * x
	}
}

func (s *state) add(n int) {
	for r, x := range s.nodes[n].x {
		s.sum[r] += x
		s.squares[r] += x * x
	}
}

// deviation returns how far a node is from the mean, squared.
func (s *state) deviation(n int) (d float64) {
	for r, x := range s.nodes[n].x {
		x -= s.sum[r] * s.perNode
		d += x * x
	}
	return d
}

// slack is the factor by which rounding may take a sum above the capacity.
const slack = 1 + 1e-12

// fits says whether a container may run on a node if another one, or none (-1),
// leaves it.
func (s *state) fits(c, n, without int) bool { return s.lack(c, n, without).none() }

// Lack says what a node is short of for a container.
type Lack struct {
	Node      int
	CPU       float64
	Memory    float64     // bytes
	Bandwidth policy.Rate // guaranteed
	Closed    bool
	Group     string          // the anti-affinity group of which it holds one already
	Engine    wire.EngineName // another one than the container's
	Source    string          // the container's node, from which it accepts none
	Barred    bool            // the container may not be moved there
}

func (l Lack) none() bool {
	return l.CPU == 0 && l.Memory == 0 && l.Bandwidth == 0 && !l.Closed && l.Group == "" && l.Engine == "" && l.Source == "" && !l.Barred
}

func (s *state) lack(c, n, without int) Lack {
	node, container := &s.nodes[n], &s.p.Containers[c]
	l := Lack{Node: n, Closed: s.p.Nodes[n].Closed}
	if e := s.engine[c]; e != 0 && node.engine != 0 && e != node.engine {
		l.Engine = s.p.Nodes[n].Engine
	}
	if home := int(s.home[c]); n != home {
		if a := s.p.Nodes[n].Accepts; a != nil && !a[home] {
			l.Source = s.p.Nodes[home].Name
		}
		l.Barred = slices.Contains(container.Barred, n)
	}
	taken, held := node.min, 0
	if g := s.group[c]; g != 0 {
		held = s.held[groupOn{g, int32(n)}]
	}
	var leaves *Vector
	if without >= 0 {
		leaves = &s.p.Containers[without].Demand
		taken -= s.p.Containers[without].Min
		if s.group[without] == s.group[c] {
			held--
		}
	}
	if held > 0 {
		l.Group = container.Group
	}
	// A container without a min takes nothing of the guaranteed rate, so it may go to
	// a node that has promised too much.
	if want, have := taken+container.Min, s.p.Nodes[n].Guaranteed; container.Min > 0 && want > have {
		l.Bandwidth = want - have
	}
	for _, r := range limited {
		load := node.load[r] + container.Demand[r]
		if leaves != nil {
			load -= leaves[r]
		}
		if capacity := s.p.Nodes[n].Capacity[r]; load > capacity*slack {
			if r == CPU {
				l.CPU = load - capacity
			} else {
				l.Memory = load - capacity
			}
		}
	}
	return l
}
