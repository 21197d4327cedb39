// SPDX-License-Identifier: Apache-2.0

package optimize

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/core/policy"
	"weir/internal/core/wire"
)

// anyProblem returns a small cluster with everything that a plan has to respect,
// often too tight for what one would like to do.
func anyProblem(t *rapid.T) *Problem {
	p := &Problem{Measure: Measure(rapid.IntRange(0, 1).Draw(t, "measure"))}
	if rapid.Bool().Draw(t, "costs") {
		p.Cost = DefaultCost
	}
	for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
		n := Node{Name: fmt.Sprint("n", i), Closed: rapid.IntRange(0, 7).Draw(t, "closed") == 0,
			Guaranteed: policy.Rate(rapid.IntRange(0, 100).Draw(t, "guaranteed")), Engine: rapid.SampledFrom([]wire.EngineName{"", "x", "x", "y"}).Draw(t, "engine")}
		for r := range n.Capacity {
			n.Capacity[r] = float64(rapid.IntRange(1, 40).Draw(t, "capacity"))
			if r > int(Memory) && rapid.Bool().Draw(t, "unknown") {
				n.Capacity[r] = 0
			}
		}
		p.Nodes = append(p.Nodes, n)
	}
	for n := range p.Nodes {
		if rapid.IntRange(0, 5).Draw(t, "chooses") == 0 {
			p.Nodes[n].Accepts = map[int]bool{rapid.IntRange(0, len(p.Nodes)-1).Draw(t, "accepts"): true}
		}
	}
	for i := range rapid.IntRange(0, 40).Draw(t, "containers") {
		c := Container{Name: fmt.Sprint("c", i), Node: rapid.IntRange(0, len(p.Nodes)-1).Draw(t, "node"),
			Pinned: rapid.IntRange(0, 5).Draw(t, "pinned") == 0, Bytes: float64(rapid.IntRange(0, 1e9).Draw(t, "bytes"))}
		if rapid.Bool().Draw(t, "told") {
			c.Engine = p.Nodes[c.Node].Engine
		}
		if rapid.IntRange(0, 5).Draw(t, "barred") == 0 {
			c.Barred = []int{rapid.IntRange(0, len(p.Nodes)-1).Draw(t, "from")}
		}
		if rapid.IntRange(0, 2).Draw(t, "grouped") == 0 {
			c.Group = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "group")
		}
		if rapid.IntRange(0, 2).Draw(t, "promised") == 0 {
			c.Min = policy.Rate(rapid.IntRange(0, 60).Draw(t, "min"))
		}
		for r := range c.Demand {
			c.Demand[r] = rapid.Float64Range(0, 8).Draw(t, "demand")
		}
		p.Containers = append(p.Containers, c)
	}
	return p
}

func anyOptions(t *rapid.T) Options {
	return Options{Alpha: rapid.SampledFrom([]float64{0, 0.5, DefaultAlpha, 1}).Draw(t, "alpha"),
		MaxMoves: rapid.IntRange(0, 10).Draw(t, "most"), Seed: rapid.Uint64().Draw(t, "seed"), Effort: 3000}
}

// TestPlansHold has every algorithm plan for clusters of all kinds: moves made in
// their order lead to the placement, overfill nothing on the way, and do to S what
// the plan says.
func TestPlansHold(t *testing.T) {
	algorithms := map[string]func(*Problem, Options) Plan{
		"local": Local,
		"genetic": func(p *Problem, o Options) Plan {
			return Genetic(p, GeneticOptions{Options: o, Population: 12, Generations: 5})
		},
		"spread":  func(p *Problem, o Options) Plan { return Relaunch(p, Spread, o.Seed) },
		"binpack": func(p *Problem, o Options) Plan { return Relaunch(p, BinPack, o.Seed) },
		"random":  func(p *Problem, o Options) Plan { return Relaunch(p, Random, o.Seed) },
	}
	for name, run := range algorithms {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p := anyProblem(t)
				if err := p.Check(); err != nil {
					t.Fatal(err)
				}
				o := anyOptions(t)
				plan := run(p, o)
				followed(t, p, plan)
				if (name == "local" || name == "genetic") && o.MaxMoves > 0 && len(plan.Moves) > o.MaxMoves {
					t.Fatalf("%d moves, at most %d are allowed", len(plan.Moves), o.MaxMoves)
				}
				again := run(p, o)
				if fmt.Sprint(again) != fmt.Sprint(plan) {
					t.Fatalf("another plan for the same seed:\n%v\n%v", plan, again)
				}
			})
		})
	}
}

// followed makes a plan's moves one after the other on an account of its own.
func followed(t *rapid.T, p *Problem, plan Plan) {
	at := p.Initial()
	for _, m := range plan.Moves {
		c := p.Containers[m.Container]
		if c.Pinned || p.Nodes[m.To].Closed || at[m.Container] != m.From || m.From == m.To {
			t.Fatalf("%v: pinned %v, closed %v, is on %d", m, c.Pinned, p.Nodes[m.To].Closed, at[m.Container])
		}
		at[m.Container] = m.To
		room(t, p, at, m)
		if s := p.Score(at); !near(s.S, m.S) {
			t.Fatalf("%v: S is %v from scratch", m, s.S)
		}
	}
	if fmt.Sprint(at) != fmt.Sprint(plan.Placement) {
		t.Fatalf("the moves lead to %v, the plan says %v", at, plan.Placement)
	}
	if got := p.Score(at); got != plan.After {
		t.Fatalf("the plan ends with %+v, it says %+v", got, plan.After)
	}
	if plan.After.Moves != len(plan.Moves) {
		t.Fatalf("%d moves for %d containers that are elsewhere", len(plan.Moves), plan.After.Moves)
	}
}

