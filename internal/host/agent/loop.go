// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/core/refusal"
)

// loop carries functions into the one goroutine that owns the agent's state.
type loop struct {
	calls chan func()
	ended chan struct{} // closed when that goroutine has ended
}

func newLoop() loop { return loop{calls: make(chan func()), ended: make(chan struct{})} }

// errEnded is the answer of an agent that runs no more.
var errEnded = errors.New("the agent is stopping; try again when it has been started")

// busyAfter is how long a request waits for the agent's goroutine. It is less than the
// server has to write an answer (rest.RequestTimeout), after which the client would see its
// connection end without a word.
const busyAfter = 10 * time.Second

// do has f run in the agent's goroutine and waits for it, for a request. Where that
// goroutine is busy for too long, f does not run.
func (l *loop) do(ctx context.Context, f func()) error {
	return l.await(ctx, f, time.After(busyAfter))
}

// tell is do for what the agent finds out by itself, which has time. The error is the
// agent's end or ctx's.
func (l *loop) tell(ctx context.Context, f func()) error {
	return l.await(ctx, f, nil)
}

func (l *loop) await(ctx context.Context, f func(), tooLong <-chan time.Time) error {
	done := make(chan struct{})
	select {
	case l.calls <- func() { defer close(done); f() }:
		<-done
		return nil
	case <-l.ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	case <-tooLong:
		return &refusal.Error{
			Kind:   refusal.Busy,
			Msg:    fmt.Sprintf("the agent is busy and has not come to this within %v", busyAfter),
			Remedy: "try again; its log says what it does: journalctl -u weir",
		}
	}
}
