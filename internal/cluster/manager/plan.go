// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/optimize"
	"weir/internal/cluster/wire"
	"weir/internal/refusal"
)

// autoState records what the automatic mode did last.
type autoState struct {
	last   time.Time
	result string
}

func random() string { return strings.ToLower(rand.Text()[:6]) }

// settings of one computation.
type settings struct {
	algorithm string
	alpha     float64
	measure   optimize.Measure
	maxMoves  int
}

// The algorithms.
const (
	local   = "local"
	genetic = "genetic"
)

func (m *Manager) settings(req api.PlanRequest) (settings, error) {
	s := settings{algorithm: cmp.Or(req.Algorithm, local), alpha: m.opts.Automatic.Alpha, measure: m.opts.Automatic.Measure, maxMoves: req.MaxMoves}
	if req.Alpha != nil {
		s.alpha = *req.Alpha
	}
	if req.Measure != "" {
		s.measure = optimize.Measure(slices.Index(optimize.Measures, req.Measure))
	}
	bad := func(field, value, msg string) (settings, error) {
		return s, &refusal.Error{Kind: refusal.Invalid, Field: field, Value: value, Msg: msg}
	}
	switch {
	case s.algorithm != local && s.algorithm != genetic:
		return bad("algorithm", s.algorithm, "is not known; write local or genetic")
	case s.measure < 0:
		return bad("measure", req.Measure, "is not known; write "+strings.Join(optimize.Measures, " or "))
	case !(s.alpha >= 0 && s.alpha <= 1):
		return bad("alpha", fmt.Sprint(s.alpha), "is not between 0 and 1")
	}
	return s, nil
}

// solve has the optimizer look at a problem.
func solve(p *problem, s settings) (optimize.Plan, error) {
	p.Measure = s.measure
	if err := p.Check(); err != nil {
		return optimize.Plan{}, err
	}
	if len(p.Nodes) == 0 {
		return optimize.Plan{}, nil
	}
	o := optimize.Options{Alpha: s.alpha, MaxMoves: s.maxMoves, Seed: 1}
	if s.algorithm == genetic {
		return optimize.Genetic(p.Problem, optimize.GeneticOptions{Options: o, Seeded: true}), nil
	}
	return optimize.Local(p.Problem, o), nil
}

// Plan implements api.Manager.
func (m *Manager) Plan(_ context.Context, req api.PlanRequest) (api.ClusterPlan, error) {
	_, _, view, err := m.compute(req)
	return view, err
}

func (m *Manager) compute(req api.PlanRequest) (*problem, optimize.Plan, api.ClusterPlan, error) {
	s, err := m.settings(req)
	if err != nil {
		return nil, optimize.Plan{}, api.ClusterPlan{}, err
	}
	m.mu.Lock()
	p := m.problem(time.Now(), 0)
	m.mu.Unlock()
	if len(p.Nodes) == 0 {
		return nil, optimize.Plan{}, api.ClusterPlan{}, m.nothingKnown()
	}
	begun := time.Now()
	plan, err := solve(p, s)
	if err != nil {
		return nil, plan, api.ClusterPlan{}, err
	}
	view := planView(p, plan, s)
	view.Seconds = time.Since(begun).Seconds()
	return p, plan, view, nil
}

func (m *Manager) nothingKnown() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := &refusal.Error{Kind: refusal.Conflict, Msg: "no node has joined", Remedy: "weir manager token create prints a token for one"}
	if m.members.Len() > 0 {
		e.Msg = fmt.Sprintf("nothing is known of any of the %d nodes now", m.members.Len())
		e.Remedy = "wait some seconds for their profiles, or see weir nodes"
	}
	return e
}

// Rebalance implements api.Manager.
func (m *Manager) Rebalance(_ context.Context, req api.PlanRequest) (api.ClusterPlan, error) {
	p, plan, view, err := m.compute(req)
	if err != nil {
		return view, err
	}
	view.Applied = true
	ids, err := m.take(p, plan.Moves, "weir rebalance: ", false, time.Now())
	for i := range ids {
		view.Moves[i].ID = ids[i]
	}
	return view, err
}

// take writes moves down, in their order, and begins.
func (m *Manager) take(p *problem, moves []optimize.Move, why string, auto bool, now time.Time) (ids []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &change{}
	var list []*move
	for i, o := range moves {
		mv := p.move(o, now.Add(time.Duration(i)), why+evens(p, o))
		mv.Auto = auto
		list, ids = append(list, mv), append(ids, mv.ID)
		bucketMoves.Put(&c.Change, mv.ID, mv)
	}
	if err := m.write(c); err != nil {
		return nil, err
	}
	for _, mv := range list {
		m.moves[mv.ID] = mv
	}
	m.dispatch(now)
	return ids, nil
}

// move returns a move of the optimizer's as the manager keeps it. Its time of
// creation is its place in the order.
func (p *problem) move(o optimize.Move, created time.Time, why string) *move {
	return &move{
		Move: wire.Move{ID: newID("m", created), Container: p.Containers[o.Container].Name, Engine: p.containers[o.Container].Engine,
			From: p.Nodes[o.From].Name, To: p.Nodes[o.To].Name, Why: why},
		State: wire.MoveWaiting, Created: created.UTC(),
	}
}

// evens says what a move is good for.
func evens(p *problem, o optimize.Move) string {
	if o.Evens == optimize.None {
		return "makes room for another"
	}
	return fmt.Sprintf("evens out %s between %s and %s", o.Evens, p.Nodes[o.From].Name, p.Nodes[o.To].Name)
}

