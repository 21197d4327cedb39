// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/base/audit"
)

func uid(n uint32) *uint32 { return &n }

// TestLinksOfOneUser: a user who asks for many links drops own ones, and those who may only
// look drop no link of those who may change something, however many users they are.
func TestLinksOfOneUser(t *testing.T) {
	s := newSessions(t)
	root, _ := s.Link(User{Role: "change", UID: uid(0)})
	viewer, _ := s.Link(User{Role: "view", UID: uid(1001)})
	var mine []string
	for range 100 {
		code, _ := s.Link(User{Role: "view", UID: uid(1002)})
		mine = append(mine, code)
	}
	if _, _, no := s.Open(viewer); no != nil {
		t.Errorf("the link of another viewer: %v", no)
	}
	for i, code := range mine {
		if _, _, no := s.Open(code); (no == nil) != (i >= len(mine)-maxLinks) {
			t.Errorf("link %d: %v", i, no)
		}
	}
	for i := range uint32(10 * maxAllLinks) {
		s.Link(User{Role: "view", UID: uid(100000 + i)})
	}
	if len(s.links) > maxAllLinks+1 {
		t.Errorf("%d links", len(s.links))
	}
	if _, _, no := s.Open(root); no != nil {
		t.Errorf("root's link: %v", no)
	}
}

func newSessions(t *testing.T) *Sessions {
	t.Helper()
	s, err := NewSessions(filepath.Join(t.TempDir(), "web.key"), Agent)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRequestsEndWithTheirSession: a request that goes on, such as a stream, ends when all
// sessions are ended, when its session has come to its end, and soon after its user has left
// the group; and the token counts no more.
func TestRequestsEndWithTheirSession(t *testing.T) {
	for what, end := range map[string]struct {
		do   func(t *testing.T, s *Sessions, member *bool)
		soon time.Duration
	}{
		"weir web --end": {func(t *testing.T, s *Sessions, _ *bool) {
			if err := s.EndAll(); err != nil {
				t.Error(err)
			}
		}, time.Millisecond},
		"the end of the session": {func(*testing.T, *Sessions, *bool) { time.Sleep(SessionTime) }, time.Second},
		"the group is left":      {func(_ *testing.T, _ *Sessions, member *bool) { *member = false }, rightsAge + time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, member := newSessions(t), true
				s.rights.lookup = func(id uint32, group string) bool { return member && id == 1000 && group == "weir" }
				ended := make(chan struct{})
				page := Handler(Options{Program: Agent, Sessions: s, API: func(_ http.ResponseWriter, r *http.Request, _ Session, _ audit.Who) {
					if r.URL.Path == "/v1/stream" {
						<-r.Context().Done()
						close(ended)
					}
				}})
				code, _ := s.Link(s.NewUser(User{Role: "change", UID: uid(1000), Name: "alice"}, "weir"))
				token, session, no := s.Open(code)
				if no != nil || session.Group != "weir" {
					t.Fatalf("%v, %+v", no, session)
				}
				ask := func(path string) int {
					r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
					r.Header.Set("Authorization", "Bearer "+token)
					w := httptest.NewRecorder()
					page.ServeHTTP(w, r)
					return w.Code
				}
				go ask("/v1/stream")
				time.Sleep(time.Minute)
				if status := ask("/v1/status"); status != http.StatusOK {
					t.Errorf("status %d during the session", status)
				}
				select {
				case <-ended:
					t.Fatal("it ended with its session under way")
				default:
				}
				end.do(t, s, &member)
				time.Sleep(end.soon)
				select {
				case <-ended:
				default:
					t.Error("the request goes on")
				}
				if status := ask("/v1/status"); status != http.StatusUnauthorized {
					t.Errorf("status %d after the session", status)
				}
				_ = s.EndAll() // ends what goes on, if the test has failed
			})
		})
	}
}

// TestGroupsOfThisHost: root is in its group, and a user who is not there is in none; such a
// session lasts to its end.
func TestGroupsOfThisHost(t *testing.T) {
	if !isMember(0, "root") || isMember(0, "no-such-group") || isMember(4_000_000_000, "root") {
		t.Error("who is a member of what")
	}
	s := newSessions(t)
	for _, u := range []User{{Role: "view", UID: uid(4_000_000_000)}, {Role: "view", Name: "proxy:alice"}} {
		if u = s.NewUser(u, "root"); u.Group != "" || !s.rights.holds(u, time.Now()) {
			t.Errorf("%+v", u)
		}
	}
}
