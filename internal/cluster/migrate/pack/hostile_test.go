// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// entry is one of an archive that a hostile node makes by hand.
type entry struct {
	tar.Header
	content string
}

// forged returns a packed archive of entries, with its end.
func forged(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	_, err := stream(&b, func(raw io.Writer) error {
		w := tar.NewWriter(raw)
		for _, e := range append(entries, entry{Header: tar.Header{Name: end, Typeflag: tar.TypeReg}}) {
			h := e.Header
			if h.Typeflag == tar.TypeReg {
				h.Size = int64(len(e.content))
			}
			h.Format = tar.FormatPAX
			if err := w.WriteHeader(&h); err != nil {
				return err
			}
			if _, err := io.WriteString(w, e.content); err != nil {
				return err
			}
		}
		return w.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name, content string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, content}
}

func made(kind byte, name, link string) entry {
	return entry{Header: tar.Header{Name: name, Linkname: link, Typeflag: kind, Mode: 0o755}}
}

// device returns a device file.
func device(kind byte, name string, major, minor int64) entry {
	return entry{Header: tar.Header{Name: name, Typeflag: kind, Mode: 0o666, Devmajor: major, Devminor: minor}}
}

// TestWhatAHostileNodeSendsStaysInItsFolder: no archive makes, changes, removes or
// opens anything outside of the folder that it is unpacked into.
func TestWhatAHostileNodeSendsStaysInItsFolder(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	cases := map[string]struct {
		entries []entry
		refused bool
	}{
		"a name that climbs":           {[]entry{file("../evil", "!")}, true},
		"a name that climbs later":     {[]entry{made(tar.TypeDir, "a/", ""), file("a/../../evil", "!")}, true},
		"an absolute name":             {[]entry{file(outside+"/evil", "!")}, true},
		"a link, then a file below":    {[]entry{made(tar.TypeSymlink, "x", outside), file("x/evil", "!")}, true},
		"a link, then a folder":        {[]entry{made(tar.TypeSymlink, "x", outside), made(tar.TypeDir, "x", "")}, true},
		"a link, then its content":     {[]entry{made(tar.TypeSymlink, "x", secret), file("x", "!")}, false},
		"a link to a link":             {[]entry{made(tar.TypeSymlink, "x", ".."), made(tar.TypeSymlink, "y", "x/.."), file("y/evil", "!")}, true},
		"a link within the folder":     {[]entry{made(tar.TypeDir, "a", ""), made(tar.TypeSymlink, "x", "a"), file("x/f", "!")}, true},
		"a hard link out":              {[]entry{made(tar.TypeLink, "x", "../"+filepath.Base(outside)+"/secret")}, true},
		"an absolute hard link":        {[]entry{made(tar.TypeLink, "x", secret)}, true},
		"a hard link through a link":   {[]entry{made(tar.TypeSymlink, "d", outside), made(tar.TypeLink, "x", "d/secret")}, true},
		"a hard link to a link":        {[]entry{made(tar.TypeSymlink, "d", secret), made(tar.TypeLink, "x", "d"), file("x", "!")}, false},
		"a file below a FIFO":          {[]entry{made(tar.TypeFifo, "x", ""), file("x/y", "!")}, true},
		"a disk":                       {[]entry{device(tar.TypeBlock, "sda", 8, 0)}, true},
		"the memory":                   {[]entry{device(tar.TypeChar, "mem", 1, 1)}, true},
		"a disk that looks like null":  {[]entry{device(tar.TypeBlock, "null", 1, 3)}, true},
		"a null device":                {[]entry{device(tar.TypeChar, "null", 1, 3)}, false},
		"a whiteout":                   {[]entry{device(tar.TypeChar, "gone", 0, 0)}, false},
		"a user below zero":            {[]entry{{tar.Header{Name: "x", Typeflag: tar.TypeReg, Uid: -1}, ""}}, true},
		"the folder itself as a file":  {[]entry{file(".", "!")}, true},
		"the folder itself as a link":  {[]entry{made(tar.TypeSymlink, ".", outside)}, true},
		"an entry of an unknown type":  {[]entry{made('Z', "x", "")}, true},
		"an attribute of no namespace": {[]entry{{tar.Header{Name: "x", Typeflag: tar.TypeReg, PAXRecords: map[string]string{xattrPrefix + "evil": "1"}}, ""}}, true},
		"an attribute that is too long": {[]entry{{tar.Header{Name: "x", Typeflag: tar.TypeReg,
			PAXRecords: map[string]string{xattrPrefix + "user.x": strings.Repeat("v", 70_000)}}, ""}}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() != 0 && strings.Contains(name, "device") {
				t.Skip("devices need root")
			}
			if err := os.WriteFile(secret, []byte(outsideSecret), 0o600); err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(t.TempDir(), "to")
			if err := os.Mkdir(to, 0o700); err != nil {
				t.Fatal(err)
			}
			before := listing(t, outside)
			done := make(chan error, 1)
			go func() {
				_, err := readAll(bytes.NewReader(forged(t, c.entries...)), to)
				done <- err
			}()
			select {
			case err := <-done:
				if (err != nil) != c.refused {
					t.Errorf("unpacked with %v, refused should be %v", err, c.refused)
				}
			case <-time.After(5 * time.Second):
				t.Error("unpacking stands still: something was opened that is no file")
				if f, err := os.OpenFile(filepath.Join(to, "x"), os.O_RDWR|unix.O_NONBLOCK, 0); err == nil {
					f.Close() // lets it go
				}
			}
			if after := listing(t, outside); after != before {
				t.Errorf("outside of the folder there was\n%sand is\n%s", before, after)
			}
			if list, err := os.ReadDir(filepath.Dir(to)); err != nil || len(list) != 1 {
				t.Errorf("beside the folder: %v, %v", list, err)
			}
		})
	}
}

