// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/manager/moves"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// CancelMove implements api.Manager. A move that waits ends at once. One under way is
// called off by its source, if it is not decided yet; the source decides by its journal,
// so that the container runs on exactly one node. Where the source is not heard of, the
// move ends here, and the source's report is taken in when it comes.
func (m *Manager) CancelMove(_ context.Context, id string, dryRun bool) (api.Cancellation, error) {
	return m.cancelMove(id, dryRun, time.Now())
}

func (m *Manager) cancelMove(id string, dryRun bool, now time.Time) (api.Cancellation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mv, err := m.find(id)
	if err != nil {
		return api.Cancellation{}, err
	}
	if err := mv.Cancellable(); err != nil {
		return api.Cancellation{}, err
	}
	result := api.Cancellation{DryRun: dryRun}
	switch {
	case mv.Cancel != nil && mv.Cancel.Answer != "":
		return api.Cancellation{}, &refusal.Error{Kind: refusal.Conflict, Field: "move", Value: mv.ID, Msg: mv.Cancel.Answer, Remedy: "wait for its end, and move the container back"}
	case mv.State == wire.MoveWaiting:
		result.Effect, result.Text = "ended", "nothing was begun"
	case m.nodes[mv.From].Up(now):
		result.Effect = "asked"
		result.Text = fmt.Sprintf("%s is asked to go back; it does unless the copy on %s was confirmed before", mv.From, mv.To)
	default:
		result.Effect = "closed"
		result.Text = fmt.Sprintf("%s is not heard of; %s runs there or on %s, see weir ps when %s is back", mv.From, mv.Container, mv.To, mv.From)
	}
	if !dryRun {
		if err := m.cancel(mv, "by the operator", result.Effect != "asked", now); err != nil {
			return api.Cancellation{}, err
		}
	}
	result.Move = m.moveView(mv)
	return result, nil
}

// cancel asks the source of a move that is under way to go back; at once says that the
// move ends here without waiting for it. The lock is held.
func (m *Manager) cancel(mv *moves.Move, why string, atOnce bool, now time.Time) error {
	if m.members.Has(mv.From) && mv.State.UnderWay() {
		next := *mv
		next.Cancel = &moves.Cancellation{Asked: now.UTC(), Why: why}
		c := &change{}
		if err := m.send(c, mv.From, fmt.Sprintf("%s/cancel-%d", mv.ID, now.UnixNano()), wire.Cancel{Move: mv.ID, Node: mv.From, Why: why}, now); err != nil {
			return err
		}
		if err := m.keep(c, mv, next); err != nil {
			return err
		}
		m.log.Info("move is to be cancelled", "move", mv.ID, "container", mv.Container, "from", mv.From, "to", mv.To, "why", why)
	}
	if atOnce {
		m.end(mv, wire.MoveCancelled, "cancelled "+why, now)
	}
	return nil
}

// dismiss ends all that has to do with a node that was removed: its moves, the places
// that it asked for or was to give, the policies that it was to apply. What other nodes
// have of its containers is settled by their journals and leases. The lock is held.
func (m *Manager) dismiss(node string, now time.Time) {
	why := "because node " + node + " was removed from the cluster"
	for _, mv := range moves.ByAge(m.moves) {
		if mv.From == node || mv.To == node {
			if err := m.cancel(mv, why, true, now); err != nil {
				m.log.Error("move of a removed node cannot be cancelled", "move", mv.ID, "err", err)
			}
		}
	}
	c := &change{}
	for id, a := range m.applies {
		if a.Node == node {
			bucketApplies.Delete(&c.Transaction, id)
			delete(m.applies, id)
		}
	}
	for id, p := range m.places {
		if !p.Final() && (p.Node == node || p.To == node) {
			next := *p
			next.Close("node "+node+" was removed from the cluster", now)
			bucketPlaces.Put(&c.Transaction, id, &next)
			*p = next
		}
	}
	_ = m.write(c) // logged; what the disk does not take is ended by its time limits
}
