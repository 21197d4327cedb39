// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/base/retry"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

const (
	firstPause    = 100 * time.Millisecond
	longestPause  = 2 * time.Second
	leaseMargin   = 5 * time.Second  // for a target whose clock, or whose engine, is slow
	discardTries  = 3 * time.Second  // for which the target is asked to clean up before Run returns
	confirmWindow = 15 * time.Second // of one call
)

// confirm asks the target to keep its copy until it answers. Its answer decides: it
// has it for good, or the copy is gone and the source goes on.
func (m *run) confirm(ctx context.Context) (Result, error) {
	if err := m.journal.decide(); err != nil {
		return m.back(ctx, err)
	}
	err := m.until(ctx, func(ctx context.Context) (bool, error) {
		err := m.try(ctx, m.target, move.Confirm, confirmWindow)
		if move.CodeOf(err) == move.CodeDone { // an answer was lost
			err = nil
		}
		return err == nil || move.CodeOf(err) == move.CodeGone, err
	})
	switch {
	case move.CodeOf(err) == move.CodeGone:
		return m.back(ctx, err)
	case err != nil:
		return m.result, fmt.Errorf("%s does not answer whether it has %s: %w", m.To, m.Container.Name, err)
	}
	m.runs()
	if err := m.journal.Append(JournalEntry{Kind: KindConfirmed, Downtime: m.result.Downtime}); err != nil {
		return m.result, err
	}
	return m.forget(ctx)
}

// runs records the downtime: for how long neither copy ran.
func (m *run) runs() {
	if !m.frozen.IsZero() {
		m.result.Downtime, m.frozen = time.Since(m.frozen), time.Time{}
	}
}

// forget cleans up the source.
func (m *run) forget(ctx context.Context) (Result, error) {
	err := m.until(ctx, func(ctx context.Context) (bool, error) {
		err := m.try(ctx, m.source, move.Forget, stepTimeout)
		return err == nil || move.CodeOf(err) == move.CodeRefused, err
	})
	if move.CodeOf(err) == move.CodeRefused {
		m.result.Warning = err.Error()
		return m.over(wire.MoveFailed)
	}
	if err != nil {
		return m.result, fmt.Errorf("%s: clean up after %s: %w", m.From, m.Container.Name, err)
	}
	return m.over(wire.MoveDone)
}

// back has the source go on. While the target may be about to restore its copy, that
// copy goes first: by the target's word, or by its probation's end, after which it is
// not restored any more. A copy that is restored by then is held, and no node will
// release it.
func (m *run) back(ctx context.Context, why error) (Result, error) {
	if m.result.Err == "" {
		m.result.Err = why.Error()
	}
	m.note(JournalEntry{Kind: KindRollback, Err: why.Error()})
	// What was asked for is over; what has to be done now is done even if the caller
	// gives up, for a while.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(m.Lease, stepTimeout)+leaseMargin)
	defer cancel()
	discarded := false
	if since := m.journal.restoring(); !since.IsZero() {
		over := since.Add(m.Lease + leaseMargin)
		err := m.until(ctx, func(ctx context.Context) (bool, error) {
			limit, cancel := context.WithDeadline(ctx, later(over, time.Now().Add(time.Second)))
			defer cancel()
			err := m.discard(limit)
			return err == nil || move.CodeOf(err) == move.CodeRefused || time.Now().After(over), err
		})
		if move.CodeOf(err) == move.CodeRefused {
			// It was confirmed after all, in a life of this journal that was lost.
			m.runs()
			m.note(JournalEntry{Kind: KindConfirmed, Downtime: m.result.Downtime, Err: err.Error()})
			return m.forget(ctx)
		}
		discarded = err == nil
		if !discarded && time.Now().Before(over) {
			return m.result, fmt.Errorf("%s does not answer whether it has ended its copy of %s: %w", m.To, m.Container.Name, err)
		}
	}
	err := m.until(ctx, func(ctx context.Context) (bool, error) {
		err := m.try(ctx, m.source, move.Thaw, stepTimeout)
		return err == nil, err
	})
	if err != nil {
		return m.result, fmt.Errorf("%s: bring %s back: %w", m.From, m.Container.Name, err)
	}
	m.runs()
	m.note(JournalEntry{Kind: KindThawed, Downtime: m.result.Downtime})
	if discarded {
		return m.over(wire.MoveRolledBack)
	}
	return m.discardLater(ctx)
}

// discard asks the target to remove its copy. One that is gone already, or never was,
// is removed.
func (m *run) discard(ctx context.Context) error {
	err := m.try(ctx, m.target, move.Discard, stepTimeout)
	if code := move.CodeOf(err); code == move.CodeGone || code == move.CodeDone {
		return nil
	}
	return err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// discardLater cleans up a target that has no copy that runs. If it cannot be reached
// now, the journal stays unfinished, which does no harm.
func (m *run) discardLater(ctx context.Context) (Result, error) {
	limited, cancel := context.WithTimeout(ctx, discardTries)
	defer cancel()
	err := m.until(limited, func(context.Context) (bool, error) {
		err := m.discard(ctx)
		return err == nil || move.CodeOf(err) == move.CodeRefused, err
	})
	if err != nil {
		m.result.State = wire.MoveRolledBack
		m.result.Warning = fmt.Sprintf("its copy on %s is still there: %v", m.To, err)
		return m.result, nil
	}
	return m.over(wire.MoveRolledBack)
}

// over writes the end down.
func (m *run) over(s wire.MoveState) (Result, error) {
	m.result.State, m.result.Duration = s, time.Since(m.began)
	m.note(JournalEntry{Kind: KindEnd, State: s, Downtime: m.result.Downtime, Err: m.result.Err, Duration: m.result.Duration})
	return m.result, nil
}

// note appends a record, and goes on if it cannot: a full disk must not keep a
// container from coming back.
func (m *run) note(r JournalEntry) {
	if err := m.journal.Append(r); err != nil && m.result.Warning == "" {
		m.result.Warning = err.Error()
	}
}

// try takes a step as do does, but without insisting on the journal.
func (m *run) try(ctx context.Context, n Node, step move.Step, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, err := m.tell(n, string(step), func() (StepOutcome, error) { return n.Do(ctx, step, m.MoveSpec) })
	if r.Outcome.Note != "" && step == move.Thaw {
		m.result.Warning = r.Outcome.Note
	}
	m.note(r)
	return err
}

// until repeats f with growing pauses until it is settled or ctx ends.
func (m *run) until(ctx context.Context, f func(context.Context) (settled bool, err error)) error {
	for pauses := retry.New(firstPause, longestPause); ; {
		settled, err := f(ctx)
		if settled {
			return err
		}
		if !pauses.Wait(ctx) {
			return errors.Join(err, ctx.Err())
		}
	}
}
