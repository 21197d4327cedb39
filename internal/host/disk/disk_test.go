// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestJudge(t *testing.T) {
	for name, test := range map[string]struct {
		space
		want string
	}{
		"room":             {space{total: 1e9, free: 2e6, files: 100, freeFiles: 1}, ""},
		"full":             {space{total: 1e9, free: 4096, files: 100, freeFiles: 1}, "the disk is full: 0.0 of 1000.0 MB are free"},
		"small, with room": {space{total: 1e6, free: 2e4}, ""},
		"small and full":   {space{total: 1e6}, "the disk is full: 0.0 of 1.0 MB are free"},
		"no inode":         {space{total: 1e9, free: 1e8, files: 100}, "the disk has no room for another file: all 100 inodes are used"},
		"sizes not known":  {space{}, ""},
		"read-only":        {space{readOnly: true, total: 1e9, free: 1e9}, "the file system is mounted read-only"},
	} {
		if got := judge(test.space); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestTrouble: a folder of this machine has room, also one that is not there yet; a file system
// that holds no files of a user's is none to write to.
func TestTrouble(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{dir, filepath.Join(dir, "weir", "usage")} {
		if got := Trouble(folder); got != "" {
			t.Errorf("%s: %s", folder, got)
		}
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, "size=1m"); err != nil {
		t.Skipf("skipped: a tmpfs cannot be mounted: %v", err)
	}
	defer unix.Unmount(dir, 0)
	if got := Trouble(filepath.Join(dir, "weir")); got != "the file system is mounted read-only" {
		t.Errorf("a read-only one: %q", got)
	}
}
