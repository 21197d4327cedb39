// SPDX-License-Identifier: Apache-2.0

package atomicfile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestWrite(t *testing.T) {
	real, synced := syncDir, []string{}
	syncDir = func(dir string) error { synced = append(synced, dir); return real(dir) }
	defer func() { syncDir = real }()

	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	for _, text := range []string{"one", "longer than one", "2"} {
		if err := Write(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("read %q, %v; want %q", got, err, text)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want mode 0600", info.Mode(), err)
	}
	if err := Write(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v; want mode 0644", info.Mode(), err)
	}
	if err := Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := Remove(path); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
	if want := []string{dir, dir, dir, dir, dir}; !slices.Equal(synced, want) {
		t.Errorf("directories synced: %v, want one for each of 4 writes and 1 removal: %v", synced, want)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestFailedWrite: a write that fails leaves the old file and nothing else.
func TestFailedWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("x"), 0o600); err == nil {
		t.Error("a directory was replaced by a file")
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	if err := Write(filepath.Join(dir, "missing", "key"), nil, 0o600); err == nil {
		t.Error("a file was written to a directory that is not there")
	}
}

// TestLinkIsReplaced: a symbolic link in the file's place is replaced, and what it points
// to stays as it is.
func TestLinkIsReplaced(t *testing.T) {
	dir := t.TempDir()
	path, target := filepath.Join(dir, "key"), filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v; want a regular file of mode 0600", info.Mode(), err)
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "before" {
		t.Errorf("the link's target has %q, %v", text, err)
	}
}
