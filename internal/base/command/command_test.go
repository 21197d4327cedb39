// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPartOfACommandGoesOn: a command that is ended returns though what it has started goes on
// and has its output open.
func TestPartOfACommandGoesOn(t *testing.T) {
	started := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	returned := make(chan error, 1)
	go func() {
		_, err := New(ctx, "sh", "-c", `sleep 60 & echo $! >"$0.new" && mv "$0.new" "$0"; wait`, started).Output()
		returned <- err
	}()
	var part int
	for deadline := time.Now().Add(time.Minute); part == 0; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(started)
		if part, _ = strconv.Atoi(strings.TrimSpace(string(text))); part == 0 && time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	defer func() { _ = syscall.Kill(part, syscall.SIGKILL) }()
	cancel()
	select {
	case err := <-returned:
		if err == nil {
			t.Error("a command that was killed has no error")
		}
	case <-time.After(30 * time.Second):
		t.Error("it waits for what it has started")
	}
	if err := syscall.Kill(part, 0); err != nil {
		t.Errorf("what it has started is gone, and proves nothing: %v", err)
	}
}
