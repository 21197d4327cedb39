// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// An answer whose work takes longer than the time to write it, such as that of weir tune on
// a busy host, arrives.
func TestSlowAnswerArrives(t *testing.T) {
	a := New("agent", "test", "", slog.New(slog.DiscardHandler))
	Get(a, "/slow", "slow", "waits", func(context.Context, *None) (string, error) {
		time.Sleep(200 * time.Millisecond)
		return "done", nil
	})
	resp, err := http.Get(serve(t, a, 50*time.Millisecond) + "/slow")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "\"done\"\n" {
		t.Errorf("answer %q, %v", body, err)
	}
}

// serve serves an API whose answers have so much time, and returns its URL.
func serve(t *testing.T, a *API, timeout time.Duration) string {
	t.Helper()
	srv := Server(a.Mux, a.Log)
	srv.WriteTimeout = timeout
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(listener) }() // until it is closed
	t.Cleanup(func() { srv.Close() })
	return "http://" + listener.Addr().String()
}
