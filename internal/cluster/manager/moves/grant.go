// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"cmp"
	"errors"
	"time"

	"weir/internal/cluster/move"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// kinds are those of refusals by their reason; of all others it is a conflict.
var kinds = map[string]refusal.Kind{move.WhyForeign: refusal.Denied, move.WhyTurn: refusal.Busy}

// refused returns what becomes of the answer of the table for a caller of the manager.
func refused(id string, err error, remedy string) error {
	var no *move.Denied
	if !errors.As(err, &no) {
		return err
	}
	return &refusal.Error{Kind: cmp.Or(kinds[no.Reason], refusal.Conflict), Field: "move", Value: id, Msg: no.Answer.Msg, Remedy: remedy}
}

// Grantable says why a move, nil = one that is not known, gets no grant for what its
// source describes; nil if it gets one. A source whose move was ordered by a manager that was
// then restored from a snapshot of before asks again until the move's turn has come.
func Grantable(mv *Move, node string, f wire.Manifest, now time.Time) error {
	if err := f.Check(); err != nil {
		return &refusal.Error{Kind: refusal.Invalid, Field: "manifest", Value: f.Move, Msg: err.Error(), Remedy: "run the same Weir on manager and nodes"}
	}
	c := move.Question{By: move.Manager, Step: move.Grant, Container: f.Container, Node: node, Facts: move.Foreign}
	if mv != nil {
		c.Facts, c.Deadline = 0, mv.Deadline
		c.Note(mv.From != node || f.Node != node || mv.Container != f.Container, move.Foreign)
		c.Note(mv.State == wire.MoveWaiting, move.Waiting)
		c.Note(mv.DryRun, move.DryRun)
		c.Note(mv.Manifest != nil, move.Known)
		c.Note(mv.Manifest != nil && !mv.Manifest.Same(f), move.Other)
		c.Note(now.After(mv.Deadline), move.Late)
		mv.end(&c)
	}
	_, err := c.Take()
	return refused(f.Move, err, "weir moves shows what is under way; order it again: weir migrate")
}

// Cancellable says why a move cannot be cancelled any more.
func (m *Move) Cancellable() error {
	c := move.Question{By: move.Manager, Step: move.Cancel}
	m.end(&c)
	_, err := c.Take()
	return refused(m.ID, err, "")
}

// end notes how the move has ended.
func (m *Move) end(c *move.Question) {
	if m.State.Final() {
		c.State = move.ContainerState(m.State)
	}
}
