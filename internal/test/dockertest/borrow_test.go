// SPDX-License-Identifier: Apache-2.0

package dockertest

import (
	"os"
	"path/filepath"
	"testing"
)

// TestBorrow: a folder stays until the last process gives it back, also if another one made it, and
// one that was there before stays for good.
func TestBorrow(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	folder := filepath.Join(t.TempDir(), "criu")
	there := func() bool { _, err := os.Stat(folder); return err == nil }
	take := func() func() error {
		t.Helper()
		giveBack, err := Borrow(folder)
		if err != nil || !there() {
			t.Fatalf("not there: %v", err)
		}
		return giveBack
	}
	for range 2 {
		first, second := take(), take()
		if err := first(); err != nil || !there() {
			t.Errorf("the first has taken it away: %v", err)
		}
		if err := second(); err != nil || there() {
			t.Errorf("the last has left it: %v", err)
		}
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := take()(); err != nil || !there() {
		t.Errorf("the host's own: %v", err)
	}
}
