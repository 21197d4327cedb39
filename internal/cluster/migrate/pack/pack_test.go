// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// listing returns a folder as text: all that a stream has to carry.
func listing(t *testing.T, folder string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		name, _ := filepath.Rel(folder, path)
		links := st.Nlink
		if info.IsDir() {
			links = 0
		}
		attributes, err := attributesOf(path)
		fmt.Fprintf(&b, "%s %o %d:%d %d.%d links %d rdev %d %v", name, st.Mode, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec, links, st.Rdev, attributes)
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %d bytes %.20q", len(text), text)
		}
		if link, err := os.Readlink(path); err == nil {
			fmt.Fprintf(&b, " -> %s", link)
		}
		b.WriteString("\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func attributesOf(path string) (map[string]string, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	n := node{fd: fd}
	defer n.close()
	return n.attributes()
}

// layer makes what an overlay's upper folder may hold.
func layer(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("it makes devices and sets owners, which needs root")
	}
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	must(os.MkdirAll(in("a/b"), 0o750))
	must(os.WriteFile(in("a/b/data"), bytes.Repeat([]byte("0123456789"), 100_000), 0o640))
	must(os.WriteFile(in("a/empty"), nil, 0o4755))
	must(os.Chmod(in("a/empty"), 0o755|os.ModeSetuid))
	must(os.Link(in("a/b/data"), in("a/second-name")))
	must(os.Symlink("/etc/passwd", in("a/link")))
	must(os.Lchown(in("a/link"), 7, 8))
	must(os.Chown(in("a/b/data"), 1000, 1001))
	must(unix.Mknod(in("a/deleted"), unix.S_IFCHR, 0)) // a whiteout
	must(unix.Mkfifo(in("a/fifo"), 0o600))
	must(os.Mkdir(in("opaque"), 0o700))
	must(unix.Lsetxattr(in("opaque"), "trusted.overlay.opaque", []byte("y"), 0))
	must(unix.UtimesNanoAt(unix.AT_FDCWD, in("a"), []unix.Timespec{{Sec: 1, Nsec: 2}, {Sec: 1_000_000_000, Nsec: 123_456_789}}, 0))
	return dir
}

func TestALayerComesOverWhole(t *testing.T) {
	from, to := layer(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(to, "a"), []byte("in the way"), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	sent, err := Write(&b, from)
	if err != nil {
		t.Fatal(err)
	}
	if sent.Packed != int64(b.Len()) || sent.Raw < 1_000_000 || sent.Packed > sent.Raw/10 {
		t.Errorf("%d bytes written, counted %+v", b.Len(), sent)
	}
	_ = os.Remove(filepath.Join(to, "a"))
	got, err := readAll(&b, to)
	if err != nil {
		t.Fatal(err)
	}
	if got != sent {
		t.Errorf("received %+v, sent %+v", got, sent)
	}
	if want, got := listing(t, from), listing(t, to); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWhatWasCutOffIsNotTaken(t *testing.T) {
	from := layer(t)
	var b bytes.Buffer
	if _, err := Write(&b, from); err != nil {
		t.Fatal(err)
	}
	for _, part := range []int{0, 1, b.Len() / 2, b.Len() - 5, b.Len() - 1} {
		if _, err := readAll(bytes.NewReader(b.Bytes()[:part]), t.TempDir()); err == nil {
			t.Errorf("%d bytes of %d were taken for the whole", part, b.Len())
		}
	}
	broken := io.MultiReader(bytes.NewReader(b.Bytes()[:b.Len()/2]), failing{})
	if _, err := readAll(broken, t.TempDir()); !errors.Is(err, errFailing) {
		t.Errorf("%v, want the reader's own error", err)
	}
}

var errFailing = errors.New("the line is cut")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errFailing }

func TestNothingIsWrittenOutside(t *testing.T) {
	outside := t.TempDir()
	from := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(from, "x")); err != nil {
		t.Fatal(err)
	}
	var link bytes.Buffer
	if _, err := Write(&link, from); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if _, err := readAll(&link, to); err != nil {
		t.Fatal(err)
	}
	// A second stream, in which x is a folder with a file: the link is replaced.
	_ = os.Remove(filepath.Join(from, "x"))
	if err := os.MkdirAll(filepath.Join(from, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "x", "evil"), []byte("!"), 0o600); err != nil {
		t.Fatal(err)
	}
	var through bytes.Buffer
	if _, err := Write(&through, from); err != nil {
		t.Fatal(err)
	}
	_, err := readAll(&through, to)
	if found, _ := os.ReadDir(outside); len(found) > 0 {
		t.Errorf("%s was written through a link (%v)", found[0].Name(), err)
	}
}

// readAll unpacks with limits that no test reaches.
func readAll(r io.Reader, folder string) (StreamSize, error) {
	return Read(r, folder, StreamBounds{Bytes: 1 << 40, Entries: 1 << 20})
}
