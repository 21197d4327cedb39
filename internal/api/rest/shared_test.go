// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// TestShared: what many ask for within a moment is made once. Who changes something sees it,
// and neither a refusal nor a panic is kept.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New("manager", "test", "", slog.New(slog.DiscardHandler))
		calls := 0
		var fails func() error
		Shared(a, "/v1/list", "list", "a list", func(context.Context) ([]int, error) {
			calls++
			if fails != nil {
				return nil, fails()
			}
			return []int{calls}, nil
		})
		Register(a, huma.Operation{Method: http.MethodPost, Path: "/v1/change", OperationID: "change", Summary: "changes it"},
			func(context.Context, *None) (string, error) { return "done", nil })
		ask := func(method, path string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			a.Mux.ServeHTTP(w, httptest.NewRequest(method, path, nil))
			return w
		}
		want := func(what string, n int) {
			t.Helper()
			w := ask(http.MethodGet, "/v1/list")
			if got := w.Body.String(); w.Code != http.StatusOK || got != fmt.Sprintf("[%d]\n", n) || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%s: status %d, %s %q, want call %d", what, w.Code, w.Header().Get("Content-Type"), got, n)
			}
		}
		want("the first", 1)
		want("at once", 1)
		time.Sleep(sharedFor - 1)
		want("just before it is too old", 1)
		time.Sleep(time.Nanosecond)
		want("too old", 2)
		ask(http.MethodPost, "/v1/change")
		want("after a change", 3)
		if w := ask(http.MethodGet, "/v1/list?limit=3"); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("a parameter that it has not: status %d", w.Code)
		}
		time.Sleep(sharedFor)
		fails = func() error { return errors.New("no") }
		if w := ask(http.MethodGet, "/v1/list"); w.Code != http.StatusInternalServerError {
			t.Errorf("failed: status %d", w.Code)
		}
		fails = func() error { panic("no") }
		func() {
			defer func() { _ = recover() }()
			ask(http.MethodGet, "/v1/list")
		}()
		fails = nil
		want("after it has failed", 6)
	})
}

// TestSharedIsSlow: what takes long to make is made once for all who wait for it, and each of them
// has all its time to read the answer.
func TestSharedIsSlow(t *testing.T) {
	a := New("manager", "test", "", slog.New(slog.DiscardHandler))
	var calls atomic.Int32
	Shared(a, "/v1/list", "list", "a list", func(context.Context) ([]int, error) {
		calls.Add(1)
		time.Sleep(sharedFor + 100*time.Millisecond)
		return []int{1}, nil
	})
	url := serve(t, a, sharedFor)
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			resp, err := http.Get(url + "/v1/list")
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "[1]\n" {
				t.Errorf("answer %q, %v", body, err)
			}
		})
	}
	group.Wait()
	if n := calls.Load(); n > 2 { // those who come while it is made, and who came before
		t.Errorf("made %d times", n)
	}
}

// TestAccept: an answer is JSON whatever a client accepts, and no such header makes a change fail
// that was made.
func TestAccept(t *testing.T) {
	a := New("manager", "test", "", slog.New(slog.DiscardHandler))
	Register(a, huma.Operation{Method: http.MethodPost, Path: "/v1/change", OperationID: "change", Summary: "changes it"},
		func(context.Context, *None) (string, error) { return "done", nil })
	for _, accept := range []string{"a;b,", "json", "text/html", ""} {
		r := httptest.NewRequest(http.MethodPost, "/v1/change", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		a.Mux.ServeHTTP(w, r)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" || w.Body.String() != "\"done\"\n" {
			t.Errorf("Accept %q: status %d, %s %q", accept, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
	}
}
