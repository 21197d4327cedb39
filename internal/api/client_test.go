// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/core/refusal"
)

// serve answers every request on a socket with handler.
func serve(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: handler}
	go func() { _ = srv.Serve(ln) }() // ends by Close
	t.Cleanup(func() { srv.Close() })
	return NewClient(path)
}

func TestUnreachableAgent(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, socket string
		want         error
		text         string
	}{
		{"nothing there", filepath.Join(dir, "none"), ErrNoAgent, "no agent at " + dir},
		{"a file", filepath.Join(dir, "file"), ErrNoAgent, "no agent at " + dir},
		{"a folder that is missing", "/nonexistent/weir.sock", ErrNoAgent, "no agent at /nonexistent"},
		{"a path too long", "/tmp/" + strings.Repeat("x", 120), nil, "longer than the 107 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewClient(tt.socket).Status(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.text) || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %q", err, tt.text)
			}
		})
	}
	if err := NewClient("/s").reachError(context.DeadlineExceeded); !strings.Contains(err.Error(), "did not answer within 30s") {
		t.Errorf("timeout: %v", err)
	}
	if err := NewClient("/s").reachError(fmt.Errorf("connect: %w", fs.ErrPermission)); !errors.Is(err, ErrNotPermitted) {
		t.Errorf("permission: %v", err)
	}
}

func TestAnswersThatAreNoProblem(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/status":
			_, _ = io.WriteString(w, "{not JSON")
		case "/v1/workloads":
			http.Error(w, "bad gateway", http.StatusBadGateway)
		default:
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"detail":"full","field":"min","remedy":"less"}`)
		}
	})
	if _, err := client.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("no JSON: %v", err)
	}
	var refused *refusal.Error
	if _, err := client.Workloads(t.Context()); !errors.As(err, &refused) || refused.Kind != refusal.Failed || !strings.Contains(refused.Msg, "502") {
		t.Errorf("an answer that is not Weir's: %#v", err)
	}
	if _, err := client.Workload(t.Context(), "x"); !errors.As(err, &refused) || *refused != (refusal.Error{Kind: refusal.Conflict, Field: "min", Msg: "full", Remedy: "less"}) {
		t.Errorf("a problem without its own status: %#v", err)
	}
}

func TestReadEvents(t *testing.T) {
	for _, tt := range []struct {
		name, stream string
		want         []string
	}{
		{"one after the other", "data: 1\n\ndata:2\n\n", []string{"1", "2"}},
		{"several lines", "data: a\ndata: b\n\n", []string{"a\nb"}},
		{"other fields and comments", ": hello\nid: 7\nevent: x\ndata: 1\nretry: 5\n\n", []string{"1"}},
		{"windows line ends", "data: 1\r\n\r\n", []string{"1"}},
		{"cut off", "data: 1\n\ndata: 2\n", []string{"1"}},
		{"empty data", "data:\n\n", []string{""}},
		{"no data", "\n\nid: 1\n\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			if err := readEvents(strings.NewReader(tt.stream), func(b []byte) error { got = append(got, string(b)); return nil }); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// FuzzReadEvents: no stream makes the reader panic, and an event never holds
// more than what was sent.
func FuzzReadEvents(f *testing.F) {
	f.Add("data: {\"at\":1}\n\n")
	f.Add("data: a\ndata: b\r\n\r\n: c\nid\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		total := 0
		err := readEvents(strings.NewReader(stream), func(b []byte) error { total += len(b); return nil })
		if err != nil {
			t.Errorf("%q: %v", stream, err)
		}
		if total > len(stream) {
			t.Errorf("%d bytes of data in a stream of %d", total, len(stream))
		}
	})
}
