// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/base/audit"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/move"
	"weir/internal/cluster/node/outgoing"
	"weir/internal/core/wire"
)

// onOrder takes an order of the manager. An error would make it come again; an
// order that is forged or wrong never gets better.
func (n *Node) onOrder(ctx context.Context, in bus.Delivery) error {
	e, err := n.members.Verify(in.Data, in.Subject)
	if err != nil {
		n.opts.standing.refused(move.WhyForged)
		n.log.Warn("order refused", "reason", move.WhyForged, "subject", in.Subject, "from", wire.Clip(e.From, wire.MaxName), "err", wire.Clip(err.Error(), wire.MaxText))
		return nil
	}
	switch e.Kind {
	case wire.Move{}.Kind():
		var m wire.Move
		if err = e.Read(&m); err == nil && m.From != n.opts.Name {
			err = fmt.Errorf("%w: a move from %s", wire.ErrForged, m.From)
		}
		if err == nil {
			return n.obey(e, m, func(stale error) error { return n.moves.Obey(ctx, m, in.Data, stale) })
		}
	case wire.Cancel{}.Kind():
		var c wire.Cancel
		if err = e.Read(&c); err == nil {
			return n.obey(e, c, func(stale error) error { return n.moves.Cancel(c, stale) })
		}
	case wire.Apply{}.Kind():
		var a wire.Apply
		if err = e.Read(&a); err == nil {
			return n.obey(e, a, func(stale error) error { return n.apply(ctx, a, stale) })
		}
	default:
		err = fmt.Errorf("a %s is no order that this version knows", e.Kind)
	}
	n.opts.standing.refused(move.WhyForeign)
	n.log.Warn("order refused", "reason", move.WhyForeign, "subject", in.Subject, "from", e.From, "err", wire.Clip(err.Error(), wire.MaxText))
	return nil
}

// obey has an order carried out. do is given the reason, if there is one, why it must
// not be begun any more; then it may still say what became of it before.
func (n *Node) obey(e wire.Envelope, o wire.Order, do func(stale error) error) error {
	stale := n.sequence.admit(o, e.Term, time.Now())
	switch {
	case stale == nil:
	case errors.Is(stale, wire.ErrLate), errors.Is(stale, wire.ErrReplayed), errors.Is(stale, wire.ErrMalformed):
		why := move.WhyReplayed
		if errors.Is(stale, wire.ErrLate) {
			why = move.WhyExpired
		}
		n.opts.standing.refused(why)
		n.log.Warn("order refused", "reason", why, "kind", e.Kind, "of", o.Object(), "id", e.ID, "err", stale)
	default:
		return stale // the disk: it comes again
	}
	return do(stale)
}

// apply puts a policy into force that the manager orders, once. Of one that must not be
// begun any more nothing is reported: the manager asks again if it still wants it.
func (n *Node) apply(ctx context.Context, a wire.Apply, stale error) error {
	if k, known := n.moves.Receipts.Load(a.ID); known && k.Policy != nil {
		return n.say(n.reports, wire.Reports, fmt.Sprintf("%s/%d", a.ID, time.Now().UnixNano()), k.Policy, true)
	}
	if stale != nil {
		return nil
	}
	r := &wire.ApplyReport{ID: a.ID, Node: n.opts.Name}
	if err := n.recordedSet(ctx, a); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.Error = wire.Clip(err.Error(), wire.MaxText)
	}
	if err := n.moves.Receipts.Save(a.ID, outgoing.Receipt{Policy: r}); err != nil {
		return err
	}
	return n.say(n.reports, wire.Reports, a.ID, r, true)
}

// recordedSet puts a policy into force that the manager sends.
func (n *Node) recordedSet(ctx context.Context, a wire.Apply) error {
	e := audit.Entry{Who: audit.Who{Via: audit.ViaManager}, Action: "apply-policy", Object: a.Workload, Change: a.Change}
	return n.opts.Audit.Do(ctx, e, func(ctx context.Context) error { return n.set(ctx, a) })
}
