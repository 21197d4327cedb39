// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"weir/internal/api"
)

// TestJoiningGoesOn: only an answer that stays the same ends the tries to join.
func TestJoiningGoesOn(t *testing.T) {
	for status, ends := range map[int]bool{400: true, 403: true, 404: true, 409: true, 422: true, 429: false, 500: false, 502: false, 503: false} {
		for _, body := range []string{fmt.Sprintf(`{"status":%d,"detail":"no"}`, status), "no"} {
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				fmt.Fprint(w, body)
			}))
			_, err := Ask[api.Token](t.Context(), Manager{s.Listener.Addr().String(), s.Client()}, http.MethodPost, "/v1/join", nil)
			s.Close()
			if Lasting(err) != ends {
				t.Errorf("status %d with %q: ends %v, want %v: %v", status, body, !ends, ends, err)
			}
		}
	}
	if Lasting(fmt.Errorf("%w at m:1", ErrUnreachable)) {
		t.Error("a manager out of reach ends the tries")
	}
}

// TestJoiningKeyIsKept: a node that asks to join again shows the same key.
func TestJoiningKeyIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	first, err := joiningKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := joiningKey(dir); err != nil || !again.Equal(first) {
		t.Errorf("another key: %v", err)
	}
}
