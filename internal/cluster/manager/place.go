// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/manager/moves"
	"weir/internal/cluster/manager/planning"
	"weir/internal/cluster/optimize"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// seek finds a place for a min that a node had to refuse, orders the moves that it
// takes, and remembers to put the min into force at their end. The same request again
// gets the same answer; so does another about the same container while the first is
// being dealt with.
func (m *Manager) seek(r wire.PlaceRequest, now time.Time) (wire.PlaceAnswer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.places[r.ID]; p != nil {
		return p.Answer, nil
	}
	for _, p := range m.places {
		if p.Node == r.Node && p.Container == r.Container && !p.Final() {
			return p.Answer, nil
		}
	}
	if err := m.admitPlace(r.Node, now); err != nil {
		return wire.PlaceAnswer{}, err
	}
	if err := consistent(r); err != nil {
		m.refused.Add(1)
		return wire.PlaceAnswer{}, err
	}
	p := m.problem(now, 0)
	seat, lacks, err := p.Seat(r.Node, r.Container, policy.Rate(r.MinBps))
	if err != nil || seat == nil {
		return wire.PlaceAnswer{Lacks: lacks}, err
	}
	if err := m.allowed(p, seat, r, now); err != nil {
		return wire.PlaceAnswer{}, err
	}
	record := &moves.RefusedMin{PlaceRequest: r, State: wire.PlaceMoving, Created: now.UTC(), To: p.Nodes[seat.Node].Name}
	c := &change{}
	var list []*moves.Move
	for i, o := range seat.Moves {
		mv := m.newMove(p, o, placeWhy(p, o, r), now.Add(time.Duration(i)))
		mv.Place, mv.After = r.ID, slices.Clone(record.Moves)
		record.Moves = append(record.Moves, mv.ID)
		list = append(list, mv)
		bucketMoves.Put(&c.Transaction, mv.ID, mv)
	}
	record.Answer = answer(p, seat, record)
	bucketPlaces.Put(&c.Transaction, r.ID, record)
	if err := m.write(c); err != nil {
		return wire.PlaceAnswer{}, err
	}
	m.places[r.ID] = record
	for _, mv := range list {
		m.moves[mv.ID] = mv
	}
	m.log.Info("place found", "container", r.Container, "node", r.Node, "min", policy.Rate(r.MinBps).String(), "to", record.To, "moves", record.Moves)
	m.advance(r.ID, now) // nothing may have to move: there is room by now
	m.dispatch(now)
	return record.Answer, nil
}

// allowed says whether the moves of a seat may be begun: they obey the quiet hours and
// the moves per hour of the automatic mode, also while that is off. Whether a person or a
// label is behind the request is the node's word, so it makes no difference.
func (m *Manager) allowed(p *planning.Problem, seat *optimize.Seat, r wire.PlaceRequest, now time.Time) error {
	if len(seat.Moves) == 0 {
		return nil
	}
	to := p.Nodes[seat.Node].Name
	free, why := m.opts.Automatic.Free(now, 0, moves.Begun(m.moves, "", now))
	if free > 0 && m.opts.Automatic.PerHour-moves.Lately(m.moves, "", now) < len(seat.Moves) {
		free, why = 0, fmt.Sprintf("it takes %d moves, and %d an hour are allowed", len(seat.Moves), m.opts.Automatic.PerHour)
	}
	if free > 0 && m.spent(r.Node, now) {
		free, why = 0, fmt.Sprintf("%d moves from or to %s within the last hour, of one node %d are allowed", moves.Lately(m.moves, r.Node, now), r.Node, m.perNode())
	}
	if free > 0 {
		return nil
	}
	return &refusal.Error{Kind: refusal.Conflict, Field: "container", Value: r.Container, Msg: fmt.Sprintf("%s has room, but nothing is moved there now: %s", to, why),
		Remedy: fmt.Sprintf("ask again later, or have an operator order it: weir migrate %s/%s --to %s", r.Node, r.Container, to)}
}

// ask is seek with the change as the agent's API has it.
func (m *Manager) ask(r wire.PlaceRequest, wanted api.PolicyChange) (wire.PlaceAnswer, error) {
	text, err := json.Marshal(wanted)
	if err != nil {
		return wire.PlaceAnswer{}, err
	}
	r.Change = text
	if err := r.Check(); err != nil {
		return wire.PlaceAnswer{}, &refusal.Error{Kind: refusal.Invalid, Msg: err.Error()}
	}
	return m.seek(r, time.Now())
}

func placeWhy(p *planning.Problem, o optimize.Relocation, r wire.PlaceRequest) string {
	min := policy.Rate(r.MinBps).String()
	if p.Containers[o.Container].Name == r.Container && p.Nodes[o.From].Name == r.Node {
		return fmt.Sprintf("its min of %s does not fit on %s", min, r.Node)
	}
	return fmt.Sprintf("makes room for %s and its min of %s", r.Container, min)
}

func answer(p *planning.Problem, seat *optimize.Seat, record *moves.RefusedMin) wire.PlaceAnswer {
	a := wire.PlaceAnswer{To: record.To}
	if n := len(record.Moves); n > 0 {
		a.Move = record.Moves[n-1]
	}
	for _, o := range seat.Moves {
		if name := p.Containers[o.Container].Name; name != record.Container {
			a.Why = fmt.Sprintf("%s moves from %s to %s to make room", name, p.Nodes[o.From].Name, p.Nodes[o.To].Name)
		}
	}
	return a
}

// advance goes on with a place once its moves have ended. The lock is held.
func (m *Manager) advance(id string, now time.Time) {
	p := m.places[id]
	if p == nil || p.Final() {
		return
	}
	next := *p
	c := &change{}
	for _, id := range p.Moves {
		switch mv := m.moves[id]; {
		case mv == nil || mv.State == wire.MoveDone:
		case mv.State.Final():
			next.Close(fmt.Sprintf("move %s of %s to %s ended as %s: %s", mv.ID, mv.Container, mv.To, mv.State, mv.Error), now)
		default:
			return
		}
	}
	if !next.State.Final() {
		m.settle(c, p, &next, now)
	}
	if next.State == p.State {
		return
	}
	bucketPlaces.Put(&c.Transaction, next.ID, &next)
	if m.write(c) != nil {
		return
	}
	*p = next
	if p.State == wire.PlaceFailed {
		m.log.Warn("min cannot be held anywhere now", "container", p.Container, "min", policy.Rate(p.MinBps).String(), "err", p.Error)
	}
}

// settle has what a place was asked for put into force. Where the container has moved,
// its target does that, by the grant of its move, and says so (arrived): no other node
// is told to change something for what this one asked. The lock is held.
func (m *Manager) settle(c *change, p, next *moves.RefusedMin, now time.Time) {
	next.State = wire.PlaceApplying
	var own *moves.Move
	for _, id := range p.Moves {
		if p.Owns(m.moves[id]) {
			own = m.moves[id]
		}
	}
	switch {
	case own != nil && !own.Arrived.IsZero():
		next.Close(own.Unmet, now)
	case own != nil && now.Sub(own.Ended) > moves.OrderLife:
		next.Close(fmt.Sprintf("node %s does not say whether it holds it", p.To), now)
	case p.To == p.Node && m.applies[p.ID+"-apply"] == nil:
		err := m.order(c, p.To, wire.Apply{ID: p.ID + "-apply", Workload: p.Container, Change: p.Change, Why: "was refused, and has room now"}, p.ID, now)
		if err != nil {
			next.Close(err.Error(), now)
		}
	case p.To != p.Node && own == nil: // forgotten with its move
		next.Close("its move is not known any more", now)
	}
}
