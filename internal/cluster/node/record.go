// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"

	"weir/internal/audit"
	"weir/internal/cluster/wire"
)

// recordEnd writes to the audit log how a move ended that this node was to make.
func (n *Node) recordEnd(order wire.Move, r wire.MoveReport) {
	if order.DryRun {
		return
	}
	e := audit.Entry{Who: audit.Who{Via: audit.ViaManager}, Action: "move", Object: order.Container,
		Change: map[string]string{"move": order.ID, "from": order.From, "to": order.To}, After: r.State, Result: audit.Failed, Reason: r.Error}
	switch r.State {
	case wire.MoveDone:
		e.Result, e.Reason = audit.Done, order.Why
	case wire.MoveRefused:
		e.Result = audit.Refused
	}
	n.opts.Audit.Append(e)
}

// recordedSet puts a policy into force that the manager sends.
func (n *Node) recordedSet(ctx context.Context, a wire.Apply) error {
	e := audit.Entry{Who: audit.Who{Via: audit.ViaManager}, Action: "apply-policy", Object: a.Workload, Change: a.Change}
	return n.opts.Audit.Do(ctx, e, func(ctx context.Context) error { return n.set(ctx, a) })
}
