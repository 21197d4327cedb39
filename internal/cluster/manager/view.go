// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/manager/moves"
	"weir/internal/cluster/manager/planning"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/optimize"
	"weir/internal/core/closest"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// Cluster implements api.Manager.
func (m *Manager) Cluster(context.Context) (api.Cluster, error) {
	up := m.bus.Connected()
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	c := api.Cluster{Version: m.opts.Version, Started: m.started.UTC(), Address: m.Addr(), Bus: m.opts.Bus.String(), BusUp: up,
		Registry: m.opts.Registry, Nodes: m.members.Len(), Automatic: m.automaticView(), Refused: m.refused.Load()}
	for _, name := range m.members.Names() {
		if m.nodes[name].Up(now) {
			c.NodesUp++
		}
	}
	c.Waiting, c.Running = m.openMoves()
	c.Authority, c.Images = m.members.Authority(), m.imagesView()
	return c, nil
}

func (m *Manager) automaticView() api.Automatic {
	a := m.opts.Automatic
	v := api.Automatic{Enabled: a.Enabled, IntervalSeconds: a.Interval.Seconds(), Hysteresis: a.Hysteresis, CooldownSeconds: a.Cooldown.Seconds(),
		MovesAtOnce: a.AtOnce, MovesPerHour: a.PerHour, QuietHours: []string{}, Last: m.auto.last, LastResult: m.auto.result,
		AlphaOfFitness: a.Alpha, Above: a.Above, MeasureOfFitness: a.Measure.String()}
	for _, w := range a.Quiet {
		v.QuietHours = append(v.QuietHours, w.String())
	}
	return v
}

// Nodes implements api.Manager.
func (m *Manager) Nodes(context.Context) ([]api.Node, error) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	list := []api.Node{}
	for _, name := range m.members.Names() {
		list = append(list, m.nodeView(name, now))
	}
	return list, nil
}

// nodeView returns a member as it stands. The lock is held.
func (m *Manager) nodeView(name string, now time.Time) api.Node {
	member, _ := m.members.Member(name)
	v := api.Node{Name: name, State: api.NodeJoined, Joined: member.Joined, CertificateEnds: member.CertificateEnds, Engines: []string{}, Missing: []string{}}
	n := m.nodes[name]
	if n == nil {
		return v
	}
	if !n.Heard.IsZero() {
		v.State, v.Heard = api.NodeUp, n.Heard.UTC()
		if now.Sub(n.Heard) > planning.LostAfter {
			v.State = api.NodeLost
		}
	}
	b := n.Beat
	v.Address, v.Weir, v.Kernel, v.CRIU = b.Address, b.Weir, b.Kernel, b.CRIU
	for _, e := range b.Engines {
		v.Engines = append(v.Engines, strings.TrimSpace(string(e.Name)+" "+e.Version))
	}
	v.Trouble = n.Trouble
	if len(n.History) == 0 {
		return v
	}
	p := n.History[len(n.History)-1]
	v.Profiled = n.Got.UTC()
	v.Containers = len(p.Containers)
	v.CPUCores, v.CPUCapacity = p.Total.CPUCores, p.Capacity.CPUCores
	v.MemoryBytes, v.MemoryTotal = p.Total.MemoryBytes, p.Capacity.MemoryBytes
	v.TransmitBps, v.GuaranteedBps = p.Total.NetworkTransmitBps, p.Capacity.GuaranteedBps
	v.ReservedBps = p.Capacity.GuaranteedElsewhereBps
	for _, c := range p.Containers {
		v.ReservedBps += c.Policy.MinBps
	}
	v.Missing = slices.Concat(v.Missing, p.Missing)
	return v
}

