// SPDX-License-Identifier: Apache-2.0

package web

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/base/audit"
)

// TestStrangersGetNothing: no token, a wrong, altered or expired one, another name of the
// host, a page of another origin and a path out of the files are refused.
func TestStrangersGetNothing(t *testing.T) {
	s, err := NewSessions(filepath.Join(t.TempDir(), "web.key"), Agent)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	s.now = func() time.Time { return now }
	served := 0
	srv := httptest.NewServer(Handler(Options{Program: Agent, Sessions: s, API: func(http.ResponseWriter, *http.Request, Session, audit.Who) { served++ }}))
	defer srv.Close()
	code, _ := s.Link(User{Role: "change", Name: "alice"})
	token, _, no := s.Open(code)
	if no != nil {
		t.Fatal(no)
	}
	if _, _, no := s.Open(code); no == nil {
		t.Error("a link opened twice")
	}
	late, _ := s.Link(User{Role: "view"})
	now = now.Add(linkTime + time.Second)
	if _, _, no := s.Open(late); no == nil {
		t.Error("an expired link was opened")
	}
	again, err := NewSessions(s.file, Agent) // the agent was restarted
	if err != nil {
		t.Fatal(err)
	}
	if session, no := again.Check(token); no != nil || session.Name != "alice" {
		t.Errorf("after a restart: %v, %+v", no, session)
	}
	ask := func(path, token string, header ...string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.URL.Opaque = path
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
			if header[i] == "Host" {
				req.Host = header[i+1]
			}
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.Header.Get("X-Frame-Options") != "DENY" || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") ||
			strings.Contains(resp.Header.Get("Content-Security-Policy"), "unsafe") {
			t.Errorf("%s: headers %v", path, resp.Header)
		}
		return resp
	}
	for _, c := range []struct {
		what, path, token string
		header            []string
		want              int
	}{
		{"no token", "/v1/status", "", nil, 401},
		{"who is signed in", "/session", "", nil, 204},
		{"wrong", "/v1/status", "abc", nil, 401},
		{"wrong, of a session", "/session", "abc", nil, 401},
		{"altered", "/v1/status", "A" + token[1:] + "A", nil, 401},
		{"another name", "/v1/status", token, []string{"Host", "evil.example"}, 403},
		{"another name, files", "/", "", []string{"Host", "evil.example:7480"}, 403},
		{"another origin", "/v1/status", token, []string{"Origin", "http://127.0.0.1:9"}, 403},
		{"cross-site", "/v1/status", token, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another port of the host", "/v1/status", token, []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"framed", "/", "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403},
		{"link on another page", "/", "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 200},
		{"a link from within a session", "/v1/web", token, nil, 403},
		{"traversal", "/uplot/%2e%2e/%2e%2e/web.key", "", nil, 404},
		{"a file that is not served", "/uplot/LICENSE", "", nil, 404},
	} {
		if got := ask(c.path, c.token, c.header...).StatusCode; got != c.want {
			t.Errorf("%s: status %d, want %d", c.what, got, c.want)
		}
	}
	if served != 0 {
		t.Fatalf("%d of them reached the API", served)
	}
	if got := ask("/v1/status", token).StatusCode; got != 200 || served != 1 {
		t.Errorf("the right token: status %d, served %d", got, served)
	}
	now = now.Add(SessionTime)
	if got := ask("/v1/status", token).StatusCode; got != 401 {
		t.Errorf("expired: status %d", got)
	}
	now = now.Add(-SessionTime)
	if err := s.EndAll(); err != nil {
		t.Fatal(err)
	}
	if got := ask("/v1/status", token).StatusCode; got != 401 {
		t.Errorf("after the end of all sessions: status %d", got)
	}
}

// TestSlowClients: of 1,500 connections that send nothing, no more than its part stay,
// and a browser is served beside them.
func TestSlowClients(t *testing.T) {
	s, err := NewSessions(filepath.Join(t.TempDir(), "web.key"), Agent)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	crowd := NewCrowd(ln, slog.New(slog.NewTextHandler(io.Discard, nil)))
	srv := &http.Server{Handler: Handler(Options{Program: Agent, Sessions: s}), ConnContext: ConnContext, ReadHeaderTimeout: time.Minute}
	go srv.Serve(crowd)
	defer srv.Close()
	for range 1500 {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	resp, err := http.Get("http://" + ln.Addr().String() + "/")
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v, %v", err, resp)
	}
	resp.Body.Close()
	if n, _ := crowd.Open(); n > most.Unknown {
		t.Errorf("%d connections stay", n)
	}
}

// TestPageWeight: all files together are at most 200 kB as they are sent.
func TestPageWeight(t *testing.T) {
	sum := 0
	for _, f := range allFiles() {
		sum += len(f.packed)
	}
	t.Logf("%d bytes", sum)
	if sum == 0 || sum > 200_000 {
		t.Errorf("%d bytes", sum)
	}
}
