// SPDX-License-Identifier: Apache-2.0

package outgoing

import (
	"context"

	"weir/internal/cluster/migrate"
	"weir/internal/core/wire"
)

// Resume goes on with what a former process has left, once.
func (m *Moves) Resume(ctx context.Context) {
	m.once.Do(func() {
		if m.opts.Engine == nil {
			return
		}
		list, err := m.journals.Unfinished()
		if err != nil {
			m.log.Error("migrations of before cannot be looked at", "err", err)
		}
		begun := map[string]bool{}
		for _, journal := range list {
			id := journal.Order().Move
			begun[id] = true
			k, _ := m.Receipts.Load(id)
			order, ok := m.orderOf(k.Order)
			if !ok {
				journal.Close()
				continue
			}
			if k.Report != nil { // all but the tidying up is done
				m.active.Go(func() {
					defer journal.Close()
					m.tidy(ctx, order, m.Target(order, k.Grant), journal)
				})
				continue
			}
			m.mu.Lock()
			m.open[id] = &wire.MoveReport{ID: id, State: wire.MoveRunning, Step: "resume"}
			m.cancels[id] = &canceller{do: journal.Cancel, container: order.Container}
			m.mu.Unlock()
			m.log.Info("move goes on after a restart", "move", id, "container", order.Container, "to", order.To)
			m.active.Go(func() {
				defer journal.Close()
				target := m.Target(order, k.Grant)
				result, err := migrate.Resume(ctx, m.opts.Engine, target, journal, m.progress(order))
				m.ended(ctx, order, result, err, target, journal)
				m.tidy(ctx, order, target, journal)
			})
		}
		m.neverBegun(begun)
	})
}

// neverBegun ends orders that were accepted by a process that died before it had
// touched anything.
func (m *Moves) neverBegun(begun map[string]bool) {
	former := m.former
	m.former = nil
	for id, k := range former {
		if k.Report != nil || k.Policy != nil || begun[id] {
			continue
		}
		order, ok := m.orderOf(k.Order)
		if !ok {
			continue
		}
		if j, err := m.journals.Open(id); err == nil { // it ended, and only that was not said
			r := wire.MoveReport{State: wire.MoveFailed, Error: "the agent was restarted at its end; see weir ps where it runs"}
			for _, record := range j.Entries() {
				if record.State != "" {
					r.State, r.Error, r.Downtime = wire.MoveState(record.State), record.Err, record.Downtime
				}
			}
			j.Close()
			_ = m.finish(order, r)
			continue
		}
		_ = m.refuse(order, "the agent was restarted before it began")
	}
}

// orderOf returns a move out of its envelope, of which this node is the source.
func (m *Moves) orderOf(sealed []byte) (wire.Move, bool) {
	var order wire.Move
	e, err := m.opts.Members.Verify(sealed, wire.Orders.Of(m.opts.Members.Name()))
	if err == nil {
		err = e.Read(&order)
	}
	return order, err == nil
}