// Containers implements api.Manager.
func (m *Manager) Containers(context.Context) ([]api.ClusterContainer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	moving := map[string]string{}
	for _, mv := range m.moves {
		if mv.State.UnderWay() && !mv.DryRun {
			moving[mv.From+"/"+mv.Container] = mv.ID
		}
	}
	list := []api.ClusterContainer{}
	for _, name := range m.members.Names() {
		n := m.nodes[name]
		if n == nil || len(n.History) == 0 {
			continue
		}
		for _, c := range n.History[len(n.History)-1].Containers {
			list = append(list, api.ClusterContainer{Name: c.Name, ID: c.ID, Node: name, Engine: c.Engine, Image: c.Image,
				CPUCores: c.Usage.CPUCores, MemoryBytes: c.Usage.MemoryBytes, TransmitBps: c.Usage.NetworkTransmitBps, ReceiveBps: c.Usage.NetworkReceiveBps,
				Weight: c.Policy.Weight, MinBps: c.Policy.MinBps, MaxBps: c.Policy.MaxBps, RefusedMinBps: c.Policy.RefusedMinBps,
				Pinned: c.Labels[wire.PinnedLabel] == "true", Move: moving[name+"/"+c.Name]})
		}
	}
	slices.SortFunc(list, func(a, b api.ClusterContainer) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node))
	})
	return list, nil
}

// Moves implements api.Manager.
func (m *Manager) Moves(context.Context) ([]api.Move, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := []api.Move{}
	for _, mv := range m.moves {
		list = append(list, m.moveView(mv))
	}
	slices.SortFunc(list, func(a, b api.Move) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID)) })
	return list, nil
}

// Move implements api.Manager.
func (m *Manager) Move(_ context.Context, id string) (api.Move, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mv, err := m.find(id)
	if err != nil {
		return api.Move{}, err
	}
	return m.moveView(mv), nil
}

// find returns a move by its id or a prefix of it. The lock is held.
func (m *Manager) find(id string) (*moves.Move, error) {
	var found *moves.Move
	for _, mv := range m.moves {
		if mv.ID == id {
			return mv, nil
		}
		if strings.HasPrefix(mv.ID, id) && id != "" {
			if found != nil {
				return nil, &refusal.Error{Kind: refusal.Unknown, Field: "move", Value: id, Msg: "is the beginning of several ids", Remedy: "write more of it; weir moves lists them"}
			}
			found = mv
		}
	}
	if found == nil {
		return nil, &refusal.Error{Kind: refusal.Unknown, Field: "move", Value: id, Msg: "no move has this id", Remedy: "weir moves lists them"}
	}
	return found, nil
}

// moveView returns a move as it stands. The lock is held.
func (m *Manager) moveView(mv *moves.Move) api.Move {
	v := api.Move{ID: mv.ID, Container: mv.Container, From: mv.From, To: mv.To, Why: mv.Why, State: mv.State, Step: mv.Step,
		Created: mv.Created, Ended: mv.Ended, DownMS: mv.Downtime.Seconds() * 1e3, Error: mv.Error, Steps: []api.MoveStep{}, DryRun: mv.DryRun}
	for _, s := range mv.Steps {
		v.Bytes += s.Bytes
		v.Steps = append(v.Steps, api.MoveStep{Step: s.Step, Bytes: s.Bytes, DurationMS: s.Duration.Seconds() * 1e3, Error: s.Error})
	}
	if p := m.places[mv.Place]; p != nil {
		v.Guarantee = guarantee(p)
	}
	if c := mv.Cancel; c != nil {
		v.Cancel = cmp.Or(c.Answer, "asked "+c.Why)
	}
	return v
}

// guarantee says what became of a min that a node refused.
func guarantee(p *moves.RefusedMin) string {
	min := policy.Rate(p.MinBps).String()
	switch p.State {
	case wire.PlaceDone:
		return fmt.Sprintf("min of %s for %s holds on %s", min, p.Container, p.To)
	case wire.PlaceFailed:
		return fmt.Sprintf("min of %s for %s does not hold: %s", min, p.Container, p.Error)
	}
	return fmt.Sprintf("min of %s for %s will hold on %s", min, p.Container, p.To)
}

