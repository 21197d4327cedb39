// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"sync"

	"weir/internal/cluster/migrate/pack"
)

// Allowance bounds what the layers of one move may unpack to, all together, on the node
// that pulls them. A manifest says how large they are packed, and an engine unpacks
// whatever comes: so they are counted on their way to it, and one that exceeds the
// allowance never comes to its end.
type Allowance struct {
	contents pack.Contents

	mu      sync.Mutex
	counted map[string]bool   // by digest
	refused map[string]string // why, by digest
}

// NewAllowance allows so many bytes.
func NewAllowance(bytes int64) *Allowance {
	return &Allowance{contents: pack.Contents{Limits: pack.StreamBounds{Bytes: bytes, Entries: math.MaxInt64}, Packed: true},
		counted: map[string]bool{}, refused: map[string]string{}}
}

type allowanceKey struct{}

// With gives a request's context the allowance of its sender.
func (a *Allowance) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, allowanceKey{}, a)
}

// Watch returns a transport that holds the layers pulled through it to the
// allowance of each request.
func Watch(t http.RoundTripper) http.RoundTripper { return watching{t} }

type watching struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (w watching) RoundTrip(q *http.Request) (*http.Response, error) {
	a, _ := q.Context().Value(allowanceKey{}).(*Allowance)
	request, ok := Parse(q)
	if a == nil || !ok || request.Kind != Blob || request.Method != http.MethodGet {
		return w.RoundTripper.RoundTrip(q)
	}
	if why := a.refusal(request.Reference); why != "" {
		return refusedPull(q, why), nil
	}
	q = q.Clone(q.Context())
	q.Header.Del("Range") // a piece of a layer cannot be unpacked
	resp, err := w.RoundTripper.RoundTrip(q)
	if err == nil && resp.StatusCode == http.StatusOK {
		resp.Body = a.watch(request.Reference, resp.Body)
	}
	return resp, err
}

func (a *Allowance) refusal(digest string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused[digest]
}

// watch counts a layer, once.
func (a *Allowance) watch(digest string, layer io.ReadCloser) io.ReadCloser {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counted[digest] {
		return layer
	}
	return &pulled{ReadCloser: a.contents.Watch(layer), allowance: a, digest: digest}
}

// pulled is a layer on its way.
type pulled struct {
	io.ReadCloser
	allowance *Allowance
	digest    string
}

func (p *pulled) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if err == nil {
		return n, nil
	}
	a := p.allowance
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case errors.Is(err, io.EOF):
		a.counted[p.digest] = true
	case errors.Is(err, pack.ErrTooLarge) || errors.Is(err, pack.ErrNoLayer):
		a.refused[p.digest] = err.Error() // what the engine is told when it tries again
	}
	return n, err
}

// refusedPull returns an answer after which an engine does not try again, and whose
// text it hands on.
func refusedPull(q *http.Request, why string) *http.Response {
	text, err := json.Marshal(map[string]any{"errors": []map[string]string{{"code": "DENIED", "message": "layer " + q.URL.Path[len(q.URL.Path)-64:][:12] + ": " + why}}})
	if err != nil {
		text = nil // a map of strings has a JSON
	}
	return &http.Response{StatusCode: http.StatusForbidden, Status: http.StatusText(http.StatusForbidden), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: q,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text))}
}
