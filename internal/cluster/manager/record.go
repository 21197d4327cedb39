// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"

	"weir/internal/base/audit"
	"weir/internal/cluster/manager/moves"
	"weir/internal/core/wire"
)

// keep writes down what a move has become, with the rest of a change, and has it be that. The
// lock is held.
func (m *Manager) keep(c *change, mv *moves.Move, next moves.Move) error {
	bucketMoves.Put(&c.Transaction, next.ID, &next)
	if err := m.write(c); err != nil {
		return err
	}
	*mv = next
	return nil
}

// record writes to the audit log what becomes of moves in a change that was just
// written. Requests have lines of their own (rest.API), so a move that a person asked
// for has none before it is ordered. The lock is held; m.moves is as it was before.
func (m *Manager) record(c *change) {
	var entries []audit.Entry
	for id, next := range bucketMoves.In(&c.Transaction) {
		if next.DryRun {
			continue
		}
		var before wire.MoveState
		if old := m.moves[id]; old != nil {
			before = old.State
		}
		if before == next.State || before == "" && !next.Auto {
			continue
		}
		entries = append(entries, entry(next, before))
	}
	m.opts.Audit.Append(entries...)
}

// entry returns a line about a move that has another state than before.
func entry(m *moves.Move, before wire.MoveState) audit.Entry {
	e := audit.Entry{Who: audit.Who{Via: audit.ViaManager}, Action: "move", Object: m.Container,
		Change: map[string]string{"move": m.ID, "from": m.From, "to": m.To}, After: m.State,
		Result: audit.Done, Reason: cmp.Or(m.Error, m.Why)}
	if before != "" {
		e.Before = before
	}
	switch m.State {
	case wire.MoveWaiting, wire.MoveOrdered, wire.MoveExpired, wire.MoveCancelled:
	default: // what the node reports
		e.Who = audit.Who{Via: audit.ViaNode, Node: m.From}
	}
	switch m.State {
	case wire.MoveFailed, wire.MoveRolledBack, wire.MoveExpired, wire.MoveCancelled:
		e.Result = audit.Failed
	case wire.MoveRefused:
		e.Result = audit.Refused
	}
	return e
}

// nodeAuthor returns the author of a request from the network.
func nodeAuthor(ctx context.Context) audit.Who { return from(ctx).author() }

func (r remote) author() audit.Who {
	if r.node == "" {
		return audit.Who{Via: audit.ViaNetwork, Address: r.address}
	}
	return audit.Who{Via: audit.ViaNode, Node: r.node, Address: r.address}
}
