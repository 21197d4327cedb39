// SPDX-License-Identifier: Apache-2.0

package safepath

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Folder makes a folder, with those above it, if it is not there, and refuses it unless root
// and this process alone may change what is in it. One that is open to others and empty, as
// a tmpfs or an emptyDir is at first, gets the mode.
func Folder(path string, mode fs.FileMode) error {
	f, err := openFolder(path, mode)
	if err != nil {
		return err
	}
	return f.Close()
}

// openFolder is Folder that leaves the folder open, by O_PATH. A folder that is missing is made
// in the one above it once that is examined: what other users may exchange leads nowhere.
func openFolder(path string, mode fs.FileMode) (*os.File, error) {
	f, err := examine(path, uint32(os.Geteuid()))
	above, name := split(path)
	if errors.Is(err, fs.ErrNotExist) && name != "" {
		if err := makeIn(above, name, mode); err != nil {
			return nil, err
		}
		f, err = examine(path, uint32(os.Geteuid()))
	}
	if mayBeShut(err) && shut(path, mode) == nil {
		f, err = examine(path, uint32(os.Geteuid()))
	}
	if err != nil {
		return nil, err
	}
	if _, mode, err := stat(f); err != nil || !mode.IsDir() {
		f.Close()
		return nil, errors.Join(err, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR})
	}
	return f, nil
}

// CheckFolder is Check for a folder that Folder is asked for later: one that Folder would shut is
// no error.
func CheckFolder(path string) error {
	err := Check(path)
	if !mayBeShut(err) {
		return err
	}
	f, failed := ownFolder(split(path))
	if failed != nil {
		return err
	}
	defer f.Close()
	if !empty(f) {
		return err
	}
	return nil
}

// mayBeShut reports whether an error is about a folder that is open to others.
func mayBeShut(err error) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.fault == writable && refused.Mode.IsDir()
}

// shut gives a folder the mode if it is root's or this process's, and empty once it has that:
// nothing in it is another user's then. Else it keeps the mode that it had.
func shut(path string, mode fs.FileMode) error {
	f, err := ownFolder(split(path))
	if err != nil {
		return err
	}
	defer f.Close()
	_, former, err := stat(f)
	if err == nil {
		err = f.Chmod(mode.Perm())
	}
	if err == nil && !empty(f) {
		err = errors.Join(fs.ErrExist, f.Chmod(former))
	}
	return err
}

// ownFolder opens a folder that is root's or this process's for reading.
func ownFolder(above, name string) (*os.File, error) {
	parent, err := find(above, uint32(os.Geteuid()))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	f, err := openIn(int(parent.Fd()), name, above+"/"+name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	owner, _, err := stat(f)
	if err == nil && owner != 0 && owner != uint32(os.Geteuid()) {
		err = fs.ErrPermission
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func empty(folder *os.File) bool {
	_, err := folder.ReadDir(1)
	return err == io.EOF
}

// makeIn makes a folder in another one, which may be a sticky one: what root makes there no
// other user can remove.
func makeIn(above, name string, mode fs.FileMode) error {
	parent, err := find(above, uint32(os.Geteuid()))
	if errors.Is(err, fs.ErrNotExist) {
		parent, err = openFolder(above, mode)
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := unix.Mkdirat(int(parent.Fd()), name, uint32(mode.Perm())); err != nil && err != unix.EEXIST {
		return &fs.PathError{Op: "mkdir", Path: above + "/" + name, Err: err}
	}
	return nil
}

// split returns the folder above a path and the last name of it, "" if it has none. It leaves
// ".." where it is, as absolute does.
func split(path string) (above, name string) {
	path = strings.TrimRight(path, "/")
	at := strings.LastIndexByte(path, '/')
	switch {
	case at < 0:
		return ".", path
	case at == 0:
		return "/", path[1:]
	}
	return path[:at], path[at+1:]
}

// OpenFile opens a regular file as os.OpenFile does, and makes it if flag says so and it is not
// there; its folder has to be.
func OpenFile(path string, flag int, perm fs.FileMode) (*os.File, error) {
	found, err := regular(path)
	if errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE != 0 {
		f, failed := create(path, flag, perm)
		if !errors.Is(failed, fs.ErrExist) || flag&os.O_EXCL != 0 {
			return f, failed
		}
		found, err = regular(path) // another process of this program was faster
	}
	if err != nil {
		return nil, err
	}
	defer found.Close()
	if flag&os.O_EXCL != 0 {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrExist}
	}
	return openIn(unix.AT_FDCWD, Descriptor(found.Fd()), path, flag&^os.O_CREATE, 0)
}

// create makes a file in an examined folder. A file that is there by then, or a symbolic link that
// leads nowhere, is an error.
func create(path string, flag int, perm fs.FileMode) (*os.File, error) {
	above, name := split(path)
	folder, err := examine(above, uint32(os.Geteuid()))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	return openIn(int(folder.Fd()), name, path, flag|os.O_EXCL|unix.O_NOFOLLOW, perm)
}

// openIn opens a name in a folder; path is for messages.
func openIn(folder int, name, path string, flag int, perm fs.FileMode) (*os.File, error) {
	for {
		fd, err := unix.Openat(folder, name, flag|unix.O_CLOEXEC, uint32(perm.Perm()))
		if err == nil {
			return os.NewFile(uintptr(fd), path), nil
		}
		if err != unix.EINTR {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}
