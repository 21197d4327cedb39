// SPDX-License-Identifier: Apache-2.0

// Package crowdtest measures what refusals cost a server, for tests.
package crowdtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/core/bound"
)

// rounds is how many requests one measurement is of; the median counts, so that a collection
// of garbage or another process does not.
const rounds = 21

// RefusedRequest is a request that is to be refused.
type RefusedRequest struct {
	Method, Path, Body string
	With               func(*http.Request) // what else it has; nil = nothing
}

// Long is a body of 64 KiB, of a JSON text that nests its queues in a text of YAML.
var Long = `{"node":"a","change":{"queues":"` + strings.Repeat("[", 64<<10-40) + `"}}`

// Refused checks that a handler refuses a request with the status, or any of 400 to 499 if it
// is 0, without reading its body to the end if it is to stay unread, and for at most the cost.
func Refused(t *testing.T, h http.Handler, what string, q RefusedRequest, status int, unread bool) {
	t.Helper()
	var bytes, cpu []int64
	for range rounds {
		body := &counting{Reader: strings.NewReader(q.Body)}
		r := httptest.NewRequestWithContext(t.Context(), q.Method, q.Path, body)
		r.ContentLength = int64(len(q.Body))
		r.Header.Set("Content-Type", "application/json")
		if q.With != nil {
			q.With(r)
		}
		w := httptest.NewRecorder()
		b, c := cost(func() { h.ServeHTTP(w, r) })
		bytes, cpu = append(bytes, b), append(cpu, c)
		if status == 0 && (w.Code < 400 || w.Code > 499) || status != 0 && w.Code != status {
			t.Fatalf("%s: %s %s: status %d: %.300s", what, q.Method, q.Path, w.Code, w.Body)
		}
		if unread && body.read > 0 {
			t.Fatalf("%s: %s %s: %d bytes of the body were read", what, q.Method, q.Path, body.read)
		}
	}
	slices.Sort(bytes)
	slices.Sort(cpu)
	b, c := bytes[rounds/2], time.Duration(cpu[rounds/2])
	if b > bound.RefusedMemory || c > bound.RefusedCPU {
		t.Errorf("%s: %s %s costs %d bytes and %v", what, q.Method, q.Path, b, c)
	}
	t.Logf("%-40s %-6s %-40s %6d bytes %8v", what, q.Method, q.Path, b, c)
}

// cost returns what f allocates, and the CPU time of its thread.
func cost(f func()) (bytes, cpu int64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begun := threadTime()
	f()
	cpu = threadTime() - begun
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc), cpu
}

// threadTime returns the CPU time that the present thread has used, in ns.
func threadTime() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		return 0
	}
	return now.Nano()
}

// counting counts the bytes that are read.
type counting struct {
	io.Reader
	read int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}
