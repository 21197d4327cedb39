// SPDX-License-Identifier: Apache-2.0

package safepath

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// fault is what is wrong with a file or a folder.
type fault int

const (
	foreign  fault = iota // it belongs to another user
	writable              // its mode lets group or others write
	shared                // it is a sticky folder with the file in it
)

// Error says why a path is refused, in the place of an error of the kernel's in an fs.PathError.
// At is the path itself or a folder on the way to it.
type Error struct {
	At    string // without symbolic links
	Owner uint32
	Mode  fs.FileMode // of At

	path  string // as the caller has written it
	fault fault
	self  uint32
}

// Error names the file or folder, its owner, its mode, and the remedy.
func (e *Error) Error() string { return e.Fault() + "; " + e.Remedy() }

// Fault says what is wrong with which file or folder.
func (e *Error) Fault() string {
	what := "could change or replace it"
	if e.fault == shared {
		what = "may have put it there"
	}
	at := "it"
	if e.Mode.IsDir() {
		at = "folder " + e.At
	} else if e.At != e.path {
		at = e.At
	}
	users := "other users than root"
	if e.self != 0 {
		users += fmt.Sprintf(" and uid %d", e.self)
	}
	return fmt.Sprintf("%s belongs to uid %d and has mode %04o: %s %s", at, e.Owner, bits(e.Mode), users, what)
}

// Remedy says what to do.
func (e *Error) Remedy() string {
	switch e.fault {
	case foreign:
		return fmt.Sprintf("close it: chown %s %s && chmod go-w %s", e.owner(), e.At, e.At)
	case shared:
		return "move it to a folder that is root's, such as /etc/weir"
	}
	if e.Mode&fs.ModeSticky != 0 { // /tmp is everybody's on purpose
		return "name a folder of its own, such as " + e.At + "/weir"
	}
	return "close it: chmod go-w " + e.At
}

// owner returns to whom chown should give the file: what a service of another user than root
// may have to write, or alone may read, becomes that user's.
func (e *Error) owner() string {
	if e.self != 0 {
		return fmt.Sprint(e.self)
	}
	return "root:root"
}

func (w *walk) refuse(at *os.File, f fault) error {
	owner, mode, err := stat(at)
	if err != nil {
		return w.failed(err)
	}
	return w.failed(&Error{At: at.Name(), Owner: owner, Mode: mode, path: w.path, fault: f, self: w.self})
}

// bits returns a mode as chmod takes it.
func bits(mode fs.FileMode) uint32 {
	n := uint32(mode.Perm())
	if mode&fs.ModeSticky != 0 {
		n |= syscall.S_ISVTX
	}
	return n
}

// stat returns the owner and the mode of an open file.
func stat(f *os.File) (uint32, fs.FileMode, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	return info.Sys().(*syscall.Stat_t).Uid, info.Mode(), nil
}
