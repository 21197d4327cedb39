// SPDX-License-Identifier: Apache-2.0

package images

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"weir/internal/base/crowd/crowdtest"
	"weir/internal/cluster/migrate/registry/access"
)

// TestWhatRefusalsCost: a request to the engine's registry without the password of a move, or
// for something else, costs little, and none of its body is read.
func TestWhatRefusalsCost(t *testing.T) {
	r := New(Options{Log: slog.New(slog.DiscardHandler)})
	login := r.passes.issue(access.Right{Move: "m-1"}, time.Now())
	h := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if r.hasPass(w, q) {
			t.Errorf("%s %s was let in", q.Method, q.URL.Path)
		}
	})
	for _, path := range []string{rootPath, rootPath + "weir-move/manifests/m-2", rootPath + "weir-move/blobs/uploads/", "/"} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			q := crowdtest.RefusedRequest{Method: method, Path: path, Body: crowdtest.Long}
			crowdtest.Refused(t, h, "no password", q, http.StatusUnauthorized, true)
			q.With = func(r *http.Request) { r.SetBasicAuth(login.User, "guessed") }
			crowdtest.Refused(t, h, "a wrong password", q, http.StatusUnauthorized, true)
			if path != rootPath {
				q.With = func(r *http.Request) { r.SetBasicAuth(login.User, login.Password) }
				q.Method = http.MethodDelete
				crowdtest.Refused(t, h, "the password of another move", q, http.StatusForbidden, true)
			}
		}
	}
}
