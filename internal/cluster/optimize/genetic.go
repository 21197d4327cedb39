// SPDX-License-Identifier: Apache-2.0

package optimize

import (
	"cmp"
	"math"
	"slices"
)

// GeneticOptions are the parameters that the paper lists and leaves open (section
// III-A), with the values that are used here where they are 0. The mutation was chosen so that the
// mixes of the paper end with the paper's reduction of S, on average. It matters most: f is
// normalised over the population, and where many children are spoiled by mutation, S
// of all others looks the same beside theirs, and the number of moves decides.
type GeneticOptions struct {
	Options
	Population  int     // chromosomes: 200
	Generations int     // 300
	Crossover   float64 // probability that two parents are crossed: 0.8
	Mutation    float64 // genes of a child that become a random node, on average: 0.05
	Elite       int     // chromosomes that are passed on as they are: 10
	// Seeded puts the placement of now into the first generation. The paper's is all
	// random; with it the algorithm begins near few moves.
	Seeded bool
	// Stop is told of each generation and the S of its fittest; the search ends when it
	// says so.
	Stop func(generation int, s float64) bool
}

func (o *GeneticOptions) defaults() {
	o.Population = cmp.Or(o.Population, 200)
	o.Generations = cmp.Or(o.Generations, 300)
	o.Crossover = cmp.Or(o.Crossover, 0.8)
	o.Mutation = cmp.Or(o.Mutation, 0.05)
	o.Elite = min(cmp.Or(o.Elite, 10), o.Population)
}

// Genetic is the paper's algorithm (section III): a chromosome is a placement
// (equation 1), the first generation is random, f is S and d each normalised over
// the population (equation 5), the fittest are passed on, and the others are
// children of two parents, each the fitter of two drawn ones, by one-point
// cross-over and mutation. The fittest of the last generation is the result.
//
// The paper's algorithm knows no capacities: what would overfill a node is taken
// out of the plan at the end. Pinned containers and closed nodes are respected from
// the beginning. MaxMoves it does not know either; beyond it, the moves that lower
// S least are left out.
func Genetic(p *Problem, o GeneticOptions) Plan {
	o.defaults()
	g := &genetic{p: p, GeneticOptions: o, rng: newRNG(o.Seed), units: p.units(), initial: p.Initial()}
	for n := range p.Nodes {
		if !p.Nodes[n].Closed {
			g.open = append(g.open, int32(n))
		}
	}
	for i := range p.Containers {
		g.cost = append(g.cost, p.cost().Seconds(&p.Containers[i]))
	}
	if len(g.open) == 0 || len(p.Containers) == 0 {
		return p.Plan(g.initial)
	}
	plan := p.Plan(g.run())
	plan.Tried = g.tried
	if o.MaxMoves > 0 && len(plan.Moves) > o.MaxMoves {
		at := append(Assignment(nil), g.initial...)
		for _, m := range plan.Moves[:o.MaxMoves] {
			at[m.Container] = m.To
		}
		cut := p.Plan(at)
		cut.Tried = g.tried
		return cut
	}
	return plan
}

type genetic struct {
	GeneticOptions
	p       *Problem
	rng     *rng
	units   []Vector
	open    []int32
	cost    []float64
	initial Assignment
	tried   int
	x       []Vector // room for a chromosome's utilisations
	counts  []int
}

// chromosome is a placement in half the memory.
type chromosome struct {
	genes   []int32
	s, d, f float64
}

func (g *genetic) run() Assignment {
	g.x, g.counts = make([]Vector, len(g.p.Nodes)), make([]int, len(g.p.Nodes))
	now, next := make([]chromosome, g.Population), make([]chromosome, g.Population)
	for i := range now {
		now[i].genes, next[i].genes = make([]int32, len(g.initial)), make([]int32, len(g.initial))
		for c, home := range g.initial {
			now[i].genes[c] = int32(home)
			if !g.p.Containers[c].Pinned && (i > 0 || !g.Seeded) {
				now[i].genes[c] = g.open[g.rng.below(len(g.open))]
			}
		}
		g.evaluate(&now[i])
	}
	g.rank(now)
	for generation := range g.Generations {
		for i := range next {
			if i < g.Elite {
				copy(next[i].genes, now[i].genes)
				next[i].s, next[i].d = now[i].s, now[i].d
				continue
			}
			g.breed(&next[i], g.parent(now), g.parent(now))
			g.evaluate(&next[i])
		}
		now, next = next, now
		g.rank(now)
		if g.Stop != nil && g.Stop(generation, now[0].s) {
			break
		}
	}
	best := make(Assignment, len(g.initial))
	for c, n := range now[0].genes {
		best[c] = int(n)
	}
	return best
}

// parent returns the fitter of two; a ranked population has the fittest in front.
func (g *genetic) parent(ranked []chromosome) *chromosome {
	return &ranked[min(g.rng.below(len(ranked)), g.rng.below(len(ranked)))]
}

func (g *genetic) breed(child, one, other *chromosome) {
	cut := len(child.genes)
	if g.rng.float() < g.Crossover {
		cut = g.rng.below(len(child.genes) + 1)
	}
	copy(child.genes[:cut], one.genes[:cut])
	copy(child.genes[cut:], other.genes[cut:])
	// The distance to the next gene that mutates is geometric, so that the others
	// need not be asked.
	for c := g.skip(); c < len(child.genes); c += 1 + g.skip() {
		if !g.p.Containers[c].Pinned {
			child.genes[c] = g.open[g.rng.below(len(g.open))]
		}
	}
}

func (g *genetic) skip() int {
	each := g.Mutation / float64(len(g.initial))
	if each >= 1 {
		return 0
	}
	return int(min(math.Log(1-g.rng.float())/math.Log(1-each), math.MaxInt32))
}

// evaluate computes S and the cost of the moves.
func (g *genetic) evaluate(c *chromosome) {
	g.tried++
	clear(g.x)
	clear(g.counts)
	c.d = 0
	for i, n := range c.genes {
		demand := &g.p.Containers[i].Demand
		x := &g.x[n]
		for r, v := range demand {
			x[r] += v
		}
		g.counts[n]++
		if int(n) != g.initial[i] {
			c.d += g.cost[i]
		}
	}
	for n := range g.x {
		part := 1.0
		if g.p.Measure == MeasureMean && g.counts[n] > 0 {
			part = 1 / float64(g.counts[n])
		}
		for r := range g.x[n] {
			g.x[n][r] *= g.units[n][r] * part
		}
	}
	c.s = 0
	for _, v := range variance(g.x) {
		c.s += v
	}
}

// rank computes f of equation 5 and sorts by it. Both parts are normalised to 0 to
// 1 over the population.
func (g *genetic) rank(list []chromosome) {
	lowS, highS, lowD, highD := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for i := range list {
		lowS, highS = min(lowS, list[i].s), max(highS, list[i].s)
		lowD, highD = min(lowD, list[i].d), max(highD, list[i].d)
	}
	for i := range list {
		list[i].f = g.Alpha*normal(list[i].s, lowS, highS) + (1-g.Alpha)*normal(list[i].d, lowD, highD)
	}
	slices.SortStableFunc(list, func(a, b chromosome) int { return cmp.Compare(a.f, b.f) })
}

func normal(v, low, high float64) float64 {
	if high <= low {
		return 0
	}
	return (v - low) / (high - low)
}
