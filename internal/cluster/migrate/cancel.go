// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"sync"

	"weir/internal/cluster/move"
)

// decision is the point of no return of a migration. Cancel and the record KindConfirm
// exclude each other: the one that comes first wins.
type decision struct {
	mu        sync.Mutex
	confirmed bool
	cancelled error
	stop      context.CancelCauseFunc // ends the steps before the decision; nil while none is taken
}

// Cancel has the migration go back to its source, unless the target was told to keep its copy. It
// may be called from any goroutine, more than once, and returns at once. What it asks
// for need not be written down: an agent that dies before the decision goes back anyway.
func (j *Journal) Cancel(why string) error {
	d := &j.decision
	d.mu.Lock()
	defer d.mu.Unlock()
	c := move.Question{By: move.Source, Step: move.Cancel}
	c.Note(d.confirmed, move.Decided)
	if _, err := c.Take(); err != nil {
		return err
	}
	if d.cancelled == nil {
		d.cancelled = fmt.Errorf("cancelled: %s", why)
	}
	if d.stop != nil {
		d.stop(d.cancelled)
	}
	return nil
}

// cancellable returns the context of the steps before the decision.
func (j *Journal) cancellable(ctx context.Context) (context.Context, context.CancelFunc) {
	d := &j.decision
	d.mu.Lock()
	defer d.mu.Unlock()
	ctx, stop := context.WithCancelCause(ctx)
	if d.cancelled != nil {
		stop(d.cancelled)
	}
	d.stop = stop
	return ctx, func() { stop(nil) }
}

// cancelled is why the migration was cancelled, nil if it was not.
func (j *Journal) cancelled() error {
	j.decision.mu.Lock()
	defer j.decision.mu.Unlock()
	return j.decision.cancelled
}

// decide writes down that the target's copy is to be the one, once. An error means that
// the migration goes back: that cannot happen after the record was written.
func (j *Journal) decide() error {
	d := &j.decision
	d.mu.Lock()
	if d.confirmed {
		d.mu.Unlock()
		return nil
	}
	if d.cancelled != nil {
		defer d.mu.Unlock()
		return d.cancelled
	}
	d.confirmed = true
	d.mu.Unlock()
	err := j.Append(JournalEntry{Kind: KindConfirm})
	if err != nil {
		d.mu.Lock()
		d.confirmed = false
		d.mu.Unlock()
	}
	return err
}
