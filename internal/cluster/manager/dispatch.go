// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"weir/internal/cluster/bus"
	"weir/internal/cluster/manager/moves"
	"weir/internal/cluster/manager/statedir"
	"weir/internal/core/wire"
)

// key sorts as the orders do.
func (o order) key() string { return fmt.Sprintf("%020d", o.Seq) }

// send has a message go to the bus once a change is written. The lock is held.
//
// Its sequence is the time in nanoseconds, or one more than the last where that is
// greater: it grows over restarts, and a manager that was restored from a snapshot goes
// on above all that was sent since.
func (m *Manager) send(c *change, node, id string, msg wire.Order, now time.Time) error {
	subject := wire.Orders.Of(node)
	seq := max(m.lastOrder+1, uint64(now.UnixNano()))
	data, err := wire.SealOrder(m.members.Identity().Key, subject, id, now, wire.Term{Until: now.Add(moves.OrderLife), Seq: seq}, msg)
	if err != nil {
		return err
	}
	m.lastOrder = seq
	statedir.Meta.Put(&c.Transaction, metaSequence, &seq)
	o := order{Seq: m.lastOrder, Subject: subject, ID: id, Data: data}
	bucketOrders.Put(&c.Transaction, o.key(), &o)
	c.orders = append(c.orders, o)
	return nil
}

// publish hands orders to the bus, one after the other, and forgets those that it has.
func (m *Manager) publish(ctx context.Context) {
	for pauses := bus.Pauses(); ; {
		m.mu.Lock()
		var next order
		waits := len(m.orders) > 0
		if waits {
			next = m.orders[0]
		}
		m.mu.Unlock()
		if !waits {
			select {
			case <-ctx.Done():
				return
			case <-m.wake:
			}
			continue
		}
		if err := m.bus.Publish(ctx, next.Subject, next.ID, next.Data); err != nil {
			if ctx.Err() != nil {
				return
			}
			m.log.Error("order cannot be sent, trying again", "subject", next.Subject, "err", err)
			if !pauses.Wait(ctx) {
				return
			}
			continue
		}
		pauses.Reset()
		m.mu.Lock()
		c := &change{}
		bucketOrders.Delete(&c.Transaction, next.key())
		_ = m.write(c) // else it is sent once more after a restart
		m.orders = m.orders[1:]
		m.mu.Unlock()
	}
}

// tick does the work of each second.
func (m *Manager) tick(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(now)
	m.forget(now)
	m.dispatch(now)
	m.remind(now)
	for _, p := range m.places {
		if p.State == wire.PlaceApplying {
			m.advance(p.ID, now)
		}
	}
}

// newID makes an id that tells when it was made, and is hard to guess.
func newID(prefix string, now time.Time) string {
	return fmt.Sprintf("%s-%s-%s", prefix, now.UTC().Format("20060102-150405"), random())
}

// dispatch orders moves that wait and may begin. The lock is held.
func (m *Manager) dispatch(now time.Time) {
	open := moves.Queue(m.moves)
	held := m.slots(moves.UnderWay(open))
	for i, mv := range open {
		if mv.State != wire.MoveWaiting || !mv.DryRun && !held.Free(mv) {
			continue
		}
		ready, broken := moves.Ready(mv, open[:i], m.moves)
		if broken != "" {
			m.end(mv, wire.MoveCancelled, broken, now)
			continue
		}
		if !ready {
			continue
		}
		if quiet := m.opts.Automatic.QuietNow(now); quiet != "" && mv.Automatic() {
			m.end(mv, wire.MoveCancelled, quiet+" have begun", now)
			continue
		}
		target := m.nodes[mv.To]
		if !m.nodes[mv.To].Up(now) { // it may come back, and after a restart all have to
			if now.Sub(mv.Created) > moves.OrderLife {
				m.end(mv, wire.MoveCancelled, "node "+mv.To+" is not heard of any more", now)
			}
			continue
		}
		next := *mv
		next.State, next.Ordered, next.Heard, next.Sent = wire.MoveOrdered, now.UTC(), now.UTC(), 1
		next.Profile = m.profileOf(next.From, next.Container)
		next.Deadline, next.Address, next.Registry = now.Add(moves.OrderLife).UTC(), target.Beat.Address, m.opts.Registry
		c := &change{}
		if err := m.send(c, next.From, next.ID, &next.Move, now); err != nil {
			m.end(mv, wire.MoveCancelled, err.Error(), now)
			continue
		}
		if m.keep(c, mv, next) != nil {
			return
		}
		if !mv.DryRun {
			held.Take(mv)
		}
		m.log.Info("move ordered", "move", mv.ID, "container", mv.Container, "from", mv.From, "to", mv.To, "why", mv.Why, "dry_run", mv.DryRun)
		m.notify()
	}
}

// end is the manager's own end of a move. The lock is held.
func (m *Manager) end(mv *moves.Move, state wire.MoveState, why string, now time.Time) {
	next := *mv
	next.State, next.Error, next.Ended = state, why, now.UTC()
	if m.keep(&change{}, mv, next) != nil {
		return
	}
	m.log.Warn("move "+string(state), "move", mv.ID, "container", mv.Container, "from", mv.From, "to", mv.To, "why", why)
	m.advance(mv.Place, now)
	m.notify()
}

