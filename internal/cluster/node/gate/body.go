// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"io"
	"net/http"
	"time"
)

// Slots bounds how many do something at once: as many as its capacity.
type Slots chan struct{}

// Take waits for a slot, or for the end of ctx.
func (s Slots) Take(ctx context.Context) (done func(), err error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Arrived ends the time that a request has to come in: all of it is there.
func Arrived(w http.ResponseWriter) { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }

// body reads a body. It fails when nothing comes for too long, and when ctx ends.
type body struct {
	ctx     context.Context
	r       io.Reader
	control *http.ResponseController
	stall   time.Duration
}

// NewBody returns a reader of a request's body that fails when nothing comes for too long,
// and has the end of ctx wake it where it waits. over is to be called when nothing is read any
// more.
func NewBody(ctx context.Context, w http.ResponseWriter, r io.Reader, stall time.Duration) (b io.Reader, over func()) {
	p := &body{ctx, r, http.NewResponseController(w), stall}
	stop := context.AfterFunc(ctx, func() { _ = p.control.SetReadDeadline(time.Now()) })
	return p, func() {
		if stop() {
			Arrived(w)
		}
	}
}

func (p *body) Read(b []byte) (int, error) {
	if err := p.control.SetReadDeadline(time.Now().Add(p.stall)); err != nil {
		return 0, err
	}
	if p.ctx.Err() != nil { // after the deadline is set, or it would undo the wake
		return 0, context.Cause(p.ctx)
	}
	n, err := p.r.Read(b)
	if err != nil && p.ctx.Err() != nil {
		err = context.Cause(p.ctx)
	}
	return n, err
}
