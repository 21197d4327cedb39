// SPDX-License-Identifier: Apache-2.0

package incoming

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/cluster/node/guest"
	"weir/internal/core/wire"
)

// taken is a step or a part of a guest that has begun. done must be called.
type taken struct {
	ctx   context.Context // ends when a discard wants it to
	order migrate.MoveSpec
	done  func(err error, note func(*guest.Arrival)) error // says what came of it
}

// take begins a step or a part of a guest, if it is its time. A guest has one of them
// under way at a time; a discard cancels that one, waits for its end, and lets nothing
// begin meanwhile.
func (g *guests) take(ctx context.Context, grant wire.Grant, step move.Step, part string, now time.Time) (t taken, err error) {
	v := g.find(grant.Move)
	if v == nil {
		c := move.Question{By: move.Target, Step: step, Part: part, Move: grant.Move, Facts: move.Unknown}
		c.Note(g.files.Damaged(grant.Move), move.Damaged)
		_, err := c.Take()
		return t, err
	}
	defer v.mu.Unlock()
	err = v.May(step, part, grant)
	if err == nil && step == move.Discard {
		if err = v.clear(ctx); err == nil {
			err = v.May(step, part, grant)
		}
	}
	if err == nil {
		t.order, err = g.described(ctx, v)
	}
	if err != nil {
		return t, err
	}
	switch {
	case v.leaving > 0:
		return t, v.discarding()
	case v.doing != nil:
		return t, v.underWay()
	}
	next := v.Clone()
	next.Heard = now.UTC()
	if step == move.Restore {
		next.Tried = true // the files are not to change under it: on the disk before it begins
		if err := g.put(v, next); err != nil {
			return t, err
		}
	}
	v.Arrival = next
	t.ctx = v.begin(ctx, (&move.Question{Step: step, Part: part}).What())
	t.done = func(err error, note func(*guest.Arrival)) error { return g.done(v, err, note) }
	return t, nil
}

// described returns the order of a guest under way. Its lock is held.
func (g *guests) described(ctx context.Context, v *entry) (migrate.MoveSpec, error) {
	p, err := g.proposal(ctx, v)
	if errors.Is(err, fs.ErrNotExist) {
		err = move.Deny(move.WhyUnknown, move.CodeFailed, "the description of %s is not on this node's disk any more", v.Grant.Container)
	}
	return p.Order, err
}

// clear ends the step or part under way, for a discard. The lock is held, and released
// while clear waits.
func (v *entry) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, discardWait)
	defer cancel()
	v.leaving++
	defer func() { v.leaving-- }()
	for v.doing != nil {
		task := v.doing
		if task.what == string(move.Confirm) || task.what == string(move.Discard) || ctx.Err() != nil {
			return v.underWay()
		}
		task.cancel()
		v.mu.Unlock()
		select {
		case <-task.ended:
		case <-ctx.Done():
		}
		v.mu.Lock()
	}
	return nil
}

// begin notes the step or part that is under way from now on. The lock is held.
func (v *entry) begin(ctx context.Context, what string) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	v.doing = &task{what: what, cancel: cancel, ended: make(chan struct{})}
	return ctx
}

// done notes the end of what was under way. What a discard waits for counts as not done.
func (g *guests) done(v *entry, err error, note func(*guest.Arrival)) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.doing.cancel()
	close(v.doing.ended)
	v.doing = nil
	switch {
	case v.leaving > 0:
		return errors.Join(v.discarding(), err)
	case err != nil:
		return err
	}
	next := v.Clone()
	note(&next)
	return g.put(v, next)
}

func (v *entry) discarding() error {
	return move.Deny(move.WhyNotStep, move.CodeGone, "the copy of %s is being discarded", v.Grant.Container)
}

// underWay is no definite answer: the caller may ask again.
func (v *entry) underWay() error {
	return fmt.Errorf("%s of move %s is under way; ask again when it has ended", v.doing.what, v.Grant.Move)
}
