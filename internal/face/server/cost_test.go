// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"weir/internal/base/crowd/crowdtest"
	"weir/internal/face/server/page"
)

// TestWhatRefusalsCost: a request that is refused because of who asks costs little, on every
// route of the view socket and of the page, and none of its body is read.
func TestWhatRefusalsCost(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a socket to a group")
	}
	s, _ := startWith(t, demo(), Options{Group: "weir", ViewGroup: viewGroup, Web: page.Config{Listen: []string{"127.0.0.1:0"}, Key: t.TempDir() + "/web.key"}})
	reading, site := s.rest.Reading(s.opts.Socket, s.opts.Group), s.page.Handler()
	refused := func(h http.Handler, what string, q crowdtest.RefusedRequest, status int) {
		t.Helper()
		crowdtest.Refused(t, h, what, q, status, true)
	}
	for _, op := range documented(t, s.Handler()) {
		path := strings.ReplaceAll(op.path, "{name}", "web")
		q := crowdtest.RefusedRequest{Method: op.method, Path: path, Body: crowdtest.Long}
		if op.Role == "change" {
			refused(reading, "a viewer", q, http.StatusForbidden)
		}
		if !strings.HasPrefix(path, "/v1/") {
			continue
		}
		for what, c := range map[string]struct {
			with   func(*http.Request)
			status int
		}{
			"no token": {func(r *http.Request) { r.Host = "localhost" }, http.StatusUnauthorized},
			"a wrong token": {func(r *http.Request) {
				r.Host = "localhost"
				r.Header.Set("Authorization", "Bearer "+strings.Repeat("A", 8<<10))
			}, http.StatusUnauthorized},
			"another name":      {func(r *http.Request) { r.Host = "evil.example" }, http.StatusForbidden},
			"a page of another": {func(r *http.Request) { r.Host = "localhost"; r.Header.Set("Origin", "https://evil.example") }, http.StatusForbidden},
		} {
			refused(site, what, crowdtest.RefusedRequest{Method: op.method, Path: path, Body: crowdtest.Long, With: c.with}, c.status)
		}
	}
	crowdtest.Refused(t, site, "no link", crowdtest.RefusedRequest{Method: http.MethodPost, Path: "/session", Body: crowdtest.Long,
		With: func(r *http.Request) { r.Host = "localhost" }}, http.StatusUnauthorized, false)
}

// documented returns the routes of an API that is served without a socket.
func documented(t *testing.T, h http.Handler) []operation {
	t.Helper()
	srv := httptest.NewServer(h)
	defer srv.Close()
	return operations(t, &http.Client{Transport: toServer{srv.URL}})
}

// toServer sends all requests to one server.
type toServer struct{ url string }

func (s toServer) RoundTrip(r *http.Request) (*http.Response, error) {
	to, err := http.NewRequestWithContext(r.Context(), r.Method, s.url+r.URL.Path, r.Body)
	if err != nil {
		return nil, err
	}
	return http.DefaultTransport.RoundTrip(to)
}
