// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"

	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// seeds returns archives of each kind of entry.
func seeds(f *testing.F) [][]byte {
	return [][]byte{
		forged(f), forged(f, file("a", "text")), forged(f, made(tar.TypeDir, "d/", ""), file("d/f", "x"), made(tar.TypeLink, "l", "d/f")),
		forged(f, made(tar.TypeSymlink, "s", ".."), file("s/x", "!")), forged(f, made(tar.TypeFifo, "p", "")), forged(f, device(tar.TypeChar, "w", 0, 0)),
		forged(f, entry{tar.Header{Name: "x", Typeflag: tar.TypeReg, PAXRecords: map[string]string{xattrPrefix + "user.a": "b"}}, "text"}),
	}
}

// contained unpacks into a folder and fails if anything is made beside it, or more in
// it than the limits say.
func contained(t *testing.T, do func(folder string, limits StreamBounds)) {
	top := t.TempDir()
	folder := filepath.Join(top, "to")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	do(folder, StreamBounds{Bytes: 1 << 16, Entries: 64})
	if list, err := os.ReadDir(top); err != nil || len(list) != 1 {
		t.Fatalf("beside the folder: %v, %v", list, err)
	}
	files, bytes := int64(0), int64(0)
	err := filepath.WalkDir(folder, func(_ string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		files++
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size() / int64(info.Sys().(*syscall.Stat_t).Nlink)
		}
		return nil
	})
	if err != nil || files > 65 || bytes > 1<<16 {
		t.Fatalf("%d files of %d bytes, %v", files, bytes, err)
	}
}

// FuzzRead unpacks packed streams.
func FuzzRead(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed)
		f.Add(seed[:len(seed)/2])
	}
	boundtest.Seeds[[]byte](f, bound.Message)
	f.Fuzz(func(t *testing.T, data []byte) {
		boundtest.Hold(t, func() {
			contained(t, func(folder string, limits StreamBounds) { _, _ = Read(bytes.NewReader(data), folder, limits) })
			if archive, size, err := Unpack(bytes.NewReader(data), StreamBounds{Bytes: 1 << 16}); err == nil {
				_, _ = io.Copy(io.Discard, archive)
				archive.Close()
				if raw := size().Raw; raw > 1<<16+1 {
					t.Fatalf("%d bytes of an archive of at most %d", raw, 1<<16)
				}
			}
		})
	})
}

// FuzzTar unpacks archives, past zstd, whose checksum would keep most of them out.
func FuzzTar(f *testing.F) {
	for _, seed := range seeds(f) {
		z, err := zstd.NewReader(bytes.NewReader(seed))
		if err != nil {
			f.Fatal(err)
		}
		raw, err := io.ReadAll(z)
		z.Close()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	boundtest.Seeds[[]byte](f, bound.Message)
	f.Fuzz(func(t *testing.T, data []byte) {
		boundtest.Hold(t, func() {
			contained(t, func(folder string, limits StreamBounds) { _ = unpack(bytes.NewReader(data), folder, limits) })
		})
	})
}
