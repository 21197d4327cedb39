// SPDX-License-Identifier: Apache-2.0

package safepath

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

var (
	// ErrNotRegular is the error about a path that is there and is no regular file.
	ErrNotRegular = errors.New("is no regular file")
	// ErrNotProgram is the error about a path that is there and is no file that may be run.
	ErrNotProgram = errors.New("is no program")
	// ErrLarge is the error about a file that is larger than its reader takes.
	ErrLarge = errors.New("is larger")
)

// Open opens a regular file for reading. It does not wait for the other end of a fifo, and opens
// no device, since some do something when they are opened.
func Open(path string) (*os.File, error) {
	found, err := regular(path)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	f, err := os.Open(Descriptor(found.Fd()))
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.Unwrap(err)}
	}
	return f, nil
}

// Read returns the content of a file of at most so many bytes, and its permissions. The errors
// do not begin with the path, as those of Open do.
func Read(path string, most int64) ([]byte, fs.FileMode, error) {
	f, err := Open(path)
	if err != nil {
		return nil, 0, bare(err)
	}
	defer f.Close()
	_, mode, err := stat(f)
	if err != nil {
		return nil, 0, bare(err)
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%w than %d bytes", ErrLarge, most)
	}
	return text, mode.Perm(), bare(err)
}

// ReadFile returns the content of a file of state, which this program has written.
func ReadFile(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Program returns a file that may be run, for a child that inherits it: the child runs
// Descriptor of its number there. It is not opened for reading, which its mode may forbid.
func Program(path string) (*os.File, error) {
	f, err := regular(path)
	if errors.Is(err, ErrNotRegular) {
		return nil, &fs.PathError{Op: "run", Path: path, Err: ErrNotProgram}
	}
	if err != nil {
		return nil, err
	}
	_, mode, err := stat(f)
	if err == nil && mode.Perm()&0o111 == 0 {
		err = &fs.PathError{Op: "run", Path: path, Err: ErrNotProgram}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Descriptor returns the path by which a process reaches a file that it has open.
func Descriptor(fd uintptr) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// Check refuses a file or a folder, as Open and Folder would.
func Check(path string) error {
	f, err := examine(path, uint32(os.Geteuid()))
	if err != nil {
		return err
	}
	return f.Close()
}

// Refusal returns the Error with which a process of root refuses a file or a folder, nil if it
// has none. What is not there, or what this process may not reach, has none.
func Refusal(path string) *Error {
	f, err := examine(path, 0)
	if err == nil {
		f.Close()
	}
	var refused *Error
	errors.As(err, &refused)
	return refused
}

// examine opens a path by O_PATH; a folder there may not be a sticky one either.
func examine(path string, self uint32) (*os.File, error) {
	f, err := find(path, self)
	if err != nil {
		return nil, err
	}
	_, mode, err := stat(f)
	if err == nil && mode.IsDir() && mode.Perm()&0o022 != 0 {
		err = (&walk{path: path, self: self}).refuse(f, writable)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// regular opens a regular file by O_PATH.
func regular(path string) (*os.File, error) {
	f, err := find(path, uint32(os.Geteuid()))
	if err != nil {
		return nil, err
	}
	_, mode, err := stat(f)
	if err == nil && !mode.IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// bare takes the path out of an error, for messages that name it themselves.
func bare(err error) error {
	var about *fs.PathError
	if errors.As(err, &about) {
		return about.Err
	}
	return err
}
