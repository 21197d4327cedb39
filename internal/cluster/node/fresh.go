// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/wire"
)

// mayBegin says why no move with a peer may begin here now, or nil: a node that has not
// heard of the manager for wire.MembersFresh does not know who has been removed since.
// The error wraps errUnreachable if a manager that answers may change it.
func (n *Node) mayBegin(ctx context.Context, peer string) error {
	fresh := n.roster.age(n.clock.Now()) <= wire.MembersFresh
	if fresh && n.roster.key(peer) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, membersTimeout)
	defer cancel()
	switch err := n.askMembers(ctx); {
	case err != nil && !fresh:
		return fmt.Errorf("node %s cannot begin a move: its list of members is older than %v: %w", n.opts.Name, wire.MembersFresh, err)
	case err != nil:
		return fmt.Errorf("node %s cannot begin a move with node %s, which is not on its list of members: %w", n.opts.Name, peer, err)
	case n.roster.key(peer) == nil:
		return fmt.Errorf("node %s cannot begin a move with node %s: it %w", n.opts.Name, peer, errNoMember)
	}
	return nil
}

// awaitBegin calls mayBegin for a move that was ordered: while the manager is away, it
// asks again until the deadline.
func (n *Node) awaitBegin(ctx context.Context, order wire.Move) error {
	for {
		err := n.mayBegin(ctx, order.To)
		if err == nil || !errors.Is(err, errUnreachable) || time.Until(order.Deadline) < membersPause {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(membersPause):
		}
	}
}

// mayServe says why a call for a move is refused because of the age of the list of
// members, or nil. The first call for a move needs a fresh list. Later ones do not, and
// what only settles a move never does: a move that was begun comes to its end without
// the manager.
func (n *Node) mayServe(ctx context.Context, move wire.Move, verb string, step migrate.Step) error {
	settles := verb == "do" && (step == migrate.StepConfirm || step == migrate.StepDiscard)
	now := n.clock.Now()
	n.mu.Lock()
	_, begun := n.begun[move.ID]
	n.mu.Unlock()
	if settles || begun || n.opts.Engine.Knows(move.ID) {
		return nil
	}
	if err := n.mayBegin(ctx, move.From); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.begun, func(_ string, at time.Time) bool { return now.Sub(at) > keepMoves })
	n.begun[move.ID] = now
	return nil
}
