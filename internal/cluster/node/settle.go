// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/wire"
)

// lookAtGuests is between two looks at what was left here.
const lookAtGuests = time.Minute

// lookAfterGuests goes on with what a former process has left, and discards what its
// source has forsaken, until ctx ends.
func (n *Node) lookAfterGuests(ctx context.Context) {
	if n.opts.Engine == nil {
		return
	}
	for _, v := range n.guests.unsettled() {
		n.settle(v.Grant.Move)
	}
	tick := time.NewTicker(lookAtGuests)
	defer tick.Stop()
	for {
		n.tidyGuests(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tidyGuests takes one look at the guests.
func (n *Node) tidyGuests(ctx context.Context, now time.Time) {
	n.guests.forget(now)
	for _, v := range n.guests.forsaken(now) {
		n.discardForsaken(ctx, v.Grant)
	}
	for _, v := range n.guests.unswept(now) {
		n.sweep(ctx, v.Grant)
	}
}

// discardForsaken removes a copy that never ran and of which nothing was heard for long.
func (n *Node) discardForsaken(ctx context.Context, grant wire.Grant) {
	t, err := n.guests.take(ctx, grant, string(migrate.StepDiscard), func(v *guestRecord, o migrate.Order) error { return v.mayTake(migrate.StepDiscard, o) }, time.Now())
	if err != nil {
		return
	}
	out, err := n.opts.Engine.Do(t.ctx, migrate.StepDiscard, t.order)
	err = t.done(err, func(v *guestRecord) { v.took(migrate.StepDiscard, out, nil, wire.Statement{}) })
	n.log.Warn("a copy whose source is silent is discarded", "move", grant.Move, "container", grant.Container, "from", grant.From, "err", err)
}

// sweep discards once more what was discarded. An engine's daemon may have ended a step
// after that whose caller had gone. An error is tried again with the next look.
func (n *Node) sweep(ctx context.Context, grant wire.Grant) {
	o, ok := n.guests.toSweep(ctx, grant.Move)
	if !ok {
		return
	}
	_, err := n.opts.Engine.Do(ctx, migrate.StepDiscard, o)
	if err == nil {
		err = n.guests.note(grant.Move, func(v *guestRecord) { v.Swept = true })
	}
	if err != nil {
		n.log.Warn("what was discarded cannot be looked after", "move", grant.Move, "container", grant.Container, "from", grant.From, "err", err)
	}
}
