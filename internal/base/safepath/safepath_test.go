// SPDX-License-Identifier: Apache-2.0

package safepath

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/base/safepath/safepathtest"
)

const stranger = safepathtest.Stranger

// place is a file of root's, two folders below one that the test may spoil.
type place struct{ top, above, folder, file string }

func newPlace(t *testing.T) place {
	safepathtest.NeedsRoot(t)
	top := t.TempDir()
	p := place{top, top + "/above", top + "/above/folder", top + "/above/folder/file"}
	must(t, os.MkdirAll(p.folder, 0o755))
	must(t, os.WriteFile(p.file, []byte("root's"), 0o755))
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRefusals: each way in which another user could change or exchange a file is refused, with
// the file or folder at fault, its owner, its mode, and a remedy.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(p place) error
		path  func(p place) string
		want  string
	}{
		{"file of another user", func(p place) error { return os.Chown(p.file, stranger, 0) }, nil,
			"it belongs to uid 12345 and has mode 0755: other users than root could change or replace it; close it: chown root:root FILE && chmod go-w FILE"},
		{"file of a group", func(p place) error { return os.Chmod(p.file, 0o775) }, nil, "mode 0775"},
		{"file of all", func(p place) error { return os.Chmod(p.file, 0o757) }, nil, "mode 0757"},
		{"folder of another user", func(p place) error { return os.Chown(p.folder, stranger, 0) }, nil,
			"folder FOLDER belongs to uid 12345 and has mode 0755: other users than root could change or replace it; close it: chown root:root FOLDER && chmod go-w FOLDER"},
		{"folder of a group", func(p place) error { return os.Chmod(p.folder, 0o775) }, nil,
			"folder FOLDER belongs to uid 0 and has mode 0775: other users than root could change or replace it; close it: chmod go-w FOLDER"},
		{"folder of all", func(p place) error { return os.Chmod(p.folder, 0o757) }, nil, "folder FOLDER"},
		{"sticky folder", func(p place) error { return os.Chmod(p.folder, 0o777|fs.ModeSticky) }, nil,
			"folder FOLDER belongs to uid 0 and has mode 1777: other users than root may have put it there; move it"},
		{"folder above, of another user", func(p place) error { return os.Chown(p.above, stranger, 0) }, nil, "folder ABOVE belongs to uid 12345"},
		{"folder above, of a group", func(p place) error { return os.Chmod(p.above, 0o775) }, nil, "folder ABOVE"},
		{"folder above, of all", func(p place) error { return os.Chmod(p.above, 0o757) }, nil, "folder ABOVE"},
		{"folder two above", func(p place) error { return os.Chown(p.top, stranger, 0) }, nil, "folder TOP"},
		{"sticky folder of another user", func(p place) error {
			return errors.Join(os.Chmod(p.above, 0o777|fs.ModeSticky), os.Chown(p.above, stranger, 0))
		}, nil, "folder ABOVE belongs to uid 12345"},
		{"link to a file of another user", func(p place) error {
			return errors.Join(os.Symlink(p.file, p.top+"/link"), os.Chown(p.file, stranger, 0))
		}, func(p place) string { return p.top + "/link" }, "FILE belongs to uid 12345"},
		{"link through a folder of another user", func(p place) error {
			return errors.Join(os.Symlink("above/folder/../folder/file", p.top+"/link"), os.Chown(p.above, stranger, 0))
		}, func(p place) string { return p.top + "/link" }, "folder ABOVE"},
		{"link in a sticky folder", func(p place) error {
			return errors.Join(os.Chmod(p.above, 0o777|fs.ModeSticky), os.Symlink(p.file, p.above+"/link"))
		}, func(p place) string { return p.above + "/link" }, "folder ABOVE belongs to uid 0 and has mode 1777"},
		{"way back through a folder of another user", func(p place) error {
			return errors.Join(os.Mkdir(p.above+"/foreign", 0o755), os.Chown(p.above+"/foreign", stranger, 0))
		}, func(p place) string { return p.above + "/foreign/../folder/file" }, "folder ABOVE/foreign"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			path := p.file
			if c.path != nil {
				path = c.path(p)
			}
			must(t, c.spoil(p))
			want := strings.NewReplacer("FILE", p.file, "FOLDER", p.folder, "ABOVE", p.above, "TOP", p.top).Replace(c.want)
			_, _, read := Read(path, 100)
			_, program := Program(path)
			for _, err := range []error{read, program} {
				var refused *Error
				if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nwant %s", err, want)
				}
			}
			if Refusal(path) == nil {
				t.Error("not foreseen")
			}
		})
	}
}

