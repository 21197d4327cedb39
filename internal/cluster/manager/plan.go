// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/manager/moves"
	"weir/internal/cluster/manager/planning"
	"weir/internal/cluster/optimize"
	"weir/internal/core/refusal"
)

// autoState records what the automatic mode did last.
type autoState struct {
	last   time.Time
	result string
}

func random() string { return strings.ToLower(rand.Text()[:6]) }

// Plan implements api.Manager.
func (m *Manager) Plan(_ context.Context, req api.PlanRequest) (api.ClusterPlan, error) {
	_, _, view, err := m.compute(req)
	return view, err
}

func (m *Manager) compute(req api.PlanRequest) (*planning.Problem, optimize.Plan, api.ClusterPlan, error) {
	s, err := m.opts.Automatic.Settings(planning.Request(req))
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
	plan, err := p.Solve(s)
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
		e.Remedy = "wait some seconds for their profiles, or see weir nodes; a node whose weir.yaml says docker: {enabled: false} sends none"
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
func (m *Manager) take(p *planning.Problem, plan []optimize.Relocation, why string, auto bool, now time.Time) (ids []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &change{}
	var list []*moves.Move
	for i, o := range plan {
		mv := m.newMove(p, o, why+p.Evens(o), now.Add(time.Duration(i)))
		mv.Auto = auto
		list, ids = append(list, mv), append(ids, mv.ID)
		bucketMoves.Put(&c.Transaction, mv.ID, mv)
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

func planView(p *planning.Problem, plan optimize.Plan, s planning.Options) api.ClusterPlan {
	v := api.ClusterPlan{Algorithm: s.Algorithm, Alpha: s.Alpha, Above: s.Above, Calm: p.Calm, Moves: []api.PlanMove{}, Nodes: []api.PlanNode{},
		Held: []api.PlanHeld{}, Unknown: slices.Concat([]string{}, p.Unknown), Refusals: p.Refusals()}
	before, after := loads(p, p.Initial()), loads(p, plan.Placement)
	v.Before, v.After = fit(p, plan.Before, before), fit(p, plan.After, after)
	for _, o := range plan.Moves {
		v.After.Seconds += o.Seconds
		v.Moves = append(v.Moves, api.PlanMove{Container: p.Containers[o.Container].Name, From: p.Nodes[o.From].Name, To: p.Nodes[o.To].Name,
			Why: p.Evens(o), S: o.S, Bytes: o.Bytes, Seconds: o.Seconds})
	}
	v.After.MoveBytes = plan.After.Bytes
	for i := range p.Nodes {
		v.Nodes = append(v.Nodes, api.PlanNode{Name: p.Nodes[i].Name, Before: before[i], After: after[i]})
	}
	told := map[string]bool{}
	for i := range p.Containers {
		held, ok := p.Held(i)
		if !ok {
			continue
		}
		c := p.Containers[i]
		node := p.Nodes[c.Node].Name
		if held.Cause != planning.Unable {
			v.Held = append(v.Held, api.PlanHeld{Container: c.Name, Node: node, Why: held.Why})
		} else if !told[node] { // one line for all of them
			v.Held = append(v.Held, api.PlanHeld{Container: "everything", Node: node, Why: held.Why})
			told[node] = true
		}
	}
	for _, i := range plan.Dropped {
		if _, told := p.Held(i); !told {
			c := p.Containers[i]
			v.Held = append(v.Held, api.PlanHeld{Container: c.Name, Node: p.Nodes[c.Node].Name, Why: "there is no room where it would be better off"})
		}
	}
	return v
}

// loads returns what each node gives away with a placement.
func loads(p *planning.Problem, at optimize.Assignment) []api.NodeLoad {
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

func fit(p *planning.Problem, s optimize.Fitness, loads []api.NodeLoad) api.ClusterFit {
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

// problem returns the optimizer's problem for the cluster of now. The lock is held; the
// result may be used without it.
func (m *Manager) problem(now time.Time, cooldown time.Duration) *planning.Problem {
	return planning.Cluster{Names: m.members.Names(), Nodes: m.nodes, Moves: m.moves}.Problem(now, cooldown)
}

// newMove returns a relocation as it is written down.
func (m *Manager) newMove(p *planning.Problem, o optimize.Relocation, why string, created time.Time) *moves.Move {
	return p.Move(o, newID("m", created), why, created)
}

// slots counts those of the moves that hold a slot. The lock is held.
func (m *Manager) slots(list []*moves.Move) *moves.Slots {
	return moves.NewSlots(m.opts.Automatic.AtOnce, m.members.Len(), list)
}

// perNode is how many moves of one node the manager begins by itself in an hour.
func (m *Manager) perNode() int { return moves.Share(m.opts.Automatic.PerHour, m.members.Len()) }

// spent reports whether a node has had its share of the moves of the last hour that no
// operator has ordered. The lock is held.
func (m *Manager) spent(node string, now time.Time) bool {
	return moves.Lately(m.moves, node, now) >= m.perNode()
}

// closeFull keeps a plan from the nodes that have their share of the moves. The lock is
// held.
func (m *Manager) closeFull(p *planning.Problem, held *moves.Slots, now time.Time) {
	for i := range p.Nodes {
		if name := p.Nodes[i].Name; held.Full(name) || m.spent(name, now) {
			p.Close(i)
		}
	}
}

// sharing returns how many of the first moves of a plan leave each node within its share.
func (m *Manager) sharing(p *planning.Problem, plan []optimize.Relocation, held *moves.Slots, now time.Time) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	hour, most := map[string]int{}, m.perNode()
	for i, o := range plan {
		mv := p.Move(o, "", "", now)
		for _, node := range []string{mv.From, mv.To} {
			if hour[node]++; moves.Lately(m.moves, node, now)+hour[node] > most || held.Full(node) {
				return i
			}
		}
		held.Take(mv)
	}
	return len(plan)
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
	held := m.slots(moves.Queue(m.moves))
	free, why := a.Free(now, held.Taken(), moves.Begun(m.moves, "", now))
	p := m.problem(now, a.Cooldown)
	m.closeFull(p, held, now)
	m.mu.Unlock()
	if free > 0 && len(p.Nodes) > 1 {
		plan, err := p.Solve(planning.Options{Algorithm: planning.Local, Alpha: a.Alpha, Measure: a.Measure, Above: a.Above})
		var take []optimize.Relocation
		if err == nil {
			take, why = a.Choose(plan, p.Calm == len(p.Nodes), m.sharing(p, plan.Moves[:min(free, len(plan.Moves))], held, now))
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
