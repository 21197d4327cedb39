// SPDX-License-Identifier: Apache-2.0

package images

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/registry/access"
)

// TestPassesEnd: a password counts until it is revoked, and not for longer than passLife
// after it was last handed out.
func TestPassesEnd(t *testing.T) {
	r := New(Options{Log: slog.New(slog.DiscardHandler)})
	mine := access.Right{Move: "m-1", Source: true}
	old := r.passes.issue(access.Right{Move: "m-0", Source: true}, time.Now().Add(-passLife-time.Second))
	login := r.passes.issue(mine, time.Now().Add(-passLife+time.Minute))
	for name, x := range map[string]struct {
		login  migrate.Login
		status int
	}{"one under way": {login, http.StatusOK}, "an old one": {old, http.StatusUnauthorized}} {
		if status := ask(r, x.login); status != x.status {
			t.Errorf("%s: %d, want %d", name, status, x.status)
		}
	}
	if again := r.passes.issue(mine, time.Now()); again != login {
		t.Errorf("%v, and %v for the same move", login, again)
	}
	r.Revoke(login)
	if status := ask(r, login); status != http.StatusUnauthorized {
		t.Errorf("a password that was revoked is answered %d", status)
	}
	if anew := r.passes.issue(mine, time.Now()); anew.Password == login.Password {
		t.Error("a password that was revoked is handed out again")
	}
}

// ask returns the status by which a request with a login is answered.
func ask(r *Registry, l migrate.Login) int {
	q := httptest.NewRequest(http.MethodGet, rootPath, nil)
	q.SetBasicAuth(l.User, l.Password)
	w := httptest.NewRecorder()
	if r.hasPass(w, q) {
		return http.StatusOK
	}
	return w.Code
}
