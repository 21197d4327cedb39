// SPDX-License-Identifier: Apache-2.0

package safepath

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"weir/internal/base/safepath/safepathtest"
)

// TestSocket: a socket is its user's alone until a group is admitted, replaces one that a dead
// process has left and nothing else, and is gone once it is closed.
func TestSocket(t *testing.T) {
	p := newPlace(t)
	path := p.top + "/made/further/socket"
	dead, err := Listen(path)
	must(t, err)
	if info := lstat(t, path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if _, err := Listen(path); !errors.Is(err, ErrServed) {
		t.Errorf("a socket that is served: %v", err)
	}
	dead.SetUnlinkOnClose(false)
	must(t, dead.Close())
	s, err := Listen(path)
	must(t, err)
	must(t, s.Admit(7, 0o660))
	if info := lstat(t, path); info.Mode().Perm() != 0o660 || info.Sys().(*syscall.Stat_t).Gid != 7 {
		t.Errorf("mode %v, group %d", info.Mode(), info.Sys().(*syscall.Stat_t).Gid)
	}
	conn, err := net.Dial("unix", path)
	must(t, err)
	must(t, errors.Join(conn.Close(), s.Close()))
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the end: %v", err)
	}
	for name, make := range map[string]func() error{
		"file": func() error { return os.WriteFile(path, []byte("precious"), 0o600) },
		"link": func() error { return os.Symlink(p.file, path) },
	} {
		must(t, make())
		if _, err := Listen(path); !errors.Is(err, ErrNotSocket) {
			t.Errorf("%s: %v", name, err)
		}
		must(t, os.Remove(path))
	}
}

// TestSocketIsExchanged: a user who owns the folder of a socket, or one above it, and puts files
// of root's in its place while it is made, gives none of them to the group.
func TestSocketIsExchanged(t *testing.T) {
	p := newPlace(t)
	must(t, os.Chmod(p.file, 0o600))
	must(t, os.Chown(p.folder, stranger, 0))
	must(t, os.Symlink(p.file, p.folder+"/link"))
	must(t, os.Symlink(p.file, p.folder+"/socket"))
	stop := safepathtest.Exchange(t, p.folder+"/link", p.folder+"/socket")
	for range 200 {
		if s, err := Listen(p.folder + "/socket"); err == nil {
			t.Fatal("made", s.Close())
		} else if refused := new(Error); !errors.As(err, &refused) || refused.At != p.folder {
			t.Fatal(err)
		}
	}
	stop()
	if info := lstat(t, p.file); info.Mode().Perm() != 0o600 {
		t.Errorf("root's file has mode %v", info.Mode())
	}
}

// TestFolderIsMadeInSafePlaces: a folder is made in one that root alone may change, or in a sticky
// one; in another one nothing is made, not even by way of a link.
func TestFolderIsMadeInSafePlaces(t *testing.T) {
	p := newPlace(t)
	must(t, os.Mkdir(p.top+"/sticky", 0o755))
	must(t, os.Chmod(p.top+"/sticky", 0o777|fs.ModeSticky))
	for _, path := range []string{p.top + "/sticky/one", p.folder + "/one/two/", p.folder + "/../folder/three"} {
		if err := Folder(path, 0o700); err != nil {
			t.Error(err)
		} else if info := lstat(t, strings.TrimRight(path, "/")); info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s: %v", path, info.Mode())
		}
	}
	must(t, errors.Join(os.Mkdir(p.top+"/foreign", 0o755), os.Chown(p.top+"/foreign", stranger, 0), os.Symlink(p.folder, p.top+"/foreign/link")))
	for _, path := range []string{p.top + "/foreign/made", p.top + "/foreign/link/made", p.top + "/foreign/made/further"} {
		if refused := new(Error); !errors.As(Folder(path, 0o700), &refused) {
			t.Errorf("%s is not refused", path)
		}
	}
	for _, path := range []string{p.top + "/foreign/made", p.folder + "/made"} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was made: %v", path, err)
		}
	}
}

// TestOpenFile: a file is made in a folder that root alone may change, and opened again; a link
// that leads nowhere is no way to make one.
func TestOpenFile(t *testing.T) {
	p := newPlace(t)
	path := p.folder + "/new"
	for _, want := range []string{"a", "aa"} {
		f, err := OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
		must(t, err)
		_, err = f.WriteString("a")
		must(t, errors.Join(err, f.Close()))
		if text, err := os.ReadFile(path); string(text) != want || err != nil || lstat(t, path).Mode() != 0o600 {
			t.Errorf("%q %v", text, err)
		}
	}
	if _, err := OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if _, err := OpenFile(p.folder+"/none", os.O_RDWR, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	must(t, os.Symlink(p.top+"/led", p.folder+"/link"))
	if _, err := OpenFile(p.folder+"/link", os.O_CREATE|os.O_RDWR, 0o600); err == nil {
		t.Error("made by way of a link")
	}
	must(t, os.Chown(p.folder, stranger, 0))
	if refused := new(Error); !errors.As(second(OpenFile(p.folder+"/another", os.O_CREATE|os.O_RDWR, 0o600)), &refused) {
		t.Error("made in the folder of another user")
	}
}

func second(_ *os.File, err error) error { return err }

func lstat(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Lstat(path)
	must(t, err)
	return info
}
