// SPDX-License-Identifier: Apache-2.0

package outgoing

import (
	"weir/internal/base/audit"
	"weir/internal/core/wire"
)

// recordEnd writes to the audit log how a move ended that this node was to make.
func (m *Moves) recordEnd(order wire.Move, r wire.MoveReport) {
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
	m.opts.Audit.Append(e)
}