// unknownNode returns the error of a name that no member has. The lock is held.
func (m *Manager) unknownNode(field, name string) error {
	e := &refusal.Error{Kind: refusal.Unknown, Field: field, Value: name, Msg: "no node has this name", Remedy: "weir nodes lists them"}
	if near := closest.Words(name, m.members.Names(), 1); len(near) > 0 {
		e.Remedy = "did you mean " + near[0] + "?"
	}
	return e
}

// Migrate implements api.Manager.
func (m *Manager) Migrate(ctx context.Context, req api.MoveRequest, dryRun bool) (api.Move, error) {
	mv, err := m.migrate(req, dryRun, time.Now())
	if err != nil || !dryRun {
		return mv, err
	}
	ctx, cancel := context.WithTimeout(ctx, preflightTime)
	defer cancel()
	for {
		m.mu.Lock()
		now, changed := m.moves[mv.ID], m.changed
		if now == nil || now.State.Final() {
			defer m.mu.Unlock()
			if now != nil {
				mv = m.moveView(now)
			}
			return mv, nil
		}
		m.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return mv, &refusal.Error{Kind: refusal.Timeout, Field: "container", Value: req.Container,
				Msg: fmt.Sprintf("node %s has not answered within %v", mv.From, preflightTime), Remedy: "see the log of its agent: journalctl -u weir"}
		}
	}
}

// preflightTime is how long the nodes may take for a dry run.
const preflightTime = 12 * time.Second

func (m *Manager) migrate(req api.MoveRequest, dryRun bool, now time.Time) (api.Move, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.problem(now, 0)
	if len(p.Nodes) == 0 && m.members.Len() == 0 {
		return api.Move{}, &refusal.Error{Kind: refusal.Conflict, Msg: "no node has joined", Remedy: "weir manager token create prints a token for one"}
	}
	if a := migrate.Approach(req.Approach); a != migrate.ApproachAuto && !slices.Contains(migrate.Approaches, a) {
		return api.Move{}, &refusal.Error{Kind: refusal.Invalid, Field: "approach", Value: req.Approach, Msg: "no approach has this name", Remedy: "write layer, commit or export, or leave it out"}
	}
	c, err := p.Pick(req.Container)
	if err != nil {
		return api.Move{}, err
	}
	conflict := func(field, value, msg, remedy string) (api.Move, error) {
		return api.Move{}, &refusal.Error{Kind: refusal.Conflict, Field: field, Value: value, Msg: msg, Remedy: remedy}
	}
	container, to := &p.Containers[c], p.Node(req.To)
	switch {
	case !m.members.Has(req.To):
		return api.Move{}, m.unknownNode("to", req.To)
	case to < 0:
		return conflict("to", req.To, "is not heard of now, or has sent no profile of late", "see weir nodes; after a cut or a start, try again in some seconds")
	case container.Node == to:
		return conflict("container", container.Name, "is on "+req.To+" already", "")
	}
	if held, ok := p.Held(c); ok && held.Cause == planning.Moving {
		return conflict("container", container.Name, held.Why, "wait for its end: weir moves")
	}
	container.Barred = nil // an operator may have changed what refused it
	if lack, ok := p.Lack(c, to); !ok {
		return api.Move{}, &refusal.Error{Kind: planning.KindOf(lack), Field: "to", Value: req.To, Msg: p.Lacking(lack), Remedy: "choose another node; weir nodes shows what each has"}
	}
	mv := m.newMove(p, optimize.Relocation{Container: c, From: container.Node, To: to}, "weir migrate", now)
	mv.Approach, mv.DryRun = req.Approach, dryRun
	ch := &change{}
	bucketMoves.Put(&ch.Transaction, mv.ID, mv)
	if err := m.write(ch); err != nil {
		return api.Move{}, err
	}
	m.moves[mv.ID] = mv
	m.dispatch(now)
	return m.moveView(mv), nil
}
