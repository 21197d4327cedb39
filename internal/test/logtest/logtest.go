// SPDX-License-Identifier: Apache-2.0

// Package logtest has a log that tests look at while others write it.
package logtest

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Buffer is a log. Its methods may be called from any goroutine.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *Buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns all that was written so far.
func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Has reports whether a line has all the words.
func (l *Buffer) Has(words ...string) bool {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			return true
		}
	}
	return false
}

// patience is the longest time that Wait waits.
const patience = 30 * time.Second

// Wait waits for a line with all the words; the test fails if none comes.
func (l *Buffer) Wait(t testing.TB, words ...string) {
	t.Helper()
	for begun := time.Now(); !l.Has(words...); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > patience {
			t.Errorf("no line with %q in the log:\n%s", words, l)
			return
		}
	}
}
