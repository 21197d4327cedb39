// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// unpacker makes what an archive says below its root.
type unpacker struct {
	root    node
	limits  StreamBounds
	bytes   int64
	entries int64
	folders []folder // whose times come last, since files change them
}

// folder is what is kept of a folder's header, of which a hostile node's has a megabyte.
type folder struct {
	name string
	time time.Time
}

// take makes one file. Its folder is opened first, below the root and through no link,
// and all the rest is done by descriptors.
func (u *unpacker) take(h *tar.Header, content io.Reader) error {
	name := clean(h.Name)
	if !filepath.IsLocal(name) {
		return errors.New("the name leads out of the folder")
	}
	if err := u.allow(h); err != nil {
		return err
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return errors.New("the folder itself is no folder")
		}
		u.folders = append(u.folders, folder{strings.Clone(name), h.ModTime})
		return attributes(u.root, h)
	}
	dir, err := u.folder(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.close()
	base := path.Base(name)
	if h.Typeflag != tar.TypeDir {
		if err := unix.Unlinkat(dir.fd, base, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("another file is in the way: %w", err)
		}
	}
	if err := u.make(dir, base, h, content); err != nil || h.Typeflag == tar.TypeLink {
		return err
	}
	n, err := dir.at(base)
	if err != nil {
		return err
	}
	defer n.close()
	if n.kind() != kinds[h.Typeflag] {
		return errors.New("another file is in its place")
	}
	if h.Typeflag == tar.TypeDir {
		u.folders = append(u.folders, folder{strings.Clone(name), h.ModTime})
	}
	return attributes(n, h)
}

func clean(name string) string { return path.Clean(strings.TrimSuffix(name, "/")) }

// allow says why an entry is not taken, before anything of it is made.
func (u *unpacker) allow(h *tar.Header) error {
	if h.Uid < 0 || h.Gid < 0 || h.Uid >= math.MaxUint32 || h.Gid >= math.MaxUint32 {
		return fmt.Errorf("owner %d:%d cannot be", h.Uid, h.Gid)
	}
	if u.entries++; u.entries > u.limits.Entries {
		return fmt.Errorf("%w: over %d files", ErrTooLarge, u.limits.Entries)
	}
	if h.Typeflag == tar.TypeReg {
		if h.Size > u.limits.Bytes-u.bytes {
			return fmt.Errorf("%w: %d bytes where %d are left of %d", ErrTooLarge, h.Size, u.limits.Bytes-u.bytes, u.limits.Bytes)
		}
		u.bytes += h.Size
	}
	if u.limits.claim != nil {
		if err := u.limits.claim.take(amount{entryBytes, 1}); err != nil {
			return err
		}
	}
	if (h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock) && !harmless(h) {
		return fmt.Errorf("the device %d:%d is not taken from another machine; remove its file there", h.Devmajor, h.Devminor)
	}
	if u.limits.Accept != nil {
		return u.limits.Accept(h)
	}
	return nil
}

// standard are the devices that every container has: null, zero, full, random, urandom,
// tty, console and ptmx.
var standard = [][2]int64{{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, {5, 0}, {5, 1}, {5, 2}}

// harmless says whether a device may be made: an overlay's whiteout, or one that every
// container may use.
func harmless(h *tar.Header) bool {
	device := [2]int64{h.Devmajor, h.Devminor}
	return h.Typeflag == tar.TypeChar && (device == [2]int64{} || slices.Contains(standard, device))
}

// folder opens one below the root.
func (u *unpacker) folder(name string) (node, error) {
	fd, err := openBelow(u.root.fd, name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return node{}, err
	}
	return stat(fd)
}

// kinds has the type of a file for each type of an entry.
var kinds = map[byte]uint32{
	tar.TypeReg: unix.S_IFREG, tar.TypeDir: unix.S_IFDIR, tar.TypeSymlink: unix.S_IFLNK,
	tar.TypeFifo: unix.S_IFIFO, tar.TypeChar: unix.S_IFCHR, tar.TypeBlock: unix.S_IFBLK,
}

func (u *unpacker) make(dir node, base string, h *tar.Header, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeReg:
		return regular(dir, base, claiming{content, u.limits.claim})
	case tar.TypeDir:
		if err := unix.Mkdirat(dir.fd, base, 0o700); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	case tar.TypeLink:
		return u.link(dir, base, clean(h.Linkname))
	case tar.TypeSymlink:
		return unix.Symlinkat(h.Linkname, dir.fd, base)
	case tar.TypeFifo:
		return unix.Mknodat(dir.fd, base, unix.S_IFIFO|0o600, 0)
	case tar.TypeChar:
		return unix.Mknodat(dir.fd, base, unix.S_IFCHR|0o600, int(unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))))
	}
	return fmt.Errorf("entry of unknown type %q", h.Typeflag)
}

// regular makes a file with its content.
func regular(dir node, base string, content io.Reader) error {
	fd, err := openBelow(dir.fd, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// link gives a file that is below the root another name.
func (u *unpacker) link(dir node, base, to string) error {
	if !filepath.IsLocal(to) {
		return fmt.Errorf("the link to %.200s leads out of the folder", to)
	}
	from, err := u.folder(path.Dir(to))
	if err != nil {
		return err
	}
	defer from.close()
	return unix.Linkat(from.fd, path.Base(to), dir.fd, base, 0)
}

// attributes sets owner, mode, extended attributes and time, in an order in which
// none undoes another.
func attributes(n node, h *tar.Header) error {
	if err := unix.Fchownat(n.fd, "", h.Uid, h.Gid, unix.AT_EMPTY_PATH); err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	if h.Typeflag != tar.TypeSymlink {
		if err := unix.Chmod(n.path(), uint32(h.Mode&0o7777)); err != nil {
			return fmt.Errorf("mode: %w", err)
		}
	}
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, xattrPrefix)
		if !ok {
			continue
		}
		if err := unix.Setxattr(n.path(), name, []byte(value), 0); err != nil {
			return fmt.Errorf("attribute %.200s: %w", name, err)
		}
	}
	if h.Typeflag == tar.TypeDir {
		return nil // see finish
	}
	return setTime(n, h.ModTime)
}

// finish sets the folders' times, the inner ones first.
func (u *unpacker) finish() error {
	for _, f := range slices.Backward(u.folders) {
		n, err := u.folder(f.name)
		if err != nil {
			return err
		}
		err = setTime(n, f.time)
		n.close()
		if err != nil {
			return err
		}
	}
	return nil
}

func setTime(n node, t time.Time) error {
	stamp, err := unix.TimeToTimespec(t)
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(n.fd, "", []unix.Timespec{stamp, stamp}, unix.AT_EMPTY_PATH)
}
