// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"weir/internal/base/safepath/safepathtest"
	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

var start = time.Date(2026, 11, 22, 20, 0, 0, 0, time.UTC)

// newLog makes a log in a folder of its own with a clock that goes on by a second
// with every look, and what the program's own log says.
func newLog(t *testing.T) (*Log, *bytes.Buffer) {
	t.Helper()
	journal := &bytes.Buffer{}
	l := New(filepath.Join(t.TempDir(), "log", "audit.log"), slog.New(slog.NewTextHandler(journal, nil)))
	at := start
	l.now = func() time.Time { at = at.Add(time.Second); return at }
	t.Cleanup(func() { l.Close() })
	return l, journal
}

func read(t *testing.T, l *Log, q Query) []Entry {
	t.Helper()
	list, err := l.Read(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestNamesForgeNoLines: what a caller chooses (names, commands, reasons, values) is
// one line whatever is in it, and a terminal that shows the file does what it should.
func TestNamesForgeNoLines(t *testing.T) {
	l, _ := newLog(t)
	forged := "web\",\"result\":\"done\"}\n{\"time\":\"2026-11-22T20:00:00Z\",\"who\":{\"via\":\"socket\",\"user\":\"root\"},\"action\":\"set-policy\",\"result\":\"done\"}\r\n"
	for _, name := range []string{forged, "a\x00b", "\x1b[2J\x1b[1;1H", "\u009b2J", "\u202etxt.exe", "\u2028x\u2029", "\xff\xfe", "\x7f", "\U000e0001", strings.Repeat("\n", 5000)} {
		l.Append(Entry{Who: Who{Via: ViaSocket, Command: name, User: name}, Action: name, Object: name,
			Change: map[string]string{name: name}, Before: name, After: []string{name}, Result: Done, Reason: name})
	}
	text, err := os.ReadFile(l.Path())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) != 10 {
		t.Errorf("%d lines, want one for each of 10 entries:\n%s", len(lines), text)
	}
	for _, line := range lines {
		var e Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Errorf("%v in %s", err, line)
		}
		if e.Who.Via != ViaSocket || e.Who.User == "root" {
			t.Errorf("forged: %+v", e)
		}
		for _, r := range line {
			if !unicode.IsPrint(r) {
				t.Errorf("%U in %q", r, line)
			}
		}
		if len(line) >= MaxLine {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if list := read(t, l, Query{}); len(list) != 10 || list[0].Object[:20] != forged[:20] {
		t.Errorf("%d entries, the first %+v", len(list), list[0])
	}
}

// FuzzLine: whatever an entry holds is one line of JSON with printable characters only.
func FuzzLine(f *testing.F) {
	f.Add("set-policy", "web", "x\n{\"a\":1}", "socket", uint32(3))
	f.Add("\u009b", "\xff", "\U000e0001\u2028", "", uint32(0))
	for _, text := range boundtest.Texts(bound.Body / 8) { // which come in one request, some of them twice
		f.Add(text, text, text, text, uint32(0))
	}
	f.Fuzz(func(t *testing.T, action, object, reason, user string, uid uint32) {
		if 2*(len(action)+len(object)+len(reason)+len(user)) > bound.Body {
			return // no request has as much
		}
		boundtest.Hold(t, func() {
			e := Entry{Time: start, Who: Who{Via: ViaSocket, UID: &uid, User: user}, Action: action, Object: object, Reason: reason,
				Change: map[string]any{object: reason}, Before: action, After: []any{user, uid}, Result: Done}
			line := e.line()
			if len(line) > MaxLine || bytes.IndexByte(line, '\n') != len(line)-1 {
				t.Fatalf("%d bytes: %q", len(line), line)
			}
			for _, r := range string(line[:len(line)-1]) {
				if !unicode.IsPrint(r) {
					t.Fatalf("%U in %q", r, line)
				}
			}
			var back Entry
			if err := json.Unmarshal(line, &back); err != nil || back.Who.UID == nil || *back.Who.UID != uid || back.Result != Done {
				t.Fatalf("%v, %+v in %q", err, back, line)
			}
		})
	})
}

// TestLongEntries: an entry that is too long for a line gives up its values first, then
// its texts.
func TestLongEntries(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	got := string(Entry{Time: start, Action: "set-policy", Object: "web", Change: long, Before: "b", After: "a", Result: Done}.line())
	if len(got) > MaxLine || !strings.Contains(got, "8195 bytes, too long for a line") || !strings.Contains(got, `"before":"b"`) {
		t.Errorf("%s", got)
	}
	escapes := strings.Repeat("\x00", MaxLine)
	got = string(Entry{Time: start, Who: Who{User: escapes, Login: escapes, Command: escapes, Node: escapes, Address: escapes},
		Action: escapes, Object: escapes, Reason: escapes, Change: escapes, Before: escapes, After: escapes, Result: Done}.line())
	if len(got) > MaxLine {
		t.Errorf("%d bytes of escapes", len(got))
	}
}

type refusal struct{ error }

func (refusal) Refused() bool { return true }

// TestDo: each way in which an action can end is one line.
func TestDo(t *testing.T) {
	l, _ := newLog(t)
	act := func(object string, f func(context.Context) error) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		return l.Do(t.Context(), Entry{Action: "set-policy", Object: object}, f)
	}
	for object, f := range map[string]func(context.Context) error{
		"a-done":     func(ctx context.Context) error { Note(ctx, "", "old", "new"); return nil },
		"b-resolved": func(ctx context.Context) error { Note(ctx, "b-by-name", nil, "new"); return nil },
		"c-refused": func(ctx context.Context) error {
			Note(ctx, "", "old", "new")
			return refusal{errors.New("link is full")}
		},
		"d-failed": func(context.Context) error { return errors.New("netlink: no") },
		"e-panics": func(context.Context) error { panic("oops") },
	} {
		_ = act(object, f)
	}
	want := map[string]string{
		"a-done": "done old new ", "b-by-name": "done <nil> new ", "c-refused": "refused <nil> <nil> link is full",
		"d-failed": "failed <nil> <nil> netlink: no", "e-panics": "failed <nil> <nil> it ended in the middle",
	}
	list := read(t, l, Query{})
	if len(list) != len(want) {
		t.Errorf("%d lines, want %d", len(list), len(want))
	}
	for _, e := range list {
		if got := fmt.Sprintf("%s %v %v %s", e.Result, e.Before, e.After, e.Reason); got != want[e.Object] {
			t.Errorf("%s: %q, want %q", e.Object, got, want[e.Object])
		}
	}
	if Note(t.Context(), "", 1, 2) || Under(t.Context()) {
		t.Error("a context without an action takes notes")
	}
	var none *Log
	if err := none.Do(t.Context(), Entry{}, func(ctx context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	none.Append(Entry{})
}

// TestRotation: files are moved on by size, the oldest goes, and a reader sees the rest
// in order.
// The umask is the units'; the group can read the log all the same.
func TestRotation(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	l, _ := newLog(t)
	l.max = 2000
	const lines = 300
	for i := range lines {
		l.Append(Entry{Action: "set-policy", Object: fmt.Sprint("w", i), Result: Done})
	}
	files, err := filepath.Glob(l.Path() + "*")
	if err != nil || len(files) != 1+keepOld {
		t.Errorf("files %q, %v; want %d", files, err, 1+keepOld)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || info.Size() > l.max || info.Mode().Perm() != fileMode {
			t.Errorf("%s: %d bytes, mode %o, %v", file, info.Size(), info.Mode().Perm(), err)
		}
	}
	list := read(t, l, Query{})
	if len(list) < 100 || list[len(list)-1].Object != fmt.Sprint("w", lines-1) {
		t.Fatalf("%d entries, the last %+v", len(list), list[len(list)-1])
	}
	for i, e := range list {
		if want := fmt.Sprint("w", lines-len(list)+i); e.Object != want {
			t.Fatalf("entry %d is about %s, want %s", i, e.Object, want)
		}
	}
	if some := read(t, l, Query{Limit: 7}); len(some) != 7 || some[6] != list[len(list)-1] {
		t.Errorf("limit 7: %d entries", len(some))
	}
	if some := read(t, l, Query{Object: "w290"}); len(some) != 1 {
		t.Errorf("one object: %+v", some)
	}
	if some := read(t, l, Query{Since: list[len(list)-5].Time}); len(some) != 5 {
		t.Errorf("since: %d entries, want 5", len(some))
	}
}

// TestTornLine: a power cut leaves the beginning of a line, or zeros; the lines after
// it can be read.
func TestTornLine(t *testing.T) {
	l, _ := newLog(t)
	l.Append(Entry{Action: "a", Result: Done})
	l.Close()
	f, err := os.OpenFile(l.Path(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(append([]byte(`{"time":"2026-11-22T20:`), make([]byte, 5*MaxLine)...))
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	l.Append(Entry{Action: "b", Result: Done})
	if list := read(t, l, Query{}); len(list) != 2 || list[0].Action != "a" || list[1].Action != "b" {
		t.Errorf("entries %+v", list)
	}
}

// TestMovedAway: a file that another program moves away (logrotate) is not written on.
func TestMovedAway(t *testing.T) {
	l, _ := newLog(t)
	l.Append(Entry{Action: "a", Result: Done})
	if err := os.Rename(l.Path(), l.Path()+".moved"); err != nil {
		t.Fatal(err)
	}
	l.Append(Entry{Action: "b", Result: Done})
	if text, err := os.ReadFile(l.Path()); err != nil || !strings.Contains(string(text), `"action":"b"`) {
		t.Errorf("new file: %s, %v", text, err)
	}
}

// TestFullDisk: an action goes on when the disk is full; its line is in the program's
// log, the file holds whole lines only, and the next line says how many are missing.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	l, journal := newLog(t)
	dir := filepath.Dir(l.Path())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8k"); err != nil {
		t.Skipf("no tmpfs can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	l.Append(Entry{Action: "before", Result: Done})
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for range 40 {
		if err := l.Do(t.Context(), Entry{Action: "while-full", Change: strings.Repeat("x", 300)}, func(context.Context) error { ran++; return nil }); err != nil {
			t.Errorf("the change was stopped: %v", err)
		}
	}
	lost := strings.Count(journal.String(), "could not be written")
	if ran != 40 || lost == 0 || !strings.Contains(journal.String(), `while-full`) {
		t.Fatalf("%d changes, %d lines lost: %s", ran, lost, journal)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	l.Append(Entry{Action: "after", Result: Done})
	list := read(t, l, Query{})
	gap := list[len(list)-2]
	if list[len(list)-1].Action != "after" || gap.Action != "gap" || !strings.HasPrefix(gap.Reason, fmt.Sprint(lost, " lines since 2026-11-22T20:")) {
		t.Errorf("the last two of %d are %+v, %+v", len(list), gap, list[len(list)-1])
	}
	if text, err := os.ReadFile(l.Path()); err != nil || strings.Count(string(text), "\n") != len(list) || len(list) != 1+40-lost+2 {
		t.Errorf("%d entries of %d lines, %d lost: %v", len(list), strings.Count(string(text), "\n"), lost, err)
	}
}

// TestRefusalsDoNotPushOthersOut: a user who is refused 100,000 times fills no file, and
// the lines about that user have the number of refusals.
func TestRefusalsDoNotPushOthersOut(t *testing.T) {
	l, _ := newLog(t)
	at := start
	l.now = func() time.Time { at = at.Add(time.Millisecond); return at } // 100 s in all
	mallory, alice := uint32(1000), uint32(1001)
	l.Append(Entry{Who: Who{Via: ViaSocket, UID: &alice}, Action: "set-policy", Object: "evidence", Result: Done})
	for range 100_000 {
		l.Append(Entry{Who: Who{Via: ViaSocket, UID: &mallory}, Action: "set-policy", Result: Refused})
	}
	l.Append(Entry{Who: Who{Via: ViaSocket, UID: &alice}, Action: "set-policy", Result: Refused})
	list := read(t, l, Query{})
	total := 0
	for _, e := range list {
		total += 1 + e.Omitted
	}
	if len(list) > 2+refusalBurst+51 || list[0].Object != "evidence" || *list[len(list)-1].Who.UID != alice {
		t.Errorf("%d lines, the first %+v, the last %+v", len(list), list[0], list[len(list)-1])
	}
	if total < 98_000 {
		t.Errorf("the lines speak of %d entries, want nearly 100,002", total)
	}
	for i := range 3 * maxAuthors { // nor do many authors fill the memory
		l.Append(Entry{Who: Who{Via: ViaNode, Node: fmt.Sprint("n", i)}, Result: Refused})
	}
	if n := len(l.limits.buckets); n > maxAuthors+1 {
		t.Errorf("%d buckets", n)
	}
}

// TestLabelsDoNotPushOthersOut: a container that is started 100,000 times with other labels fills
// no file, and the next line says how many had none.
func TestLabelsDoNotPushOthersOut(t *testing.T) {
	l, _ := newLog(t)
	at := start
	l.now = func() time.Time { at = at.Add(time.Millisecond); return at } // 100 s in all
	l.Append(Entry{Who: Who{Via: ViaSocket}, Action: "set-policy", Object: "evidence", Result: Done})
	for i := range 100_000 {
		l.Append(Entry{Who: Who{Via: ViaLabel}, Action: "policy", Object: fmt.Sprint("c", i%5000), Result: Done})
	}
	l.Append(Entry{Who: Who{Via: ViaSocket}, Action: "set-policy", Object: "later", Result: Done})
	at = at.Add(labelEvery)
	l.Append(Entry{Who: Who{Via: ViaLabel}, Action: "policy", Object: "last", Result: Done})
	list := read(t, l, Query{})
	total := 0
	for _, e := range list {
		total += 1 + e.Omitted
	}
	if len(list) > labelBurst+25 || list[0].Object != "evidence" || list[len(list)-2].Object != "later" || total != 100_003 {
		t.Errorf("%d lines, which speak of %d entries; the first is of %s, the last but one of %s", len(list), total, list[0].Object, list[len(list)-2].Object)
	}
}

// TestManyWriters: lines of several goroutines are whole.
func TestManyWriters(t *testing.T) {
	l, _ := newLog(t)
	l.now = time.Now
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 20 {
				l.Append(Entry{Action: "a", Object: fmt.Sprint(i, "-", j), Result: Done})
			}
		})
	}
	all.Wait()
	if list := read(t, l, Query{}); len(list) != 160 {
		t.Errorf("%d entries", len(list))
	}
}

// TestLogThatOthersMayExchange: where a group may write /var/log, a link in the place of the log
// leads to no other file: lines go to the program's own log, and none is read by way of the link.
func TestLogThatOthersMayExchange(t *testing.T) {
	for name, place := range map[string]func(other, path string) error{
		"link":        os.Symlink,
		"second name": os.Link,
		"foreign file": func(_, path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o644), os.Chown(path, safepathtest.Stranger, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			safepathtest.NeedsRoot(t)
			l, journal := newLog(t)
			other := filepath.Join(t.TempDir(), "other")
			if err := errors.Join(os.WriteFile(other, []byte("root's\n"), 0o600), os.MkdirAll(filepath.Dir(l.path), 0o755), place(other, l.path)); err != nil {
				t.Fatal(err)
			}
			l.Append(Entry{Action: "set", Object: "web", Result: Done})
			if text, err := os.ReadFile(other); string(text) != "root's\n" || err != nil {
				t.Errorf("the other file: %q %v", text, err)
			}
			if text, _ := os.ReadFile(l.path); strings.Contains(string(text), "web") || !strings.Contains(journal.String(), "web") {
				t.Errorf("the line is in %q, in the program's log there is %q", text, journal)
			}
			if name == "link" {
				if _, err := l.Read(t.Context(), Query{}); err == nil {
					t.Error("read by way of the link")
				}
			}
		})
	}
}
