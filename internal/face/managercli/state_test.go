// SPDX-License-Identifier: Apache-2.0

package managercli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/cluster/manager"
	"weir/internal/cluster/manager/statedir"
	"weir/internal/face/cli/frame"
)

// other is a user who is not root.
const other = 65534

// inside is what init says of a folder with something in it.
const inside = "is not empty"

// ownerOf returns whose a file is.
func ownerOf(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}

// run runs a command of weir-manager.
func run(t *testing.T, args ...string) error {
	t.Helper()
	var out bytes.Buffer
	root := Root(&frame.App{Streams: frame.Streams{Stdout: &out, Stderr: &out}})
	root.SetArgs(args)
	return root.ExecuteContext(t.Context())
}

// TestRootWritesInNoFolderOfOthers: root makes a cluster, or restores one, in a folder that
// another user has prepared. Nothing is written through what that user has put there or
// above: init takes an empty folder alone, and restore puts one aside. What was made is the
// folder's owner's.
func TestRootWritesInNoFolderOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files away")
	}
	snapshot := snapshotOf(t)
	for command, args := range map[string][]string{"init": {"manager", "init"}, "restore": {"manager", "restore", snapshot, "--force"}} {
		for name, c := range map[string]struct {
			prepare func(dir, victim string) error
			says    string // "" = it is made
		}{
			"empty":                   {func(dir, _ string) error { return nil }, ""},
			"a link for the database": {func(dir, victim string) error { return os.Symlink(victim, filepath.Join(dir, "manager.db")) }, inside},
			"a link for the key":      {func(dir, victim string) error { return os.Symlink(victim, filepath.Join(dir, "ca.crt")) }, inside},
			"a pipe for the database": {func(dir, _ string) error { return syscall.Mkfifo(filepath.Join(dir, "manager.db"), 0o600) }, inside},
			"a folder above":          {func(dir, _ string) error { return os.Chown(filepath.Dir(dir), other, other) }, "belongs to uid 65534"},
			"open above":              {func(dir, _ string) error { return os.Chmod(filepath.Dir(dir), 0o777) }, "chmod go-w"},
		} {
			t.Run(command+", "+name, func(t *testing.T) {
				base := t.TempDir()
				dir, victim := filepath.Join(base, "above", "manager"), filepath.Join(base, "victim")
				if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chown(dir, other, other), os.WriteFile(victim, nil, 0o600), c.prepare(dir, victim)); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- run(t, append(slices.Clone(args), "--state-dir", dir)...) }()
				var err error
				select {
				case err = <-ended:
				case <-time.After(10 * time.Second):
					t.Fatal("it has not ended after 10 s")
				}
				if info, err := os.Stat(victim); err != nil || info.Size() > 0 || ownerOf(t, victim) != 0 {
					t.Errorf("a file that a link leads to: %v, %v", info, err)
				}
				if c.says == inside && command == "restore" {
					c.says = "" // it is put aside
				}
				if c.says != "" {
					if err == nil || !strings.Contains(err.Error(), c.says) {
						t.Errorf("%v, want %q", err, c.says)
					}
					if _, err := os.Lstat(filepath.Join(dir, "ca.key")); err == nil {
						t.Error("there is a key in the folder")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, file := range []string{"", "ca.key", "ca.crt", "manager.db"} {
					if owner := ownerOf(t, filepath.Join(dir, file)); owner != other {
						t.Errorf("%q belongs to uid %d", file, owner)
					}
				}
			})
		}
	}
}

// snapshotOf writes a snapshot of a new cluster, and returns its path.
func snapshotOf(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "manager")
	if _, err := manager.InitFor(dir, 1, time.Now()); err != nil {
		t.Fatal(err)
	}
	db, err := statedir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	data, err := statedir.Pack(dir, db, statedir.SnapshotManifest{Created: time.Now(), Weir: "test"})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "snapshot")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
