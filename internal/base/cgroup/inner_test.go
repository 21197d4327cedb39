// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestInner: a thread is in the cgroup while it does what it is told, and none is afterwards.
func TestInner(t *testing.T) {
	g, err := NewInner("weir-test-inner")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	inside := func() string {
		text, err := os.ReadFile(filepath.Join(g.Path(), "cgroup.threads"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	failure := errors.New("of the function")
	err = g.Do(func() error {
		if got := inside(); got != strconv.Itoa(unix.Gettid()) {
			t.Errorf("threads %q, want %d", got, unix.Gettid())
		}
		return failure
	})
	if !errors.Is(err, failure) {
		t.Errorf("Do: %v", err)
	}
	if again, err := NewInner("weir-test-inner"); err != nil || again.Path() != g.Path() {
		t.Errorf("the next agent: %v, %v", again, err)
	}
	for range 50 { // also where the goroutine begins on the process's first thread, which never ends
		if err := g.Do(func() error {
			if unix.Gettid() == os.Getpid() {
				t.Error("the process's first thread is in the cgroup")
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(10 * time.Second); g.Close() != nil && inside() != ""; { // threads are about to end
		if time.Now().After(end) {
			t.Fatalf("threads are left: %s", inside())
		}
	}
	if err := g.Close(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
