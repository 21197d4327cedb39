// SPDX-License-Identifier: Apache-2.0

package dockertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Borrow makes a folder of the host's if there is none, for an engine to mount its own over it.
// Engines of several processes may do so at once: the folder is removed when the last of them
// has called giveBack, and with it every mount on it, in whichever namespace. A folder that was
// there before stays. A process that is killed leaves the folder to the next one.
func Borrow(folder string) (giveBack func() error, err error) {
	users, err := borrow(folder)
	if err != nil {
		return nil, fmt.Errorf("borrow %s: %w", folder, err)
	}
	return func() error {
		if users == nil { // the host's own
			return nil
		}
		door, err := lock(doorOf(folder), unix.LOCK_EX)
		if err != nil {
			return err
		}
		if unix.Flock(int(users.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil { // no other has it
			err = errors.Join(os.Remove(folder), os.Remove(users.Name()))
		}
		return errors.Join(err, users.Close(), os.Remove(door.Name()), door.Close())
	}, nil
}

// borrow makes the folder, and returns the lock that its users share, nil if it is the host's.
// The door is locked for as long as folder and lock are looked at.
func borrow(folder string) (users *os.File, err error) {
	door, err := lock(doorOf(folder), unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Remove(door.Name()), door.Close()) }()
	err = os.Mkdir(folder, 0o755)
	if errors.Is(err, fs.ErrExist) {
		if _, err = os.Stat(usersOf(folder)); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return lock(usersOf(folder), unix.LOCK_SH)
}

func doorOf(folder string) string { return usersOf(folder) + ".door" }

func usersOf(folder string) string {
	return filepath.Join(os.TempDir(), "weir-borrowed"+strings.ReplaceAll(folder, "/", "-"))
}

// lock opens and locks a file.
func lock(path string, how int) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), how); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		// The one before may have removed it meanwhile.
		mine, errMine := f.Stat()
		there, errThere := os.Stat(path)
		if errors.Join(errMine, errThere) == nil && os.SameFile(mine, there) {
			return f, nil
		}
		_ = f.Close()
	}
}
