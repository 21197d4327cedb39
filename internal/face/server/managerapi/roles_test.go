// SPDX-License-Identifier: Apache-2.0

package managerapi

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/base/audit"
	"weir/internal/cluster/manager"
	"weir/internal/face/server/page"
	"weir/internal/face/server/page/pagetest"
	"weir/internal/face/web"
)

// TestViewersChangeNothingAndSeeNoSecret walks all routes of a manager's API as one
// who may only look: what changes something is refused, a dry run too, and no answer
// holds the secret of a token, though the token is listed.
func TestViewersChangeNothingAndSeeNoSecret(t *testing.T) {
	dir := t.TempDir()
	if _, err := manager.Init(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	m, err := manager.New(manager.Options{Dir: dir, Listen: "127.0.0.1:0", BusListen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	secret, err := m.NewToken(t.Context(), api.TokenRequest{Node: "gateway-7"})
	if err != nil || secret.Token == "" {
		t.Fatalf("token %+v, %v", secret, err)
	}
	h := New(m, nil, slog.New(slog.DiscardHandler)).Reading("/run/weir/manager.sock", "weir")
	ask := func(method, path string) (int, string) {
		rec := httptest.NewRecorder()
		r := httptest.NewRequest(method, path, strings.NewReader(`{}`))
		r.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(rec, r)
		return rec.Code, rec.Body.String()
	}
	_, body := ask("GET", "/openapi.json")
	looks, changes, listed := 0, 0, false
	for _, op := range pagetest.Operations(t, []byte(body)) {
		method, path := op.Method, strings.NewReplacer("{id}", secret.ID, "{name}", "gateway-7").Replace(op.Path)
		status, body := ask(method, path)
		switch {
		case op.Role == "view" && method == http.MethodGet:
			looks++
			listed = listed || strings.Contains(body, secret.ID)
			for part := range strings.SplitSeq(secret.Token, ".") {
				if len(part) > len(secret.ID) && strings.Contains(body, part) {
					t.Errorf("%s shows the part %q of a token: %s", path, part, body)
				}
			}
			if status == http.StatusForbidden {
				t.Errorf("%s %s: %d %s", method, path, status, body)
			}
		case op.Role == "change" && method != http.MethodGet:
			changes++
			dry, dryBody := ask(method, path+"?dry_run=true")
			for status, body := range map[int]string{status: body, dry: dryBody} {
				if status != http.StatusForbidden || !strings.Contains(body, `"role"`) || !strings.Contains(body, "group weir") {
					t.Errorf("%s %s: %d %s, want 403 with field and remedy", method, path, status, body)
				}
			}
		default:
			t.Errorf("%s %s needs role %q", method, path, op.Role)
		}
	}
	if looks < 6 || changes < 5 || !listed {
		t.Errorf("%d routes look, %d change; the token is listed: %v", looks, changes, listed)
	}
	if tokens, err := m.Tokens(t.Context()); err != nil || len(tokens) != 2 {
		t.Errorf("tokens are %+v, %v", tokens, err)
	}
}

// TestWhatRefusalsCost: a request that is refused because of who asks costs little, on every
// route of the manager's view socket and of its page, and none of its body is read.
func TestWhatRefusalsCost(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	log := audit.New(filepath.Join(t.TempDir(), "audit.log"), quiet)
	defer log.Close()
	a := New(newFake(3), log, quiet)
	p := page.New(a, page.Options{Config: page.Config{Listen: []string{"127.0.0.1:0"}, Key: filepath.Join(t.TempDir(), "web.key")}, Program: web.Manager})
	p.Listen()
	defer p.Close()
	pagetest.WhatRefusalsCost(t, a.Reading("/run/weir/manager.sock", "weir"), p.Handler())
}
