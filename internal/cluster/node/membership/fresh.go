// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/core/wire"
)

// MayBegin says why no move with a peer may begin here now, or nil: a node that has not
// heard of the manager for wire.MembersFresh does not know who has been removed since.
// The error wraps ErrUnreachable if a manager that answers may change it.
func (m *Membership) MayBegin(ctx context.Context, peer string) error {
	fresh := m.roster.age(m.clock.Now()) <= wire.MembersFresh
	if fresh && m.roster.key(peer) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, membersTimeout)
	defer cancel()
	switch err := m.Refresh(ctx); {
	case err != nil && !fresh:
		return fmt.Errorf("node %s cannot begin a move: its list of members is older than %v: %w", m.opts.Name, wire.MembersFresh, err)
	case err != nil:
		return fmt.Errorf("node %s cannot begin a move with node %s, which is not on its list of members: %w", m.opts.Name, peer, err)
	case m.roster.key(peer) == nil:
		return fmt.Errorf("node %s cannot begin a move with node %s: it %w", m.opts.Name, peer, errNoMember)
	}
	return nil
}

// AwaitBegin calls MayBegin for a move that was ordered: while the manager is away, it
// asks again until the deadline.
func (m *Membership) AwaitBegin(ctx context.Context, order wire.Move) error {
	for {
		err := m.MayBegin(ctx, order.To)
		if err == nil || !errors.Is(err, ErrUnreachable) || time.Until(order.Deadline) < membersPause {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(membersPause):
		}
	}
}
