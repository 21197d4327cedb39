// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"weir/internal/base/atomicfile"
	"weir/internal/base/safepath"
	"weir/internal/core/refusal"
)

// RestoreOptions say how a snapshot becomes the state of a manager.
type RestoreOptions struct {
	Dir    string // of the state
	Name   string // of the snapshot, for messages
	Force  bool   // put a state that is there aside
	DryRun bool   // check the snapshot and the folder, and change nothing
}

// Restored describes the state that Restore has put in place.
type Restored struct {
	Created time.Time // of the snapshot
	Nodes   []string  // members at that time
	Moves   int       // that had not ended
	Aside   string    // where the former state is now, "" if there was none
}

// Restore makes a manager's folder out of a snapshot. It takes its place by one rename,
// once prove has opened it as a manager does; whatever fails, the folder is as it was.
func Restore(in io.Reader, o RestoreOptions, prove func(dir string) error) (Restored, error) {
	o.Dir = filepath.Clean(o.Dir)
	s, err := readSnapshot(in, o.Name)
	if err != nil {
		return Restored{}, err
	}
	result := Restored{Created: s.Created, Nodes: s.Nodes, Moves: s.Moves}
	if result.Aside, err = asideOf(o); err != nil {
		return Restored{}, err
	}
	if err := safepath.Folder(filepath.Dir(o.Dir), 0o755); err != nil {
		return Restored{}, err
	}
	next, err := os.MkdirTemp(filepath.Dir(o.Dir), filepath.Base(o.Dir)+".restore-")
	if err != nil {
		return Restored{}, err
	}
	defer os.RemoveAll(next) // is gone by then, if all went well
	if err := unpack(s, next); err != nil {
		return Restored{}, err
	}
	if err := prove(next); err != nil {
		return Restored{}, &refusal.Error{Kind: refusal.Invalid, Field: "snapshot", Value: o.Name, Msg: "cannot be a manager's state: " + err.Error(), Remedy: "take another snapshot"}
	}
	if o.DryRun {
		return result, nil
	}
	return result, exchange(o.Dir, next, result.Aside)
}

// asideOf returns the folder to which Restore moves the state that is there, "" if
// there is none.
func asideOf(o RestoreOptions) (string, error) {
	list, err := os.ReadDir(o.Dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(list) == 0 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if err := idle(o.Dir); err != nil {
		return "", err
	}
	if !o.Force {
		return "", &refusal.Error{Kind: refusal.Conflict, Field: "manager.state_dir", Value: o.Dir, Msg: "is not empty: a manager's state may be there",
			Remedy: "choose another folder, or put that one aside with --force"}
	}
	return o.Dir + ".before-" + time.Now().UTC().Format("20060102-150405"), nil
}

// unpack writes the files of a snapshot into a new folder, to the disk.
func unpack(s snapshot, dir string) error {
	for name, text := range s.files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// idle refuses the folder of a manager that runs. The folder may be another user's.
func idle(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if info, err := root.Lstat(databaseFile); err != nil || !info.Mode().IsRegular() {
		return nil // no manager's
	}
	f, err := root.OpenFile(databaseFile, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return inUse(filepath.Join(dir, databaseFile))
	}
	return nil
}

// exchange puts next in the place of dir, and gives it to who is to run a manager there.
func exchange(dir, next, aside string) error {
	to, err := heir(dir)
	if err != nil {
		return err
	}
	if err := handOver(next, to); err != nil {
		return err
	}
	switch {
	case aside != "":
		if err := os.Rename(dir, aside); err != nil {
			return err
		}
	default:
		if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(next, dir); err != nil {
		if aside != "" {
			err = errors.Join(err, os.Rename(aside, dir))
		}
		return fmt.Errorf("the restored state cannot take its place: %w", err)
	}
	return atomicfile.SyncDir(filepath.Dir(dir))
}
