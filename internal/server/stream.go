// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/sse"

	"weir/internal/api"
	"weir/internal/server/rest"
)

// stream registers the live stream. sse.WriteTimeout cuts off a client that does not
// read. Until then the client loses samples and delays no other client, because the
// agent's subscription drops samples that the client does not take.
func (s *Server) stream(h *rest.API) {
	op := huma.Operation{
		Method: http.MethodGet, Path: "/v1/stream", OperationID: "stream",
		Summary:     "One sample a second, as server-sent events",
		Description: "Goes on until the client or the agent ends it.",
		Middlewares: huma.Middlewares{s.limitStreams(h)},
	}
	h.Route(&op)
	sse.Register(h.API, op, map[string]any{"message": api.Sample{}}, s.forward)
}

// forward passes samples on until the client leaves or the server closes.
func (s *Server) forward(ctx context.Context, _ *rest.None, send sse.Sender) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	samples := s.agent.Subscribe(ctx)
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return
		case sample, ok := <-samples:
			if !ok || send.Data(sampleFor(sample, first)) != nil {
				return
			}
		}
	}
}

// limitStreams bounds how many streams run at once and takes the deadline for
// reading off them: a stream's client has nothing more to say.
func (s *Server) limitStreams(h *rest.API) func(huma.Context, func(huma.Context)) {
	changers, viewers := make(chan struct{}, maxStreams), make(chan struct{}, maxStreams)
	return func(ctx huma.Context, next func(huma.Context)) {
		slots := changers
		if rest.Viewer(ctx.Context()) { // a caller with the role view must not fill the stream for the others
			slots = viewers
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			// The answer is all that can be done; huma logs if it cannot be given.
			_ = huma.WriteErr(h, ctx, http.StatusServiceUnavailable, "too many streams are open; close one")
			return
		}
		if err := ctx.SetReadDeadline(time.Time{}); err != nil {
			s.log.Debug("stream keeps its read deadline", "err", err)
		}
		next(ctx)
	}
}