func planView(p *problem, plan optimize.Plan, s settings) api.ClusterPlan {
	v := api.ClusterPlan{Algorithm: s.algorithm, Alpha: s.alpha, Moves: []api.PlanMove{}, Nodes: []api.PlanNode{},
		Held: []api.PlanHeld{}, Unknown: slices.Concat([]string{}, p.unknown), Refusals: p.notAccepted()}
	before, after := p.loads(p.Initial()), p.loads(plan.Placement)
	v.Before, v.After = fit(p, plan.Before, before), fit(p, plan.After, after)
	for _, o := range plan.Moves {
		v.After.Seconds += o.Seconds
		v.Moves = append(v.Moves, api.PlanMove{Container: p.Containers[o.Container].Name, From: p.Nodes[o.From].Name, To: p.Nodes[o.To].Name,
			Why: evens(p, o), S: o.S, Bytes: o.Bytes, Seconds: o.Seconds})
	}
	v.After.MoveBytes = plan.After.Bytes
	for i := range p.Nodes {
		v.Nodes = append(v.Nodes, api.PlanNode{Name: p.Nodes[i].Name, Before: before[i], After: after[i]})
	}
	told := map[string]bool{}
	for _, i := range slices.Sorted(maps.Keys(p.held)) {
		c := p.Containers[i]
		if node := p.Nodes[c.Node].Name; p.held[i].cause == unable { // one line for all of them
			if !told[node] {
				v.Held = append(v.Held, api.PlanHeld{Container: "everything", Node: node, Why: p.held[i].why})
			}
			told[node] = true
			continue
		}
		v.Held = append(v.Held, api.PlanHeld{Container: c.Name, Node: p.Nodes[c.Node].Name, Why: p.held[i].why})
	}
	for _, i := range plan.Dropped {
		if _, told := p.held[i]; !told {
			c := p.Containers[i]
			v.Held = append(v.Held, api.PlanHeld{Container: c.Name, Node: p.Nodes[c.Node].Name, Why: "there is no room where it would be better off"})
		}
	}
	return v
}

// loads returns what each node gives away with a placement.
func (p *problem) loads(at optimize.Placement) []api.NodeLoad {
	list := make([]api.NodeLoad, len(p.Nodes))
	mins := make([]uint64, len(p.Nodes))
	for c, n := range at {
		container := &p.Containers[c]
		list[n].Containers++
		list[n].CPU += container.Demand[optimize.CPU] / p.Nodes[n].Capacity[optimize.CPU]
		list[n].Memory += container.Demand[optimize.Memory] / p.Nodes[n].Capacity[optimize.Memory]
		mins[n] += uint64(container.Min)
	}
	for n := range list {
		list[n].FreeBps = uint64(p.Nodes[n].Guaranteed) - min(mins[n], uint64(p.Nodes[n].Guaranteed))
	}
	return list
}

func fit(p *problem, s optimize.Score, loads []api.NodeLoad) api.ClusterFit {
	f := api.ClusterFit{S: s.S, Variance: map[string]float64{}, Peak: map[string]float64{}}
	for r := range optimize.Resources {
		f.Variance[r.String()], f.Peak[r.String()] = s.Variance[r], s.Peak[r]
	}
	for i, l := range loads {
		if l.FreeBps > f.FreeBps {
			f.FreeBps, f.FreeNode = l.FreeBps, p.Nodes[i].Name
		}
	}
	return f
}

// automatic looks at the cluster again and again.
func (m *Manager) automatic(ctx context.Context) {
	if !m.opts.Automatic.Enabled {
		return
	}
	tick := time.NewTicker(m.opts.Automatic.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.look(time.Now())
		}
	}
}

// look takes one look of the automatic mode.
func (m *Manager) look(now time.Time) {
	a := m.opts.Automatic
	m.mu.Lock()
	held := m.placesOf(m.queue())
	free, why := a.free(now, held.taken, m.begun(now, ""))
	p := m.problem(now, a.Cooldown)
	m.closeFull(p, held, now)
	m.mu.Unlock()
	if free > 0 && len(p.Nodes) > 1 {
		plan, err := solve(p, settings{algorithm: local, alpha: a.Alpha, measure: a.Measure})
		var take []optimize.Move
		if err == nil {
			take, why = a.choose(plan, m.sharing(p, plan.Moves[:min(free, len(plan.Moves))], held, now))
			_, err = m.take(p, take, "automatic: ", true, now)
		}
		if err != nil {
			why = err.Error()
		}
	} else if free > 0 {
		why = fmt.Sprintf("only %d of the nodes are known now", len(p.Nodes))
	}
	m.mu.Lock()
	changed := m.auto.result != why
	m.auto = autoState{now, why}
	m.mu.Unlock()
	if changed {
		m.log.Info("automatic mode", "result", why)
	}
}

// unbidden reports whether no operator has ordered the move: it is the manager's own
// idea, or for a place that a node has asked for.
func (m *move) unbidden() bool { return m.Auto || m.Place != "" }

// begun returns the times at which moves of a node, "" = of any, that no operator has
// ordered were begun; those that wait count as begun now. The lock is held.
func (m *Manager) begun(now time.Time, node string) []time.Time {
	var list []time.Time
	for _, mv := range m.moves {
		switch {
		case !mv.unbidden(), node != "" && mv.From != node && mv.To != node:
		case !mv.Ordered.IsZero():
			list = append(list, mv.Ordered)
		case !mv.final():
			list = append(list, now)
		}
	}
	return list
}
