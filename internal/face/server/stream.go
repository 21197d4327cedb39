// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"weir/internal/api"
	"weir/internal/api/rest"
)

// streamWrite is how long a stream's client may take for one sample. Tests shorten it.
var streamWrite = 5 * time.Second

// stream registers the live stream. A client that does not read is cut off after
// streamWrite. Until then the client loses samples and delays no other client, because the
// agent's subscription drops samples that the client does not take.
func (s *Server) stream(h *rest.API) {
	op := huma.Operation{
		Method: http.MethodGet, Path: "/v1/stream", OperationID: "stream",
		Summary:     "One sample a second, as server-sent events",
		Description: "Goes on until the client or the agent ends it.",
		Middlewares: huma.Middlewares{s.limitStreams(h)},
		Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{"text/event-stream": {
			Schema: &huma.Schema{Type: huma.TypeArray, Title: "Server-sent events", Description: "each has one sample as its data", Items: &huma.Schema{
				Type: huma.TypeObject, Required: []string{"data"},
				Properties: map[string]*huma.Schema{"data": h.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Sample](), true, "Sample")},
			}},
		}}}},
	}
	h.Route(&op)
	huma.Register(h.API, op, func(context.Context, *rest.None) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: s.forward}, nil
	})
}

// forward passes samples on until the client leaves or the server closes.
func (s *Server) forward(call huma.Context) {
	ctx, cancel := context.WithCancel(call.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	call.SetHeader("Content-Type", "text/event-stream")
	w, ok := call.BodyWriter().(http.ResponseWriter)
	if !ok {
		return // a writer of tests, which has no connection
	}
	client := http.NewResponseController(w)
	samples := s.agent.Subscribe(ctx)
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return
		case sample, ok := <-samples:
			if !ok || s.send(w, client, sample, first) != nil {
				return
			}
		}
	}
}

// send writes one sample as an event.
func (s *Server) send(w io.Writer, client *http.ResponseController, sample api.Sample, first bool) error {
	text, err := s.encoded.of(sample, first)
	if err != nil {
		return err
	}
	if err := client.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	return client.Flush()
}

// encoder makes events of samples. All streams send the same samples but for their first, so
// each is encoded once: with 1,000 workloads and 20 pages that is most of the work.
type encoder struct {
	mu     sync.Mutex
	recent []encodedSample // the newest last
	made   int             // for tests: how often a sample was encoded
}

// encodedSample is a sample as an event.
type encodedSample struct {
	at   time.Time // of the sample
	text []byte
}

// keptSamples is how many events are kept: streams whose clients are slow lag behind by the 4
// samples that the agent keeps for them, the one that is being written, and the newest.
const keptSamples = 6

// of returns a sample as an event; first says that it is a stream's first one.
func (e *encoder) of(sample api.Sample, first bool) ([]byte, error) {
	if first {
		return serverSent(sampleFor(sample, true))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.recent {
		if r.at.Equal(sample.At) {
			return r.text, nil
		}
	}
	text, err := serverSent(sampleFor(sample, false))
	if err != nil {
		return nil, err
	}
	if len(e.recent) == keptSamples {
		e.recent = slices.Delete(e.recent, 0, 1)
	}
	e.recent = append(e.recent, encodedSample{sample.At, text})
	e.made++
	return text, nil
}

func serverSent(sample api.Sample) ([]byte, error) {
	text, err := json.Marshal(sample)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte("data: "), text, []byte("\n\n")), nil
}

// limitStreams bounds how many streams run at once, of each user and of all with a role, and
// takes the deadline for reading off them: a stream's client has nothing more to say.
func (s *Server) limitStreams(h *rest.API) func(huma.Context, func(huma.Context)) {
	changers, viewers := rest.RequestSlots{Each: userStreams, All: maxStreams}, rest.RequestSlots{Each: userStreams, All: maxStreams}
	return func(ctx huma.Context, next func(huma.Context)) {
		slots := &changers
		if rest.Viewer(ctx.Context()) { // a caller with the role view must not fill the stream for the others
			slots = &viewers
		}
		leave, ok := slots.Enter(h.Author(ctx.Context()))
		if !ok {
			// The answer is all that can be done; huma logs if it cannot be given.
			_ = huma.WriteErr(h, ctx, http.StatusServiceUnavailable, "too many streams are open; close one")
			return
		}
		defer leave()
		if err := ctx.SetReadDeadline(time.Time{}); err != nil {
			s.log.Debug("stream keeps its read deadline", "err", err)
		}
		next(ctx)
	}
}
