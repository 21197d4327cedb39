// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// untouched is a body that notes whether it is read.
type untouched struct {
	io.Reader
	read bool
}

func (u *untouched) Read(p []byte) (int, error) {
	u.read = true
	return u.Reader.Read(p)
}

// brackets is a body whose queues are nested so many levels deep, in a text that a parser
// of YAML would read.
func brackets(levels int) string {
	return `{"node":"a","id":"p","container":"c","min_bps":1,"refusal":"","change":{"queues":"` + strings.Repeat("[", levels) + `"}}`
}

// stranger makes a request without a certificate of the cluster.
func stranger(ctx context.Context, h http.Handler, method, path string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, path, body)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestStrangersBodiesAreNotRead: a request without a certificate of the cluster is refused
// before its body is read, on every route but the two by which a node becomes a member.
func TestStrangersBodiesAreNotRead(t *testing.T) {
	w := newWalk(t)
	h := w.nodesHandler()
	for _, path := range []string{"/v1/places", "/v1/grants", "/v1/members", "/v1/info", "/openapi.json", "/openapi-3.0.yaml", "/v1/unknown", "/", imagesPath, imagesPath + "weir-move/blobs/uploads/"} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect, "BREW"} {
			body := &untouched{Reader: strings.NewReader(brackets(12 << 10))}
			rec := stranger(t.Context(), h, method, path, body)
			if rec.Code != http.StatusForbidden || body.read || rec.Body.Len() > 1<<10 {
				t.Errorf("%s %s: status %d, body read: %v, an answer of %d bytes", method, path, rec.Code, body.read, rec.Body.Len())
			}
		}
	}
}
