// SPDX-License-Identifier: Apache-2.0

package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckPlotDir: a folder is made and left as it was found; a file in its place is
// refused before anything is measured.
func TestCheckPlotDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := CheckPlotDir(dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v are left behind (%v)", left, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{file, filepath.Join(file, "below"), "/proc/nowhere"} {
		if err := CheckPlotDir(wrong); err == nil || !strings.HasPrefix(err.Error(), "--plot \""+wrong+"\": cannot be written: ") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