// room checks the node to which a move has gone.
func room(t *rapid.T, p *Problem, at Assignment, m Relocation) {
	if a, b := p.Containers[m.Container].Engine, p.Nodes[m.To].Engine; a != b && a != "" && b != "" {
		t.Fatalf("%v: a container of %s on a node with %s", m, a, b)
	}
	home := p.Containers[m.Container].Node
	if accepts := p.Nodes[m.To].Accepts; accepts != nil && !accepts[home] || slices.Contains(p.Containers[m.Container].Barred, m.To) {
		t.Fatalf("%v: a container of node %d, and barred from %v, on a node that accepts %v", m, home, p.Containers[m.Container].Barred, accepts)
	}
	var load Vector
	var mins policy.Rate
	for i, n := range at {
		if n != m.To {
			continue
		}
		for r, v := range p.Containers[i].Demand {
			load[r] += v
		}
		mins += p.Containers[i].Min
		if i != m.Container && p.Containers[i].Group != "" && p.Containers[i].Group == p.Containers[m.Container].Group {
			t.Fatalf("%v: two of group %s on a node", m, p.Containers[i].Group)
		}
	}
	for _, r := range limited {
		if load[r] > p.Nodes[m.To].Capacity[r]*(1+1e-9) {
			t.Fatalf("%v: %v of %v %v", m, load[r], p.Nodes[m.To].Capacity[r], r)
		}
	}
	if p.Containers[m.Container].Min > 0 && mins > p.Nodes[m.To].Guaranteed {
		t.Fatalf("%v: %v promised of %v", m, mins, p.Nodes[m.To].Guaranteed)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b), 1) }

// TestDeltas makes random changes and compares the state computed step by step with
// the state computed from scratch.
func TestDeltas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyProblem(t)
		if len(p.Containers) == 0 {
			t.Skip("nothing to move")
		}
		s := newState(p, p.Initial())
		for range rapid.IntRange(0, 30).Draw(t, "changes") {
			c := rapid.IntRange(0, len(p.Containers)-1).Draw(t, "container")
			to := rapid.IntRange(0, len(p.Nodes)-1).Draw(t, "to")
			from := s.at[c]
			if from == to {
				continue
			}
			before := s.stability()
			u, count, back := s.demand[c], 1, -1
			if list := s.nodes[to].list; len(list) > 0 && rapid.Bool().Draw(t, "swap") {
				back, count = int(list[0]), 0
				for r, v := range s.demand[back] {
					u[r] -= v
				}
			}
			d := s.delta(from, to, &u, count)
			s.move(c, to)
			if back >= 0 {
				s.move(back, from)
			}
			score := p.Score(s.at)
			if !near(before+d, score.S) || !near(s.stability(), score.S) {
				t.Fatalf("S %v, by the change %v, from scratch %v", s.stability(), before+d, score.S)
			}
			if s.moves != score.Moves || !near(s.spent, score.Cost) {
				t.Fatalf("%d moves for %v; from scratch %d for %v", s.moves, s.spent, score.Moves, score.Cost)
			}
		}
	})
}

// TestLocalNeverMakesWorse: f of a plan is at most that of doing nothing, unless a
// node had to be relieved.
func TestLocalNeverMakesWorse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, o := anyProblem(t), anyOptions(t)
		s := newSearch(p, o)
		s.relieve()
		if s.moves > 0 || s.stability() == 0 {
			t.Skip("a node holds too much")
		}
		plan := Local(p, o)
		if len(plan.Dropped) > 0 {
			t.Skip("two change places that cannot") // the rest may be half of an exchange
		}
		if f := o.Alpha*plan.After.S/plan.Before.S + (1-o.Alpha)*plan.After.Cost; f > o.Alpha+1e-9 {
			t.Fatalf("f is %v, without a move %v", f, o.Alpha)
		}
	})
}

// TestSeats checks what Place answers, by an account of its own, and that it is
// right when it says that there is none among those it looks at.
func TestSeats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyProblem(t)
		if len(p.Containers) == 0 {
			t.Skip("nobody asks")
		}
		c := rapid.IntRange(0, len(p.Containers)-1).Draw(t, "container")
		want := policy.Rate(rapid.IntRange(1, 80).Draw(t, "want"))
		seat, lacks := p.Place(c, want)
		q := *p
		q.Containers = append([]Container(nil), p.Containers...)
		q.Containers[c].Min = want
		if seat == nil {
			if len(lacks) != len(p.Nodes) {
				t.Fatalf("%d of %d nodes lack something", len(lacks), len(p.Nodes))
			}
			for _, l := range lacks {
				if l.none() && (l.Node == p.Containers[c].Node || !p.Containers[c].Pinned) {
					t.Fatalf("node %d lacks nothing", l.Node)
				}
			}
			return
		}
		at := q.Initial()
		for _, m := range seat.Moves {
			if q.Containers[m.Container].Pinned || q.Nodes[m.To].Closed || at[m.Container] != m.From {
				t.Fatalf("cannot be done: %v", m)
			}
			at[m.Container] = m.To
			room(t, &q, at, m)
		}
		if at[c] != seat.Node {
			t.Fatalf("it is on %d, the seat is on %d", at[c], seat.Node)
		}
		var mins policy.Rate
		for i, n := range at {
			if n == seat.Node {
				mins += q.Containers[i].Min
			}
		}
		if mins > q.Nodes[seat.Node].Guaranteed {
			t.Fatalf("%v promised of %v", mins, q.Nodes[seat.Node].Guaranteed)
		}
	})
}
