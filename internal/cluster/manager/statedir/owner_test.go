// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/cluster/pki"
	"weir/internal/core/refusal"
)

// newState makes what weir manager init makes.
func newState(t *testing.T, dir string) {
	t.Helper()
	authority, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	db, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(authority.Save(dir), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// weir manager init is run by root, and the manager is run by a user of its own.
func TestRootHandsTheFolderOver(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files away")
	}
	const uid, gid = 65534, 65534
	base := t.TempDir()
	dir, secret := filepath.Join(base, "manager"), filepath.Join(base, "shadow")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, uid, gid), os.WriteFile(secret, []byte("root's"), 0o600)); err != nil {
		t.Fatal(err)
	}
	// The folder's owner has prepared it.
	if err := errors.Join(os.Symlink(secret, filepath.Join(dir, "link")), os.Link(secret, filepath.Join(dir, "second")), os.Symlink(base, filepath.Join(dir, "out"))); err != nil {
		t.Fatal(err)
	}
	newState(t, dir)
	if err := HandOver(dir); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 6 {
		t.Fatalf("%q %v", files, err)
	}
	for _, file := range files {
		if base := filepath.Base(file); base == "link" || base == "second" || base == "out" {
			continue
		}
		if got, _, err := ownerOf(file); err != nil || got != uid {
			t.Errorf("%s belongs to %d, %v", file, got, err)
		}
	}
	for _, file := range []string{secret, base} {
		if got, _, err := ownerOf(file); err != nil || got != 0 {
			t.Errorf("%s, outside of the folder, belongs to %d, %v", file, got, err)
		}
	}
	var refused *refusal.Error
	if err := CheckOwner(dir); !errors.As(err, &refused) || !strings.Contains(err.Error(), "systemctl start weir-manager") {
		t.Errorf("root may run a manager there: %v", err)
	}
	if err := CheckOwner(base); err != nil {
		t.Errorf("root may not run one in a folder of its own: %v", err)
	}
}

func TestFolderOfRootStaysRoots(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	newState(t, dir)
	if err := HandOver(dir); err != nil {
		t.Fatal(err)
	}
	if uid, _, err := ownerOf(filepath.Join(dir, "ca.key")); err != nil || uid != 0 {
		t.Errorf("ca.key belongs to %d, %v", uid, err)
	}
}
