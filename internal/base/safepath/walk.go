// SPDX-License-Identifier: Apache-2.0

package safepath

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// mostLinks bounds how many symbolic links a path may have, as the kernel does.
const mostLinks = 40

// walk is the way to a path.
type walk struct {
	path string // as the caller has written it, for messages
	self uint32 // the user besides root to whom all may belong
	left []string
	open *os.File // where the walk has come to; its name is the path without symbolic links
	// sticky says that open is a folder in which other users may make files.
	sticky bool
	links  int
}

// find opens a path by O_PATH, after it has examined all on the way to it.
func find(path string, self uint32) (*os.File, error) {
	full, err := absolute(path)
	if err != nil {
		return nil, err
	}
	w := &walk{path: path, self: self, left: strings.Split(full, "/")}
	for err = w.restart(); err == nil && len(w.left) > 0; {
		err = w.step()
	}
	if err != nil {
		w.open.Close()
		return nil, err
	}
	return w.open, nil
}

// absolute returns path from / on. It does not shorten "..", which leads elsewhere after a
// symbolic link.
func absolute(path string) (string, error) {
	if filepath.IsAbs(path) {
		return path, nil
	}
	if path == "" {
		return "", &fs.PathError{Op: "open", Path: path, Err: unix.ENOENT}
	}
	here, err := os.Getwd()
	return here + "/" + path, err
}

// restart begins at / again.
func (w *walk) restart() error {
	root, err := openAt(unix.AT_FDCWD, "/", "/")
	if err != nil {
		return w.failed(err)
	}
	return w.enter(root)
}

// step takes the next name of the path.
func (w *walk) step() error {
	name := w.left[0]
	w.left = w.left[1:]
	if name == "" || name == "." {
		return nil
	}
	next, err := openAt(int(w.open.Fd()), name, filepath.Join(w.open.Name(), name))
	if err != nil {
		return w.failed(err)
	}
	info, err := next.Stat()
	if err == nil && info.IsDir() {
		return w.enter(next)
	}
	if err == nil && w.sticky {
		err = w.refuse(w.open, shared)
	}
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		defer next.Close()
		return w.follow(next)
	}
	if err == nil && len(w.left) > 0 {
		err = w.failed(unix.ENOTDIR)
	}
	if err != nil {
		next.Close()
		return err
	}
	return w.enter(next)
}

// follow puts the text of a symbolic link in the place of its name.
func (w *walk) follow(link *os.File) error {
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(link.Fd()), "", text)
	if w.links++; err == nil && w.links > mostLinks {
		err = unix.ELOOP
	}
	if err != nil {
		return w.failed(err)
	}
	target := string(text[:n])
	w.left = append(strings.Split(target, "/"), w.left...)
	if filepath.IsAbs(target) {
		return w.restart()
	}
	return nil
}

// enter examines what was opened, and goes on from there.
func (w *walk) enter(next *os.File) error {
	if w.open != nil {
		w.open.Close()
	}
	w.open = next
	owner, mode, err := stat(next)
	if err != nil {
		return w.failed(err)
	}
	w.sticky = false
	switch open := mode.Perm()&0o022 != 0; {
	case !mode.IsDir() && !mode.IsRegular(): // of which Open and Folder say what it is
	case owner != 0 && owner != w.self:
		return w.refuse(next, foreign)
	case open && mode.IsDir() && mode&fs.ModeSticky != 0:
		w.sticky = true
	case open && !(mode.IsDir() && configMap(next)):
		return w.refuse(next, writable)
	}
	return nil
}

// failed returns an error about the path.
func (w *walk) failed(err error) error { return &fs.PathError{Op: "open", Path: w.path, Err: err} }

// openAt opens a name in a folder, but for reading or writing; a symbolic link is not followed.
func openAt(folder int, name, path string) (*os.File, error) {
	for {
		fd, err := unix.Openat(folder, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			return os.NewFile(uintptr(fd), path), nil
		}
		if err != unix.EINTR {
			return nil, err
		}
	}
}
