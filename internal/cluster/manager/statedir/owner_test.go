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
	dir := filepath.Join(base, "manager")
	if err := errors.Join(os.Mkdir(dir, 0o750), os.Chown(dir, uid, gid)); err != nil {
		t.Fatal(err)
	}
	give, err := Take(dir)
	if err != nil {
		t.Fatal(err)
	}
	if owner, err := ownerOf(dir); err != nil || owner.uid != 0 {
		t.Errorf("while root writes in it it belongs to %d, %v", owner.uid, err)
	}
	newState(t, dir)
	if err := give(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%q %v", files, err)
	}
	for _, file := range append(files, dir) {
		if owner, err := ownerOf(file); err != nil || owner.uid != uid {
			t.Errorf("%s belongs to %d, %v", file, owner.uid, err)
		}
	}
	var taken *refusal.Error
	if _, err := Take(dir); !errors.As(err, &taken) || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("it is taken with a cluster in it: %v", err)
	}
	if owner, err := ownerOf(dir); err != nil || owner.uid != uid {
		t.Errorf("a folder that was refused belongs to %d, %v", owner.uid, err)
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
	give, err := Take(dir)
	if err != nil {
		t.Fatal(err)
	}
	newState(t, dir)
	if err := give(); err != nil {
		t.Fatal(err)
	}
	if owner, err := ownerOf(filepath.Join(dir, "ca.key")); err != nil || owner.uid != 0 {
		t.Errorf("ca.key belongs to %d, %v", owner.uid, err)
	}
}
