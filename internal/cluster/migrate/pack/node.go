// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// node is a file of any type, by a descriptor that does not open it (O_PATH): a FIFO
// does not block and a device does not notice. All that is asked about the file is
// asked by that descriptor, so whatever happens to its name meanwhile, the answers are
// about one file.
type node struct {
	fd int
	st unix.Stat_t
}

// below says how the kernel resolves names: it refuses a name that leads out of its
// folder, through a link, or into another file system that is mounted there.
const below = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// tries is how often a name is resolved: the kernel asks for another try when a folder
// is renamed meanwhile (EAGAIN).
const tries = 100

// openRoot opens the folder that all names are below. Its own path may have links: it
// is the engine's.
func openRoot(folder string) (node, error) {
	fd, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return node{}, &fs.PathError{Op: "open", Path: folder, Err: err}
	}
	return stat(fd)
}

// stat makes a node of a descriptor, which is closed if that fails.
func stat(fd int) (node, error) {
	n := node{fd: fd}
	if err := unix.Fstat(fd, &n.st); err != nil {
		_ = unix.Close(fd)
		return node{}, os.NewSyscallError("fstat", err)
	}
	return n, nil
}

// openBelow opens a name below a folder.
func openBelow(dir int, name string, flags int, mode uint32) (fd int, err error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW), Mode: uint64(mode), Resolve: below}
	for range tries {
		if fd, err = unix.Openat2(dir, name, &how); !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return -1, &fs.PathError{Op: "openat2", Path: name, Err: err}
	}
	return fd, nil
}

// at opens the file of a name in the folder n. A symbolic link is opened itself, not
// followed.
func (n node) at(name string) (node, error) {
	fd, err := openBelow(n.fd, name, unix.O_PATH, 0)
	if err != nil {
		return node{}, err
	}
	return stat(fd)
}

func (n node) close() { _ = unix.Close(n.fd) } // of an O_PATH descriptor nothing is left to write

// kind returns the file's type, e.g. unix.S_IFREG.
func (n node) kind() uint32 { return n.st.Mode & unix.S_IFMT }

// path leads to exactly this file, for calls that take no such descriptor.
func (n node) path() string { return fmt.Sprintf("/proc/self/fd/%d", n.fd) }

// open opens the regular file or folder for reading.
func (n node) open(flags int) (*os.File, error) {
	fd, err := unix.Open(n.path(), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return nil, os.NewSyscallError("open", err)
	}
	return os.NewFile(uintptr(fd), n.path()), nil
}

// names returns the names of the files in the folder, in order.
func (n node) names() ([]string, error) {
	f, err := n.open(unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := f.Readdirnames(-1)
	slices.Sort(list)
	return list, err
}

// link returns the path to which a symbolic link leads.
func (n node) link() (string, error) {
	text := make([]byte, unix.PathMax)
	size, err := unix.Readlinkat(n.fd, "", text)
	if err != nil {
		return "", os.NewSyscallError("readlinkat", err)
	}
	return string(text[:size]), nil
}

// attributes returns the file's extended attributes as PAX records.
func (n node) attributes() (map[string]string, error) {
	names := make([]byte, 4096)
	size, err := unix.Listxattr(n.path(), names)
	if errors.Is(err, unix.ENOTSUP) || size == 0 && err == nil {
		return nil, nil
	}
	if errors.Is(err, unix.ERANGE) {
		names = make([]byte, 64<<10) // the kernel's most
		size, err = unix.Listxattr(n.path(), names)
	}
	if err != nil {
		return nil, os.NewSyscallError("listxattr", err)
	}
	records := map[string]string{}
	value := make([]byte, 64<<10)
	for _, name := range bytes.Split(bytes.TrimSuffix(names[:size], []byte{0}), []byte{0}) {
		size, err := unix.Getxattr(n.path(), string(name), value)
		if errors.Is(err, unix.ENODATA) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return nil, os.NewSyscallError("getxattr "+string(name), err)
		}
		records[xattrPrefix+string(name)] = string(value[:size])
	}
	return records, nil
}