// TestPassed: what root alone may change is opened, by whatever way it is named.
func TestPassed(t *testing.T) {
	p := newPlace(t)
	t.Chdir(p.above)
	must(t, os.Symlink("above", p.top+"/short"))
	must(t, os.Symlink(p.top+"/short/folder/file", p.top+"/long"))
	must(t, os.Mkdir(p.top+"/sticky", 0o755))
	must(t, os.Chmod(p.top+"/sticky", 0o777|fs.ModeSticky))
	must(t, os.Mkdir(p.top+"/sticky/own", 0o755))
	must(t, os.WriteFile(p.top+"/sticky/own/file", []byte("root's"), 0o600))
	for _, path := range []string{p.file, p.top + "/long", p.top + "/short/folder/file", "folder/file", "./folder//../folder/./file", "../short/folder/file", p.top + "/sticky/own/file"} {
		if text, _, err := Read(path, 6); string(text) != "root's" || err != nil {
			t.Errorf("%s: %q %v", path, text, err)
		}
	}
}

// TestReadErrors: what is no file, or too large, is refused in the words that callers know.
func TestReadErrors(t *testing.T) {
	p := newPlace(t)
	must(t, syscall.Mkfifo(p.folder+"/fifo", 0o600))
	must(t, os.Symlink("loop", p.folder+"/loop"))
	for path, want := range map[string]error{
		p.folder + "/none": fs.ErrNotExist, "": fs.ErrNotExist, p.folder + "/fifo": ErrNotRegular, p.folder: ErrNotRegular, "/dev/null": ErrNotRegular,
		p.file: ErrLarge, p.file + "/": syscall.ENOTDIR, p.file + "/x": syscall.ENOTDIR, p.folder + "/loop": syscall.ELOOP,
	} {
		if _, _, err := Read(path, 5); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	must(t, os.Chmod(p.file, 0o644))
	for _, path := range []string{p.file, p.folder, p.folder + "/fifo"} {
		if _, err := Program(path); !errors.Is(err, ErrNotProgram) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestFolder: a folder of state is made, and refused where another user could put files.
func TestFolder(t *testing.T) {
	p := newPlace(t)
	must(t, Folder(p.folder+"/new/state", 0o700))
	must(t, Folder(p.folder+"/new/state", 0o700))
	for name, spoil := range map[string]error{
		"of all":          os.Chmod(p.folder, 0o777),
		"sticky":          os.Chmod(p.folder, 0o777|fs.ModeSticky),
		"of another user": errors.Join(os.Chmod(p.folder, 0o755), os.Chown(p.folder, stranger, 0)),
	} {
		must(t, spoil)
		var refused *Error
		if err := Folder(p.folder, 0o700); !errors.As(err, &refused) || refused.At != p.folder {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Folder(p.folder+"/new2", 0o700); err == nil {
		t.Error("made in the folder of another user")
	}
	if err := Folder(p.file, 0o700); err == nil {
		t.Error("a file is no folder")
	}
}

// TestOwnFiles: a process of another user than root may use its own files and root's.
func TestOwnFiles(t *testing.T) {
	p := newPlace(t)
	must(t, os.Chown(p.folder, stranger, 0))
	must(t, os.Chown(p.file, stranger, 0))
	f, err := find(p.file, stranger)
	must(t, err)
	must(t, f.Close())
	if _, err := find(p.file, stranger+1); err == nil || !strings.Contains(err.Error(), "other users than root and uid 12346 could") || !strings.Contains(err.Error(), "chown 12346 "+p.folder) {
		t.Error(err)
	}
	if refused := Refusal(p.file); refused == nil || refused.Owner != stranger {
		t.Errorf("foreseen: %v", refused)
	}
}

// TestExchanged: while a folder of root's, a file or a link changes places with one of another
// user, no use meets the content of that user.
func TestExchanged(t *testing.T) {
	for name, other := range map[string]func(p place) (string, string, error){
		"file": func(p place) (string, string, error) {
			other := p.folder + "/other"
			return p.file, other, errors.Join(os.WriteFile(other, []byte("foreign"), 0o755), os.Chown(other, stranger, 0))
		},
		"folder above": func(p place) (string, string, error) {
			other := p.top + "/other"
			return p.above, other, errors.Join(os.MkdirAll(other+"/folder", 0o755), os.WriteFile(other+"/folder/file", []byte("foreign"), 0o755), os.Chown(other, stranger, 0))
		},
		"link": func(p place) (string, string, error) {
			other := p.top + "/other"
			return p.top + "/above", p.top + "/link", errors.Join(os.Mkdir(other, 0o755), os.Mkdir(other+"/folder", 0o755), os.Symlink("other", p.top+"/link"),
				os.WriteFile(other+"/folder/file", []byte("foreign"), 0o755), os.Chown(other, stranger, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			one, two, err := other(p)
			must(t, err)
			defer safepathtest.Exchange(t, one, two)()
			used, refused := 0, 0
			for end := time.Now().Add(30 * time.Second); used+refused < 1000 || (used == 0 || refused == 0) && time.Now().Before(end); {
				text, err := open(p.file)
				var foreign *Error
				switch {
				case err == nil && string(text) == "root's":
					used++
				case errors.As(err, &foreign) && foreign.Owner == stranger:
					refused++
				default:
					t.Fatalf("%q %v", text, err)
				}
			}
			t.Logf("root's content %d times, refused %d times", used, refused)
			if used == 0 || refused == 0 {
				t.Errorf("root's content %d times, refused %d times: nothing was exchanged meanwhile", used, refused)
			}
		})
	}
}

func open(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// TestDescriptorsAreClosed: neither a use nor a refusal leaves one open.
func TestDescriptorsAreClosed(t *testing.T) {
	p := newPlace(t)
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(list)
	}
	must(t, os.Symlink(p.file, p.top+"/link"))
	must(t, os.WriteFile(p.folder+"/foreign", nil, 0o777))
	must(t, os.Chown(p.folder+"/foreign", stranger, 0))
	before := count()
	for range 100 {
		for _, path := range []string{p.file, p.top + "/link", p.folder + "/foreign", p.folder + "/none", p.folder, filepath.Join(p.file, "x")} {
			_, _, _ = Read(path, 100)
			if f, err := Program(path); err == nil {
				f.Close()
			}
			Refusal(path)
		}
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors, then %d", before, after)
	}
}

// TestOpenFoldersThatAreEmptyAreShut: a tmpfs has mode 1777 and an emptyDir of Kubernetes 0777.
// What has something in it, is another user's, or lies in a folder that others may write, stays as
// it is and is refused.
func TestOpenFoldersThatAreEmptyAreShut(t *testing.T) {
	for _, open := range []os.FileMode{0o777, 0o777 | os.ModeSticky, 0o775} {
		p := newPlace(t)
		empty := p.folder + "/empty"
		must(t, errors.Join(os.Mkdir(empty, 0o755), os.Chmod(empty, open)))
		if err := Folder(empty, 0o700); err != nil {
			t.Errorf("%v: %v", open, err)
		}
		if info, err := os.Stat(empty); err != nil || info.Mode() != os.ModeDir|0o700 {
			t.Errorf("%v became %v, %v", open, info.Mode(), err)
		}
		for what, spoil := range map[string]func() error{
			"with a file":       func() error { return os.WriteFile(empty+"/state.json", nil, 0o600) },
			"another user's":    func() error { return os.Chown(empty, stranger, 0) },
			"in an open folder": func() error { return os.Chmod(p.folder, 0o777) },
		} {
			must(t, errors.Join(spoil(), os.Chmod(empty, open)))
			if err := Folder(empty, 0o700); err == nil {
				t.Errorf("%v, %s: taken", open, what)
			}
			if info, err := os.Stat(empty); err != nil || info.Mode() != os.ModeDir|open {
				t.Errorf("%v, %s, became %v, %v", open, what, info.Mode(), err)
			}
			must(t, errors.Join(os.RemoveAll(empty), os.Mkdir(empty, 0o755), os.Chmod(p.folder, 0o755)))
		}
	}
}
