// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// ErrCutOff says that a stream ended too early.
var ErrCutOff = errors.New("the stream was cut off")

// Read unpacks a stream of Write's into a folder, which exists. Files that are
// there under the same names are replaced.
func Read(r io.Reader, folder string) (Size, error) {
	packed := &source{r: r}
	z, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(2))
	if err != nil {
		return Size{}, err
	}
	defer z.Close()
	raw := &source{r: z}
	err = unpack(raw, folder)
	return Size{Packed: packed.n.Load(), Raw: raw.n.Load()}, err
}

// Unpack is a stream's archive, for an engine that reads archives itself. It ends
// with an error if the stream was cut off.
func Unpack(r io.Reader) (archive io.ReadCloser, size func() Size, err error) {
	packed := &source{r: r}
	z, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(2))
	if err != nil {
		return nil, nil, err
	}
	raw := &source{r: z}
	return struct {
		io.Reader
		io.Closer
	}{notEmpty{raw}, z.IOReadCloser()}, func() Size { return Size{Packed: packed.n.Load(), Raw: raw.n.Load()} }, nil
}

// notEmpty fails at the end of a stream in which nothing was: no archive is empty.
type notEmpty struct{ *source }

func (s notEmpty) Read(p []byte) (int, error) {
	n, err := s.source.Read(p)
	if errors.Is(err, io.EOF) && s.n.Load() == 0 {
		err = ErrCutOff
	}
	return n, err
}

// source counts what was read of r, which the decoder does beside us.
type source struct {
	r io.Reader
	n atomic.Int64
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n.Add(int64(n))
	return n, err
}

func unpack(raw io.Reader, folder string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	u := unpacker{root: root, folder: folder}
	t := tar.NewReader(raw)
	for {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return ErrCutOff
		case err != nil:
			return err
		case h.Name == end:
			if err := u.finish(); err != nil {
				return err
			}
			_, err := io.Copy(io.Discard, raw) // the frame's end, with its checksum
			return err
		}
		if err := u.take(h, t); err != nil {
			return fmt.Errorf("unpack %s: %w", h.Name, err)
		}
	}
}

type unpacker struct {
	root    *os.Root
	folder  string
	folders []*tar.Header // whose times come last, since files change them
}

// take makes one file. Every name goes through root first, which refuses what leads
// out of the folder; calls that root has none for then use the checked parent.
func (u *unpacker) take(h *tar.Header, content io.Reader) error {
	name := path.Clean(strings.TrimSuffix(h.Name, "/"))
	if !filepath.IsLocal(name) {
		return fmt.Errorf("the name leads out of the folder")
	}
	parent, err := u.root.OpenFile(path.Dir(name), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer parent.Close()
	dir, base := int(parent.Fd()), path.Base(name)
	if h.Typeflag == tar.TypeDir {
		err = u.root.Mkdir(name, 0o700)
		if info, statErr := u.root.Lstat(name); statErr == nil && info.IsDir() {
			err = nil
		}
		u.folders = append(u.folders, h)
	} else {
		if name == "." {
			return fmt.Errorf("the folder itself is no folder")
		}
		if err := u.root.RemoveAll(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		err = u.make(h, name, dir, base, content)
	}
	if err != nil || h.Typeflag == tar.TypeLink {
		return err
	}
	return u.attributes(h, dir, base)
}

func (u *unpacker) make(h *tar.Header, name string, dir int, base string, content io.Reader) error {
	mode := uint32(h.Mode & 0o7777)
	switch h.Typeflag {
	case tar.TypeReg:
		f, err := u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Close())
	case tar.TypeLink:
		return u.root.Link(path.Clean(h.Linkname), name)
	case tar.TypeSymlink:
		return unix.Symlinkat(h.Linkname, dir, base)
	case tar.TypeFifo:
		return unix.Mknodat(dir, base, unix.S_IFIFO|mode, 0)
	case tar.TypeChar:
		return unix.Mknodat(dir, base, unix.S_IFCHR|mode, int(unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))))
	case tar.TypeBlock:
		return unix.Mknodat(dir, base, unix.S_IFBLK|mode, int(unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))))
	}
	return fmt.Errorf("entry of unknown type %q", h.Typeflag)
}

// attributes sets owner, mode, extended attributes and time, in an order in which
// none undoes another.
func (u *unpacker) attributes(h *tar.Header, dir int, base string) error {
	if err := unix.Fchownat(dir, base, h.Uid, h.Gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeSymlink {
		if err := unix.Fchmodat(dir, base, uint32(h.Mode&0o7777), 0); err != nil {
			return err
		}
	}
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, xattrPrefix)
		if !ok {
			continue
		}
		if err := unix.Lsetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", dir, base), name, []byte(value), 0); err != nil {
			return fmt.Errorf("attribute %s: %w", name, err)
		}
	}
	if h.Typeflag == tar.TypeDir {
		return nil // see finish
	}
	return setTime(dir, base, h.ModTime)
}

// finish sets the folders' times, the inner ones first.
func (u *unpacker) finish() error {
	for i := len(u.folders) - 1; i >= 0; i-- {
		h := u.folders[i]
		name := path.Clean(strings.TrimSuffix(h.Name, "/"))
		parent, err := u.root.OpenFile(path.Dir(name), os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		err = setTime(int(parent.Fd()), path.Base(name), h.ModTime)
		parent.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func setTime(dir int, base string, t time.Time) error {
	stamp, err := unix.TimeToTimespec(t)
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(dir, base, []unix.Timespec{stamp, stamp}, unix.AT_SYMLINK_NOFOLLOW)
}
