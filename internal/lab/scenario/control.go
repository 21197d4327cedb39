// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"math"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"weir/internal/core/control"
	"weir/internal/core/policy"
)

// Control says how reservations are held. The zero Control is the product's.
type Control struct {
	Gains  control.Gains // zero = the default
	Open   bool          // without feedback, as in figure 7 of the CPS paper
	Cold   bool          // begun from next to nothing, as its figures 8 are
	Summed bool          // by its control law as it is printed
}

// control reads {kc: 0.125, ti: 0.146, td: 1, feedback: off, start: zero, law: printed}.
func (r *reader) control(n ast.Node, s *Scenario) {
	feedback, start, law := "on", "headers", "velocity"
	g, given := control.Default, false
	number := func(dst *float64) field {
		return func(n ast.Node, path string) {
			text, ok := r.scalar(n, path, "a number such as 0.125")
			if !ok {
				return
			}
			v, err := strconv.ParseFloat(text, 64)
			if err != nil || math.IsNaN(v) {
				r.fail(n, path, text, "needs a number such as 0.125")
			}
			*dst, given = v, true
		}
	}
	before := len(r.problems)
	r.fields(n, "control", "a mapping such as {kc: 0.125, ti: 0.146, td: 1}", map[string]field{
		"kc": number(&g.Kc), "ti": number(&g.Ti), "td": number(&g.Td),
		"feedback": r.word(&feedback, "feedback", []string{"on", "off"}),
		"start":    r.word(&start, "start", []string{"headers", "zero"}),
		"law":      r.word(&law, "law", []string{"velocity", "printed"}),
	})
	s.Control.Open, s.Control.Cold, s.Control.Summed = feedback == "off", start == "zero", law == "printed"
	if given && len(r.problems) == before {
		if err := g.Check(); err != nil { // unstable ones are what some files are about
			r.refuse(n, "control", err)
		}
		s.Control.Gains = g
	}
}

// Reserves says whether anything is reserved in any phase.
func (s *Scenario) Reserves() bool {
	for _, now := range s.Policies() {
		for _, p := range now {
			if p.Asked().Reserved(s.Link.Bandwidth) != 0 {
				return true
			}
		}
	}
	return false
}

// sharer is what the contract knows of a workload's policy. A reservation is a min and
// a max of what it takes on the wire.
func (s *Scenario) sharer(p Policy, demand policy.Rate) policy.Sharer {
	c := policy.Sharer{Weight: p.Weight, Min: p.Asked().Floor(s.Link.Bandwidth, 0), Max: p.Max, Demand: demand}
	if p.Reserve == 0 {
		return c
	}
	wire := policy.WireOf(p.Reserve, 0)
	if s.Control.Open {
		wire = p.Reserve
	}
	if c.Max == 0 || wire < c.Max {
		c.Max = wire
	}
	c.Min = min(c.Min, c.Max)
	return c
}
