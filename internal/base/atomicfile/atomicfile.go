// SPDX-License-Identifier: Apache-2.0

// Package atomicfile replaces a file so that a crash at any moment leaves either the
// old content or the new one, whole.
//
// The new content goes to a temporary file in the same directory (mode included),
// which is synced and renamed over the old one (renameio). The directory is synced
// last: without that a power cut may undo a rename that was already reported as done.
// A crash may leave a temporary file behind, ".NAME" with digits after it.
//
// Concurrent writes of one file are safe; the last rename wins. Writes of several
// files are not one transaction: order them so that each state between is a good one.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Write puts data into the file at path with the permissions mode, on the disk when it
// returns. On an error the former file is untouched, unless the error is that of the
// directory's sync: then the new one is in place and may be lost in a power cut.
func Write(path string, data []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithStaticPermissions(mode))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.CloseAtomicallyReplace()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), f.Cleanup())
	}
	return syncDir(dir)
}

// Remove removes a file, for good when it returns. A file that is not there is no error.
func Remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// SyncDir puts a directory on the disk: what was created, renamed or removed in it stays
// so after a power cut.
func SyncDir(dir string) error { return syncDir(dir) }

// syncDir is a variable so that the test can count its calls.
var syncDir = func(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
