// SPDX-License-Identifier: Apache-2.0

// Package sim tries the optimizer on clusters that no test machine has: it runs the
// same code as the manager on thousands of nodes, made up (optimize.Synthetic),
// described by a file (File), or recorded from real agents (Recorded), and says
// what each algorithm makes of S, with how many moves, how long these would take
// and how long the algorithm itself.
//
// How long moves take is simulated: each has a fixed part and its bytes, which
// travel over the links of both nodes; moves at once on a link share it (Makespan).
//
// What it does not do: move anything, or guess how a container's demand changes
// where it runs.
package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"weir/internal/cluster/optimize"
)

// Algorithm is the name of one.
type Algorithm string

// The algorithms. GeneticSeeded is the genetic one with the placement of now in
// its first generation.
const (
	Local         Algorithm = "local"
	Genetic       Algorithm = "genetic"
	GeneticSeeded Algorithm = "genetic-seeded"
)

// Algorithms returns the names of all algorithms, Swarm's last.
func Algorithms() []string {
	list := []string{string(Local), string(Genetic), string(GeneticSeeded)}
	for _, s := range optimize.Strategies {
		list = append(list, string(s))
	}
	return list
}

// Options has the parameters of a run.
type Options struct {
	optimize.Options
	// For ends the genetic algorithm after this time instead of after its number of
	// generations; its result then depends on the machine. 0 = by generations.
	For time.Duration
	// Genetic has the genetic algorithm's own parameters, which the paper leaves open; 0 = its
	// defaults. Of Options, Seeded and Stop it has none of its own.
	Genetic optimize.GeneticOptions
	// Stop is told the S of each generation's fittest, and ends the genetic algorithm
	// early when it says so; nil = never.
	Stop     func(s float64) bool
	Parallel int // moves at once in the whole cluster, 0 = DefaultParallel
}

// DefaultParallel is how many moves are under way at once.
const DefaultParallel = 8

// Result says what an algorithm did.
type Result struct {
	Algorithm  Algorithm `json:"algorithm"`
	Measure    string    `json:"measure"` // of S
	Nodes      int       `json:"nodes"`
	Containers int       `json:"containers"`
	Seed       uint64    `json:"seed"`
	Alpha      float64   `json:"alpha"`

	SBefore   float64 `json:"s_before"`
	SAfter    float64 `json:"s_after"`
	Reduction float64 `json:"s_reduction"` // 1 = S is 0 afterwards
	// PeakBefore and PeakAfter are each resource's highest utilisation of a node.
	PeakBefore map[string]float64 `json:"peak_before"`
	PeakAfter  map[string]float64 `json:"peak_after"`

	Moves    int     `json:"moves"`
	Bytes    float64 `json:"bytes"`
	Dropped  int     `json:"dropped,omitempty"` // moves that would not have fitted
	Makespan float64 `json:"makespan_seconds"`
	RunTime  float64 `json:"run_seconds"` // of the algorithm
	Tried    int     `json:"tried"`

	Plan optimize.Plan `json:"-"`
}

// Run has one algorithm plan. now is a clock, such as time.Since of the start.
func Run(p *optimize.Problem, a Algorithm, o Options, now func() time.Duration) (Result, error) {
	began := now()
	var plan optimize.Plan
	switch {
	case a == Local:
		plan = optimize.Local(p, o.Options)
	case a == Genetic || a == GeneticSeeded:
		g := o.Genetic
		g.Options, g.Seeded = o.Options, a == GeneticSeeded
		if o.For > 0 {
			g.Generations = math.MaxInt
		}
		g.Stop = func(_ int, s float64) bool {
			return o.For > 0 && now()-began >= o.For || o.Stop != nil && o.Stop(s)
		}
		plan = optimize.Genetic(p, g)
	case slices.Contains(optimize.Strategies, optimize.Strategy(a)):
		plan = optimize.Relaunch(p, optimize.Strategy(a), o.Seed)
	default:
		return Result{}, fmt.Errorf("algorithm %q is not known; known: %v", a, Algorithms())
	}
	took := now() - began
	r := Result{
		Algorithm: a, Measure: p.Measure.String(), Nodes: len(p.Nodes), Containers: len(p.Containers), Seed: o.Seed, Alpha: o.Alpha,
		SBefore: plan.Before.S, SAfter: plan.After.S, PeakBefore: named(plan.Before.Peak), PeakAfter: named(plan.After.Peak),
		Moves: len(plan.Moves), Bytes: plan.After.Bytes, Dropped: len(plan.Dropped), Makespan: Makespan(p, plan.Moves, o.Parallel),
		RunTime: took.Seconds(), Tried: plan.Tried, Plan: plan,
	}
	if r.SBefore > 0 {
		r.Reduction = 1 - r.SAfter/r.SBefore
	}
	return r, nil
}

// named returns a vector for people who do not know its order.
func named(v optimize.Vector) map[string]float64 {
	m := map[string]float64{}
	for r, x := range v {
		m[keys[r]] = x
	}
	return m
}

var keys = [optimize.Resources]string{"cpu", "memory", "block_io", "transmit", "receive"}
