// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// Size is how long a stream is.
type Size struct {
	Packed int64 // as it travels
	Raw    int64 // of the tar archive
}

// end is the last entry of a stream.
const end = ".weir-end"

// xattrPrefix is how PAX archives name extended attributes.
const xattrPrefix = "SCHILY.xattr."

// Write packs what is in a folder, and the folder's own attributes.
func Write(w io.Writer, folder string) (Size, error) {
	return stream(w, func(raw io.Writer) error {
		t := tar.NewWriter(raw)
		p := writer{out: t, root: folder, seen: map[inode]string{}}
		if err := filepath.WalkDir(folder, p.add); err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: end, Mode: 0o600}); err != nil {
			return err
		}
		return t.Close()
	})
}

// Copy packs a stream that is an archive already, such as an engine's export.
func Copy(w io.Writer, archive io.Reader) (Size, error) {
	return stream(w, func(raw io.Writer) error {
		_, err := io.Copy(raw, archive)
		return err
	})
}

// stream packs what fill writes.
func stream(w io.Writer, fill func(io.Writer) error) (s Size, err error) {
	packed := &counter{w: w}
	z, err := zstd.NewWriter(packed, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2), zstd.WithEncoderCRC(true))
	if err != nil {
		return s, err
	}
	raw := &counter{w: z}
	err = fill(raw)
	if err != nil {
		z.Reset(nil) // no frame's end: nobody takes it for whole
	}
	err = errors.Join(err, z.Close())
	return Size{Packed: packed.n, Raw: raw.n}, err
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

type inode struct{ dev, ino uint64 }

type writer struct {
	out  *tar.Writer
	root string
	seen map[inode]string // of files with several names, the first
}

// add is called for each file, folders before what is in them.
func (p *writer) add(path string, entry fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	name, err := filepath.Rel(p.root, path)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	h := &tar.Header{
		Format: tar.FormatPAX, Name: name, Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid),
		ModTime: time.Unix(st.Mtim.Unix()),
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		return nil
	case unix.S_IFREG:
		h.Typeflag, h.Size = tar.TypeReg, st.Size
	case unix.S_IFDIR:
		h.Typeflag = tar.TypeDir
		h.Name += "/"
	case unix.S_IFLNK:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = os.Readlink(path); err != nil {
			return err
		}
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	case unix.S_IFCHR, unix.S_IFBLK:
		h.Typeflag = tar.TypeChar
		if st.Mode&unix.S_IFMT == unix.S_IFBLK {
			h.Typeflag = tar.TypeBlock
		}
		h.Devmajor, h.Devminor = int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev))
	}
	if key := (inode{st.Dev, st.Ino}); st.Nlink > 1 && h.Typeflag == tar.TypeReg {
		if first, ok := p.seen[key]; ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
		} else {
			p.seen[key] = name
		}
	}
	if h.Typeflag != tar.TypeLink {
		if h.PAXRecords, err = attributes(path); err != nil {
			return err
		}
	}
	if err := p.out.WriteHeader(h); err != nil {
		return fmt.Errorf("pack %s: %w", path, err)
	}
	if h.Typeflag != tar.TypeReg || h.Size == 0 {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.CopyN(p.out, f, h.Size); err != nil {
		return fmt.Errorf("pack %s: %w", path, err)
	}
	return nil
}

// attributes are a file's extended ones as PAX records.
func attributes(path string) (map[string]string, error) {
	names := make([]byte, 4096)
	n, err := unix.Llistxattr(path, names)
	if errors.Is(err, unix.ENOTSUP) || n == 0 && err == nil {
		return nil, nil
	}
	if errors.Is(err, unix.ERANGE) {
		names = make([]byte, 64<<10) // the kernel's most
		n, err = unix.Llistxattr(path, names)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "llistxattr", Path: path, Err: err}
	}
	records := map[string]string{}
	value := make([]byte, 64<<10)
	for _, name := range bytes.Split(bytes.TrimSuffix(names[:n], []byte{0}), []byte{0}) {
		size, err := unix.Lgetxattr(path, string(name), value)
		if err != nil {
			return nil, &fs.PathError{Op: "lgetxattr " + string(name), Path: path, Err: err}
		}
		records[xattrPrefix+string(name)] = string(value[:size])
	}
	return records, nil
}
