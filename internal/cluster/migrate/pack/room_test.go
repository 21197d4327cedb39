// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk returns a file system of so many MiB, for a test alone.
func smallDisk(t *testing.T, mib int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("to mount a file system needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,nr_inodes=4k", mib)); err != nil {
		t.Skip("no tmpfs can be mounted: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// lowest is the least room that was seen on a file system.
type lowest struct {
	mu           sync.Mutex
	bytes, files int64
}

func (l *lowest) look(t *testing.T, dir string) unix.Statfs_t {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Error(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes, l.files = min(l.bytes, int64(st.Bavail)*st.Bsize), min(l.files, int64(st.Ffree))
	return st
}

// looking looks at the disk with each piece that is read.
type looking struct {
	io.Reader
	look func()
}

func (l looking) Read(p []byte) (int, error) {
	l.look()
	return l.Reader.Read(p[:min(len(p), 64<<10)])
}

// TestManyStreamsLeaveTheReserve: streams that arrive at once, each of which the disk has
// room for, do not fill it together.
func TestManyStreamsLeaveTheReserve(t *testing.T) {
	large := func(i int) []byte {
		return forged(t, file(fmt.Sprint("x", i), strings.Repeat("0", 12<<20)))
	}
	many := func(i int) []byte {
		var list []entry
		for n := range 900 {
			list = append(list, file(fmt.Sprint("x", i, "-", n), ""))
		}
		return forged(t, list...)
	}
	for name, c := range map[string]struct {
		stream func(i int) []byte
		take   func(stream io.Reader, dir string, i int) error
	}{
		"large files": {large, func(stream io.Reader, dir string, _ int) error {
			limits, err := Room(dir, 1<<30)
			if err != nil {
				return err
			}
			_, err = Read(stream, dir, limits)
			return err
		}},
		"many files": {many, func(stream io.Reader, dir string, _ int) error {
			limits, err := Room(dir, 1<<30)
			if err != nil {
				return err
			}
			_, err = Read(stream, dir, limits)
			return err
		}},
		"archives": {large, func(stream io.Reader, dir string, i int) error {
			limits, err := Room(dir, 1<<30)
			if err != nil {
				return err
			}
			archive, _, err := Unpack(stream, limits)
			if err != nil {
				return err
			}
			defer archive.Close()
			f, err := os.Create(filepath.Join(dir, fmt.Sprint("archive", i)))
			if err != nil {
				return err
			}
			_, err = io.Copy(f, archive)
			return errors.Join(err, f.Close())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := smallDisk(t, 64)
			least := &lowest{bytes: math.MaxInt64, files: math.MaxInt64}
			st := least.look(t, dir)
			const streams = 8
			var all sync.WaitGroup
			errs := make([]error, streams)
			one := func(i int) {
				errs[i] = c.take(looking{bytes.NewReader(c.stream(i)), func() { least.look(t, dir) }}, dir, i)
			}
			one(0) // of those that go on side by side, all may find in the middle that there is no room
			for i := 1; i < streams; i++ {
				all.Go(func() { one(i) })
			}
			all.Wait()
			now := least.look(t, dir)
			if kept := int64(st.Blocks) * st.Bsize / 20; least.bytes < kept {
				t.Errorf("%d bytes were left, want at least %d", least.bytes, kept)
			}
			if kept := int64(st.Files / 20); least.files < kept {
				t.Errorf("%d files could still be made, want at least %d", least.files, kept)
			}
			taken := 0
			for _, err := range errs {
				switch {
				case err == nil:
					taken++
				case !errors.Is(err, ErrNoRoom) && !errors.Is(err, ErrTooLarge):
					t.Error(err)
				}
			}
			if taken == 0 || taken == streams {
				t.Errorf("%d of %d streams were taken", taken, streams)
			}
			t.Logf("%d of %d streams were taken; %d bytes and %d files were left", taken, streams, least.bytes, least.files)
			var rest StreamBounds
			if rest, errs[0] = Room(dir, 1<<30); errs[0] != nil || rest.Bytes != int64(now.Bavail)*now.Bsize-int64(st.Blocks)*st.Bsize/20 {
				t.Errorf("what the streams have claimed is not given back: room for %d bytes, %v", rest.Bytes, errs[0])
			}
		})
	}
}
