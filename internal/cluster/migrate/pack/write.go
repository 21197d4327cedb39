// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// StreamSize says how long a stream is.
type StreamSize struct {
	Packed int64 // as it travels
	Raw    int64 // of the tar archive
}

// end is the last entry of a stream.
const end = ".weir-end"

// xattrPrefix begins the names of extended attributes in PAX archives.
const xattrPrefix = "SCHILY.xattr."

// Write packs the contents of a folder, and the folder's own attributes. Others may
// change the folder meanwhile: what vanishes is left out, a file that shrinks is filled
// up with zeros, and of one that grows what it had at first is packed. A file system
// that is mounted below the folder is an error, since it is not the folder's.
func Write(w io.Writer, folder string) (StreamSize, error) {
	return stream(w, func(raw io.Writer) error {
		root, err := openRoot(folder)
		if err != nil {
			return err
		}
		defer root.close()
		t := tar.NewWriter(raw)
		p := writer{out: t, seen: map[inode]string{}}
		if err := p.add(root, "."); err != nil {
			return fmt.Errorf("pack %s: %w", folder, err)
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: end, Mode: 0o600}); err != nil {
			return err
		}
		return t.Close()
	})
}

// Copy packs a stream that is an archive already, such as an engine's export.
func Copy(w io.Writer, archive io.Reader) (StreamSize, error) {
	return stream(w, func(raw io.Writer) error {
		_, err := io.Copy(raw, archive)
		return err
	})
}

// stream packs what fill writes.
func stream(w io.Writer, fill func(io.Writer) error) (s StreamSize, err error) {
	packed := &counter{w: w}
	z, err := zstd.NewWriter(packed, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2), zstd.WithEncoderCRC(true))
	if err != nil {
		return s, err
	}
	raw := &counter{w: z}
	err = fill(raw)
	if err != nil {
		z.Reset(nil) // no frame's end: the reader does not take it for whole
	}
	err = errors.Join(err, z.Close())
	return StreamSize{Packed: packed.n, Raw: raw.n}, err
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
	seen map[inode]string // of files with several names, the first
}

// add packs a file under a name, and after a folder its contents.
func (p *writer) add(n node, name string) error {
	if len(name) >= unix.PathMax {
		return fmt.Errorf("%.100s...: the name is longer than the %d bytes that a path may have", name, unix.PathMax)
	}
	h, err := p.header(n, name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	switch {
	case h == nil:
		return nil
	case h.Typeflag == tar.TypeReg:
		err = p.regular(n, h)
	case h.Typeflag == tar.TypeDir:
		if err = p.out.WriteHeader(h); err == nil {
			return p.within(n, name)
		}
	default:
		err = p.out.WriteHeader(h)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// within packs the contents of a folder.
func (p *writer) within(n node, folder string) error {
	names, err := n.names()
	if err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	for _, name := range names {
		full := path.Join(folder, name)
		child, err := n.at(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.Is(err, unix.EXDEV):
			return fmt.Errorf("%s: another file system is mounted there, which does not belong to the folder; unmount it", full)
		case err != nil:
			return fmt.Errorf("%s: %w", full, err)
		}
		err = p.add(child, full)
		child.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// header describes a file, nil for a socket.
func (p *writer) header(n node, name string) (h *tar.Header, err error) {
	h = &tar.Header{
		Format: tar.FormatPAX, Name: name, Mode: int64(n.st.Mode & 0o7777), Uid: int(n.st.Uid), Gid: int(n.st.Gid),
		ModTime: time.Unix(n.st.Mtim.Unix()),
	}
	switch n.kind() {
	case unix.S_IFSOCK:
		return nil, nil
	case unix.S_IFREG:
		h.Typeflag, h.Size = tar.TypeReg, n.st.Size
	case unix.S_IFDIR:
		h.Typeflag = tar.TypeDir
		h.Name += "/"
	case unix.S_IFLNK:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = n.link(); err != nil {
			return nil, err
		}
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	case unix.S_IFCHR, unix.S_IFBLK:
		h.Typeflag = tar.TypeChar
		if n.kind() == unix.S_IFBLK {
			h.Typeflag = tar.TypeBlock
		}
		h.Devmajor, h.Devminor = int64(unix.Major(n.st.Rdev)), int64(unix.Minor(n.st.Rdev))
	}
	if key := (inode{n.st.Dev, n.st.Ino}); n.st.Nlink > 1 && h.Typeflag == tar.TypeReg {
		if first, ok := p.seen[key]; ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
			return h, nil
		}
		p.seen[key] = name
	}
	h.PAXRecords, err = n.attributes()
	return h, err
}

// regular packs a file with content: as many bytes as it has when it is opened.
func (p *writer) regular(n node, h *tar.Header) error {
	f, err := n.open(0)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	h.Size = st.Size
	if err := p.out.WriteHeader(h); err != nil || h.Size == 0 {
		return err
	}
	missing := h.Size
	copied, err := io.CopyN(p.out, f, h.Size)
	if missing -= copied; errors.Is(err, io.EOF) {
		_, err = io.CopyN(p.out, zeros{}, missing) // it has shrunk
	}
	return err
}

// zeros are without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
