// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Where the kernel opens no cgroup by its id, it is found among the folders.
func TestFolderByInode(t *testing.T) {
	top := t.TempDir()
	want := filepath.Join(top, "system.slice", "nginx.service")
	if err := errors.Join(os.MkdirAll(want, 0o755), os.MkdirAll(filepath.Join(top, "user.slice"), 0o755)); err != nil {
		t.Fatal(err)
	}
	var stat unix.Stat_t
	if err := unix.Stat(want, &stat); err != nil {
		t.Fatal(err)
	}
	if got, err := folderByInode(top, stat.Ino); got != want || err != nil {
		t.Errorf("found %q, %v; want %q", got, err, want)
	}
	if err := os.Rename(want, filepath.Join(t.TempDir(), "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if got, err := folderByInode(top, stat.Ino); !errors.Is(err, unix.ESTALE) {
		t.Errorf("found %q, %v; want ESTALE", got, err)
	}
}
