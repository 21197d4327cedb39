// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// sharedFor is how old an answer may be that requests share.
const sharedFor = 500 * time.Millisecond

// Shared adds a route like Get, for a long list that many pages ask for again and again. What
// it answers is made at most once in sharedFor, and is never older than the last change that
// was asked of this API: who changes something sees it.
func Shared[O any](a *API, path, id, summary string, call func(context.Context) (O, error)) {
	s := &shared{changes: &a.changes}
	Register(a, huma.Operation{Method: http.MethodGet, Path: path, OperationID: id, Summary: summary,
		Middlewares: huma.Middlewares{s.answer}},
		func(ctx context.Context, _ *None) (O, error) { return call(ctx) })
}

// shared is the last answer of one route.
type shared struct {
	changes *atomic.Uint64 // that were asked of the API

	mu          sync.Mutex
	made        time.Time
	after       uint64 // changes
	body        []byte
	contentType string
}

// answer surrounds the route.
func (s *shared) answer(ctx huma.Context, next func(huma.Context)) {
	if url := ctx.URL(); url.RawQuery != "" { // the route refuses it
		next(ctx)
		return
	}
	body, contentType := s.take(ctx, next)
	restart(ctx.Context()) // it may have waited for the one that was made
	if contentType != "" {
		ctx.SetHeader("Content-Type", contentType)
		ctx.SetStatus(http.StatusOK)
	}
	_, _ = ctx.BodyWriter().Write(body) // fails where the client has gone
}

// take returns the body of the answer: the last one, with its type, or that of the route, which
// has begun the answer then.
func (s *shared) take(ctx huma.Context, next func(huma.Context)) (body []byte, contentType string) {
	asked := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	now, changes := time.Now(), s.changes.Load()
	// What was begun after it was asked for is new, however long it took.
	if s.body != nil && s.after == changes && asked.Sub(s.made) < sharedFor {
		return s.body, s.contentType
	}
	c := &capture{under: ctx}
	next(c)
	if c.Status() == http.StatusOK {
		s.made, s.after, s.body, s.contentType = now, changes, c.body.Bytes(), c.contentType
	}
	return c.body.Bytes(), ""
}

// capture keeps the body of an answer.
type capture struct {
	under
	body        bytes.Buffer
	contentType string
}

// SetHeader implements huma.Context.
func (c *capture) SetHeader(name, value string) {
	if name == "Content-Type" {
		c.contentType = value
	}
	c.under.SetHeader(name, value)
}

// BodyWriter implements huma.Context.
func (c *capture) BodyWriter() io.Writer { return &c.body }