// expire ends moves of which nothing was heard until after their deadline and those that
// are overdue, and forgets old ones. The lock is held.
func (m *Manager) expire(now time.Time) {
	var ended []*moves.Move
	for _, mv := range m.moves {
		switch {
		case mv.State.Final():
			ended = append(ended, mv)
		case mv.State == wire.MoveOrdered && now.Sub(mv.Deadline) > time.Minute:
			m.end(mv, wire.MoveExpired, "node "+mv.From+" has not begun in time; is its agent running?", now)
		case mv.State.UnderWay():
			if state, why := mv.Overdue(now, m.started); why != "" {
				m.end(mv, state, why, now)
			}
		}
	}
	if len(ended) <= keepEnded+keepEnded/10 {
		return
	}
	slices.SortFunc(ended, func(a, b *moves.Move) int { return a.Ended.Compare(b.Ended) })
	c := &change{}
	for _, mv := range ended[:len(ended)-keepEnded] {
		bucketMoves.Delete(&c.Transaction, mv.ID)
		delete(m.moves, mv.ID)
	}
	_ = m.write(c)
}

// remind sends orders again of which nothing was heard for long: the node says what
// became of them, or begins. The lock is held.
func (m *Manager) remind(now time.Time) {
	if len(m.orders) >= maxQueued {
		return
	}
	c := &change{}
	for _, mv := range moves.ByAge(m.moves) {
		if mv.State.UnderWay() && now.Sub(mv.Heard) > moves.RemindAfter && m.nodes[mv.From].Up(now) {
			mv.Sent++
			mv.Heard = now.UTC()
			if err := m.send(c, mv.From, fmt.Sprintf("%s/%d", mv.ID, mv.Sent), &mv.Move, now); err != nil {
				m.log.Error("reminder cannot be sent", "move", mv.ID, "err", err)
			}
		}
	}
	for _, a := range m.applies {
		if now.Sub(a.Heard) > moves.RemindAfter && m.nodes[a.Node].Up(now) {
			a.Sent++
			a.Heard = now.UTC()
			if err := m.send(c, a.Node, fmt.Sprintf("%s/%d", a.ID, a.Sent), &a.Apply, now); err != nil {
				m.log.Error("reminder cannot be sent", "apply", a.ID, "err", err)
			}
		}
	}
	_ = m.write(c)
}

// rejection returns the part of a report to remember, nil if it is no refusal. The lock is
// held.
func (m *Manager) rejection(mv *moves.Move, r wire.MoveReport) *moves.Rejection {
	c, to := m.profileOf(mv.From, mv.Container), m.nodes[mv.To]
	if r.State != wire.MoveRefused || r.Code == "" || c == nil || to == nil {
		return nil
	}
	return &moves.Rejection{Code: wire.Clip(r.Code, moves.MaxStepName), ID: c.ID, Target: to.Beat.Started}
}

// reported takes in what a node says about a move. Twice the same changes nothing.
func (m *Manager) reported(r wire.MoveReport, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	mv := m.moves[r.ID]
	if mv == nil || mv.From != r.Node {
		m.log.Warn("report about a move that is not known", "move", r.ID, "node", r.Node, "state", r.State)
		return nil
	}
	mv.Heard = now.UTC()
	next, ok := mv.Report(r, now)
	if !ok {
		return nil
	}
	if next.State.Final() {
		next.Refusal = m.rejection(mv, r)
	}
	if err := m.keep(&change{}, mv, next); err != nil {
		return err
	}
	if mv.State.Final() {
		if mv.State == wire.MoveDone && !mv.DryRun {
			m.relocate(mv)
		}
		m.log.Info("move ended", "move", mv.ID, "container", mv.Container, "from", mv.From, "to", mv.To, "state", mv.State, "downtime", mv.Downtime, "err", mv.Error)
		m.advance(mv.Place, now)
		m.dispatch(now)
	}
	m.notify()
	return nil
}

// order has a node put a policy into force, until it says that it has. The lock is held.
func (m *Manager) order(c *change, node string, a wire.Apply, place string, now time.Time) error {
	record := &moves.PendingPolicy{Apply: a, Node: node, Created: now.UTC(), Heard: now.UTC(), Sent: 1, Place: place}
	if err := m.send(c, node, a.ID, &record.Apply, now); err != nil {
		return err
	}
	bucketApplies.Put(&c.Transaction, a.ID, record)
	m.applies[a.ID] = record
	return nil
}

// applied takes in what became of a policy.
func (m *Manager) applied(r wire.ApplyReport, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.applies[r.ID]
	if a == nil || a.Node != r.Node {
		return nil
	}
	c := &change{}
	bucketApplies.Delete(&c.Transaction, r.ID)
	if p := m.places[a.Place]; p != nil {
		next := *p
		next.Close(r.Error, now)
		bucketPlaces.Put(&c.Transaction, next.ID, &next)
		if err := m.write(c); err != nil {
			return err
		}
		*p = next
	} else if err := m.write(c); err != nil {
		return err
	}
	delete(m.applies, r.ID)
	if r.Error != "" {
		m.log.Warn("policy was refused", "node", r.Node, "workload", a.Workload, "change", string(a.Change), "err", r.Error)
	} else {
		m.log.Info("policy is in force", "node", r.Node, "workload", a.Workload, "change", string(a.Change))
	}
	m.notify()
	return nil
}

// openMoves counts moves that wait and that are under way. The lock is held.
func (m *Manager) openMoves() (waiting, running int) {
	for mv := range maps.Values(m.moves) {
		switch {
		case mv.State == wire.MoveWaiting:
			waiting++
		case mv.State.UnderWay():
			running++
		}
	}
	return waiting, running
}
