// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"maps"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/wire"
)

// mayServe says why a call for a move is refused because of the age of the list of
// members, or nil. The first call for a move needs a fresh list. Later ones do not, and
// what only settles a move never does: a move that was begun comes to its end without
// the manager.
func (n *Node) mayServe(ctx context.Context, move wire.Move, verb string, step migrate.Step) error {
	settles := verb == "do" && (step == migrate.StepConfirm || step == migrate.StepDiscard)
	now := n.opts.Clock.Now()
	n.mu.Lock()
	_, begun := n.begun[move.ID]
	n.mu.Unlock()
	if settles || begun || n.opts.Engine.Knows(move.ID) {
		return nil
	}
	if err := n.members.MayBegin(ctx, move.From); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.begun, func(_ string, at time.Time) bool { return now.Sub(at) > keepMoves })
	n.begun[move.ID] = now
	return nil
}
