// SPDX-License-Identifier: Apache-2.0

package outgoing

import (
	"context"
	"errors"
	"sync"

	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// canceller passes a cancellation on to what a move is doing now: first its pre-flight,
// then its journal.
type canceller struct {
	container string // that moves; "" = a dry run

	mu  sync.Mutex
	do  func(why string) error
	why string // the reason for the cancellation; "" = none was asked for
}

// hand says by what a move can be cancelled from now on. A cancellation that came before
// is passed on.
func (c *canceller) hand(do func(why string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.do = do
	if c.why != "" {
		_ = do(c.why) // nothing is decided this early
	}
}

// ask cancels; the error says why that is not possible any more.
func (c *canceller) ask(why string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.why = why
	if c.do == nil {
		return nil
	}
	return c.do(why)
}

// preflight returns a context for a move's pre-flight, which ends when the move is
// cancelled.
func (c *canceller) preflight(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	c.hand(func(why string) error {
		cancel(errors.New("cancelled: " + why))
		return nil
	})
	return ctx, func() { cancel(nil) }
}

// Cancel calls a move off, or says that it is too late. One that has not begun never
// will: its order may still come.
func (m *Moves) Cancel(c wire.Cancel, stale error) error {
	if stale != nil {
		return nil
	}
	m.mu.Lock()
	last, running := m.open[c.Move], m.cancels[c.Move]
	m.mu.Unlock()
	if last == nil {
		k, known := m.Receipts.Load(c.Move)
		switch {
		case known && k.Report != nil:
			again := *k.Report
			again.Seq = 0
			return m.tell(again)
		case known:
			return nil // resume goes back, or finds that it is too late, and reports
		}
		return m.refuse(wire.Move{ID: c.Move}, "cancelled before it began: "+c.Why)
	}
	m.log.Info("move is to be cancelled", "move", c.Move, "why", c.Why)
	if err := running.ask(c.Why); move.CodeOf(err) == move.CodeRefused {
		now := *last
		now.Cancel = err.Error()
		return m.tell(now)
	}
	return nil // it reports its end
}
