// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"fmt"
	"time"

	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// ErrTurn is the answer to a source that asks for a grant before its move was ordered: the
// manager that had ordered it was restored from a snapshot of before. The source asks
// again until the move's turn has come.
var ErrTurn = &refusal.Error{Kind: refusal.Busy, Field: "move", Msg: "waits for its turn among the moves at once", Remedy: "ask again"}

// Grantable says why a move, nil = one that is not known, gets no grant for what its
// source describes; nil if it gets one.
func Grantable(mv *Move, node string, f wire.Manifest, now time.Time) error {
	refuse := func(kind refusal.Kind, field, value, format string, args ...any) error {
		return &refusal.Error{Kind: kind, Field: field, Value: value, Msg: fmt.Sprintf(format, args...), Remedy: "weir moves shows what is under way; order it again: weir migrate"}
	}
	if err := f.Check(); err != nil {
		return &refusal.Error{Kind: refusal.Invalid, Field: "manifest", Value: f.Move, Msg: err.Error(), Remedy: "run the same Weir on manager and nodes"}
	}
	switch {
	case mv == nil || mv.From != node || f.Node != node:
		return refuse(refusal.Denied, "move", f.Move, "is no move from %s", node)
	case mv.State == wire.MoveWaiting:
		return ErrTurn
	case mv.Final() || !mv.UnderWay():
		return refuse(refusal.Conflict, "move", f.Move, "is %s", mv.State)
	case mv.DryRun:
		return refuse(refusal.Conflict, "move", f.Move, "is a dry run")
	case mv.Container != f.Container:
		return refuse(refusal.Denied, "container", f.Container, "is not the one that is to move, %s", mv.Container)
	case mv.Manifest != nil && !mv.Manifest.Same(f):
		return refuse(refusal.Conflict, "manifest", f.Digest, "move %s was granted for another description of %s (%.12s...)", mv.ID, mv.Container, mv.Manifest.Digest)
	case mv.Manifest == nil && now.After(mv.Deadline):
		return refuse(refusal.Conflict, "move", f.Move, "was to be begun before %s", mv.Deadline.Format(time.DateTime))
	}
	return nil
}
