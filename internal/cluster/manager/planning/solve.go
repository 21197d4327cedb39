// SPDX-License-Identifier: Apache-2.0

package planning

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/cluster/manager/moves"
	"weir/internal/cluster/optimize"
	"weir/internal/core/closest"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// Options are those of one computation.
type Options struct {
	Algorithm string // one of Algorithms
	Alpha     float64
	Measure   optimize.Measure
	MaxMoves  int     // 0 = any number
	Above     float64 // nodes that use at most this part of everything are left alone, 0 = none
}

// The algorithms.
const (
	Local   = "local"
	Genetic = "genetic" // the paper's: its first generation is all random
	// GeneticSeeded is the same with the present placement in the first generation.
	GeneticSeeded = "genetic-seeded"
)

// Algorithms are all of them.
var Algorithms = []string{Local, Genetic, GeneticSeeded}

// Request has the fields of api.PlanRequest.
type Request struct {
	MaxMoves     int
	Alpha, Above *float64
	Algorithm    string
	Measure      string
}

// Settings returns those of a computation that was asked for. Empty and nil parts are as
// for the automatic mode.
func (a Automatic) Settings(req Request) (Options, error) {
	s := Options{Algorithm: cmp.Or(req.Algorithm, Local), Alpha: a.Alpha, Measure: a.Measure, MaxMoves: req.MaxMoves, Above: a.Above}
	if req.Alpha != nil {
		s.Alpha = *req.Alpha
	}
	if req.Above != nil {
		s.Above = *req.Above
	}
	if req.Measure != "" {
		s.Measure = optimize.Measure(slices.Index(optimize.Measures, req.Measure))
	}
	bad := func(field, value, msg string) (Options, error) {
		return s, &refusal.Error{Kind: refusal.Invalid, Field: field, Value: value, Msg: msg}
	}
	switch {
	case !slices.Contains(Algorithms, s.Algorithm):
		return bad("algorithm", s.Algorithm, "is not known; write "+strings.Join(Algorithms, " or "))
	case s.Measure < 0:
		return bad("measure", req.Measure, "is not known; write "+strings.Join(optimize.Measures, " or "))
	case !(s.Alpha >= 0 && s.Alpha <= 1):
		return bad("alpha", fmt.Sprint(s.Alpha), "is not between 0 and 1")
	case !(s.Above >= 0 && s.Above <= 1):
		return bad("above", fmt.Sprint(s.Above), "is not between 0 and 1")
	}
	return s, nil
}

// Solve has the optimizer look at the problem; how many nodes it left alone is in Calm then.
func (p *Problem) Solve(s Options) (optimize.Plan, error) {
	p.Measure = s.Measure
	if err := p.Check(); err != nil {
		return optimize.Plan{}, err
	}
	if len(p.Nodes) == 0 {
		return optimize.Plan{}, nil
	}
	p.Calm = len(p.LeaveCalm(s.Above))
	o := optimize.Options{Alpha: s.Alpha, MaxMoves: s.MaxMoves, Seed: 1}
	if s.Algorithm != Local {
		return optimize.Genetic(p.Problem, optimize.GeneticOptions{Options: o, Seeded: s.Algorithm == GeneticSeeded}), nil
	}
	return optimize.Local(p.Problem, o), nil
}

// Seat asks the optimizer for a place for a container with a min. Without a seat lacks
// says what each node lacks.
func (p *Problem) Seat(node, container string, min policy.Rate) (seat *optimize.Seat, lacks []string, err error) {
	at := p.Node(node)
	if at < 0 {
		return nil, nil, &refusal.Error{Kind: refusal.Conflict, Field: "node", Value: node, Msg: "no profile of it has arrived lately", Remedy: "try again in some seconds; a node whose weir.yaml says docker: {enabled: false} sends none"}
	}
	c := p.find(at, container)
	if c < 0 {
		return nil, nil, &refusal.Error{Kind: refusal.Unknown, Field: "container", Value: container, Msg: "is in no profile of node " + node, Remedy: "try again in some seconds"}
	}
	if held, ok := p.held[c]; ok {
		return nil, []string{container + " cannot move: " + held.Why}, nil
	}
	seat, short := p.Place(c, min)
	if seat != nil {
		return seat, nil, nil
	}
	for _, l := range short {
		lacks = append(lacks, p.Lacking(l))
	}
	for _, name := range p.Unknown {
		lacks = append(lacks, name+" is not heard of")
	}
	return nil, lacks, nil
}

// Pick finds a container by its name, a prefix of its id, or NODE/NAME.
func (p *Problem) Pick(text string) (int, error) {
	node, name, both := strings.Cut(text, "/")
	if !both {
		node, name = "", text
	}
	var exact, byID []int
	var names []string
	for i := range p.Containers {
		if node != "" && p.Nodes[p.Containers[i].Node].Name != node {
			continue
		}
		names = append(names, p.Containers[i].Name)
		switch {
		case p.Containers[i].Name == name:
			exact = append(exact, i)
		case name != "" && strings.HasPrefix(p.containers[i].ID, name):
			byID = append(byID, i)
		}
	}
	found := exact
	if len(found) == 0 {
		found = byID
	}
	if len(found) == 1 {
		return found[0], nil
	}
	e := &refusal.Error{Kind: refusal.Unknown, Field: "container", Value: text, Msg: "no container of the cluster has this name", Remedy: "weir ps lists them"}
	if len(found) > 1 {
		var on []string
		for _, i := range found {
			on = append(on, p.Nodes[p.Containers[i].Node].Name)
		}
		e.Msg, e.Remedy = "is there on several nodes: "+strings.Join(on, ", "), "write NODE/NAME"
	} else if near := closest.Words(name, names, 1); len(near) > 0 {
		e.Remedy = "did you mean " + near[0] + "?"
	}
	return 0, e
}

// Move returns a relocation as the manager keeps it, with this id. Its time of
// creation is its place in the order.
func (p *Problem) Move(o optimize.Relocation, id, why string, created time.Time) *moves.Move {
	return &moves.Move{
		Move: wire.Move{ID: id, Container: p.Containers[o.Container].Name, Engine: p.containers[o.Container].Engine,
			From: p.Nodes[o.From].Name, To: p.Nodes[o.To].Name, Why: why},
		State: wire.MoveWaiting, Created: created.UTC(),
	}
}

// Evens says what a move is good for.
func (p *Problem) Evens(o optimize.Relocation) string {
	if o.Evens == optimize.None {
		return "makes room for another"
	}
	return fmt.Sprintf("evens out %s between %s and %s", o.Evens, p.Nodes[o.From].Name, p.Nodes[o.To].Name)
}

// Close keeps plans from a node: containers on it stay, and none goes there.
func (p *Problem) Close(node int) {
	p.Nodes[node].Closed = true
	for c := range p.Containers {
		if p.Containers[c].Node == node {
			p.Containers[c].Pinned = true
		}
	}
}