// TestWhatAHostileNodeSendsIsBounded: more than was announced is refused before it is
// on the disk, and an archive that is small as it travels costs no memory.
func TestWhatAHostileNodeSendsIsBounded(t *testing.T) {
	limits := StreamBounds{Bytes: 1 << 20, Entries: 100}
	to := t.TempDir()
	for name, archive := range map[string][]byte{
		"one file":   forged(t, file("x", strings.Repeat("0", 1<<20+1))),
		"many files": forged(t, file("x", strings.Repeat("0", 1<<19)), file("y", strings.Repeat("0", 1<<19)), file("z", "0")),
		"empty files": func() []byte {
			var list []entry
			for i := range 101 {
				list = append(list, file(strings.Repeat("x", i+1), ""))
			}
			return forged(t, list...)
		}(),
		"a hole": sparse(t),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Read(bytes.NewReader(archive), to, limits); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%v, want ErrTooLarge", err)
			}
			if info, err := os.Stat(filepath.Join(to, "x")); err == nil && info.Size() > limits.Bytes {
				t.Errorf("%d bytes are on the disk", info.Size())
			}
		})
	}
	if _, err := Read(bytes.NewReader(forged(t, file("w", strings.Repeat("0", 1<<20)))), to, limits); err != nil {
		t.Errorf("exactly what is allowed: %v", err)
	}
	t.Run("as an archive", func(t *testing.T) {
		archive, size, err := Unpack(bytes.NewReader(forged(t, file("x", strings.Repeat("0", 2<<20)))), StreamBounds{Bytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer archive.Close()
		if _, err := io.Copy(io.Discard, archive); !errors.Is(err, ErrTooLarge) || size().Raw > 2<<20 {
			t.Errorf("%v after %d bytes, want ErrTooLarge", err, size().Raw)
		}
	})
	t.Run("a window of a gigabyte", func(t *testing.T) {
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b, zstd.WithWindowSize(512<<20), zstd.WithSingleSegment(false))
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			if _, err := z.Write(make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(&b, to, limits); !errors.Is(err, zstd.ErrWindowSizeExceeded) {
			t.Errorf("%v, want that its window is too large", err)
		}
	})
}

// TestHeadersAreNotKept: of the headers of folders, which may have a megabyte each and none on the
// wire, nothing is kept but names and times.
func TestHeadersAreNotKept(t *testing.T) {
	var list []entry
	for i := range 64 {
		list = append(list, entry{tar.Header{Name: strconv.Itoa(i) + "/", Typeflag: tar.TypeDir, Mode: 0o755, PAXRecords: map[string]string{"WEIR.x": strings.Repeat("x", 1_000_000)}}, ""})
	}
	packed := forged(t, list...)
	raw, err := decoder(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, kept, read := live(), int64(0), 0
	watch := readerFunc(func(p []byte) (int, error) {
		n, err := raw.Read(p)
		if read += n; read > 60_000_000 && kept == 0 { // of 64 folders
			kept = live() - before
		}
		return n, err
	})
	if err := unpack(watch, t.TempDir(), StreamBounds{Bytes: 1 << 20, Entries: 100}); err != nil {
		t.Fatal(err)
	}
	if kept == 0 || kept > 20<<20 {
		t.Errorf("a stream of %d bytes: %d MB are kept", len(packed), kept>>20)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// sparse returns an archive with a file that is all hole, as GNU tar packs it.
func sparse(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	_, err := stream(&b, func(raw io.Writer) error {
		const sizes = "1\n0\n0\n" // one piece: at 0, of no length
		w := tar.NewWriter(raw)
		h := tar.Header{Name: "GNUSparseFile.0/x", Typeflag: tar.TypeReg, Size: 512, Format: tar.FormatPAX,
			PAXRecords: map[string]string{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "x", "GNU.sparse.realsize": "8000000000000"}}
		if err := writeSparse(w, raw, &h, sizes); err != nil {
			return err
		}
		return w.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// writeSparse writes what archive/tar refuses to write: it reserves these records for
// itself and does not write them.
func writeSparse(w *tar.Writer, raw io.Writer, h *tar.Header, content string) error {
	var records strings.Builder
	for key, value := range h.PAXRecords {
		line := " " + key + "=" + value + "\n"
		size := len(line) + 2
		if size > 99 {
			size++
		}
		records.WriteString(itoa(size) + line)
	}
	var pax bytes.Buffer
	inner := tar.NewWriter(&pax)
	// A header of type x by way of an ordinary one, whose type is then put in.
	if err := inner.WriteHeader(&tar.Header{Name: "PaxHeaders/x", Size: int64(records.Len()), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	if _, err := io.WriteString(inner, records.String()); err != nil {
		return err
	}
	if err := inner.Flush(); err != nil {
		return err
	}
	block := pax.Bytes()
	block[156] = 'x'
	sum := 0
	for i, c := range block[:512] {
		if i >= 148 && i < 156 {
			c = ' '
		}
		sum += int(c)
	}
	copy(block[148:156], []byte(octal(sum)))
	if _, err := raw.Write(block); err != nil {
		return err
	}
	plain := tar.Header{Name: h.Name, Typeflag: tar.TypeReg, Size: h.Size, Format: tar.FormatUSTAR}
	if err := w.WriteHeader(&plain); err != nil {
		return err
	}
	data := make([]byte, h.Size)
	copy(data, content)
	_, err := w.Write(data)
	return err
}

func itoa(n int) string { return strconv.Itoa(n) }

func octal(n int) string { return fmt.Sprintf("%06o\x00 ", n) }
