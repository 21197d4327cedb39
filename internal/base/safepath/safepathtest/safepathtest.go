// SPDX-License-Identifier: Apache-2.0

// Package safepathtest makes files that another user could change or exchange, for tests of what
// opens files as root.
package safepathtest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Stranger is the user to whom files are given.
const Stranger = 12345

// NeedsRoot skips a test that may not make files of other users.
func NeedsRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: files of other users are made")
	}
}

// spoils are the ways in which another user could change or exchange the file at a path; each
// returns the file or folder at fault.
var spoils = map[string]func(path string) (string, error){
	"file of another user": func(path string) (string, error) { return path, os.Chown(path, Stranger, 0) },
	"file of a group":      func(path string) (string, error) { return path, os.Chmod(path, 0o660) },
	"file of all":          func(path string) (string, error) { return path, os.Chmod(path, 0o602) },
	"folder of another user": func(path string) (string, error) {
		return filepath.Dir(path), os.Chown(filepath.Dir(path), Stranger, 0)
	},
	"folder of a group": func(path string) (string, error) { return filepath.Dir(path), os.Chmod(filepath.Dir(path), 0o775) },
	"folder of all":     func(path string) (string, error) { return filepath.Dir(path), os.Chmod(filepath.Dir(path), 0o777) },
	"sticky folder": func(path string) (string, error) {
		return filepath.Dir(path), os.Chmod(filepath.Dir(path), 0o777|os.ModeSticky)
	},
	"folder above, of another user": func(path string) (string, error) {
		above := filepath.Dir(filepath.Dir(path))
		return above, os.Chown(above, Stranger, 0)
	},
	"link through a folder": func(path string) (string, error) {
		other := filepath.Dir(path) + "/other"
		return other, errors.Join(os.Mkdir(other, 0o755), os.Rename(path, other+"/file"), os.Chown(other, Stranger, 0), os.Symlink("other/file", path))
	},
}

// Refused holds use to refuse the file that prepare makes, in a folder of the test, once another
// user could change or exchange it, by an error that names what is at fault. Before that, use has
// to take it.
func Refused(t *testing.T, prepare func(t *testing.T) (path string), use func(path string) error) {
	NeedsRoot(t)
	for name, spoil := range spoils {
		t.Run(name, func(t *testing.T) {
			path := prepare(t)
			if err := use(path); err != nil {
				t.Fatalf("root's file: %v", err)
			}
			at, err := spoil(path)
			if err != nil {
				t.Fatal(err)
			}
			err = use(path)
			if err == nil || !strings.Contains(err.Error(), at) || !strings.Contains(err.Error(), "belongs to uid") {
				t.Errorf("%v, want a refusal because of %s", err, at)
			}
		})
	}
}

// Exchange makes two names change places again and again until the returned function is called.
func Exchange(t testing.TB, one, other string) (stop func()) {
	done := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
		}
	})
	return func() { close(done); busy.Wait() }
}
