// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// TestMemoryMax: the least bound counts, of the cgroup itself or of one above it.
func TestMemoryMax(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{"system.slice": "max\n", "system.slice/weir.service": "2147483648\n", "small": "1000\n", "small/one": "2000\n"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(root, path), 0o755), os.WriteFile(filepath.Join(root, path, "memory.max"), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]int64{"/system.slice/weir.service": 2 << 30, "/system.slice": math.MaxInt64, "/": math.MaxInt64, "/small/one": 1000, "/small/one/none": 1000, "/../system.slice/weir.service": 2 << 30} {
		if got := memoryMax(root, path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}
