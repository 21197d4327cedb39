// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAJournalIsReadAsItWasWritten(t *testing.T) {
	d := Journals{Dir: filepath.Join(t.TempDir(), "new")}
	o := MoveSpec{Move: "m-1", From: "a", To: "b", Lease: time.Second, Container: Container{Name: "web", Config: []byte(`{"x":1}`)}}
	j, err := d.Begin(o)
	if err != nil {
		t.Fatal(err)
	}
	phases := []struct {
		kind Kind
		want ResumePhase
	}{
		{KindStep, PhaseForward}, {KindDone, PhaseForward}, {KindConfirm, PhaseConfirming}, {KindRollback, PhaseBack},
		{KindThawed, PhaseDiscarding}, {KindEnd, PhaseOver},
	}
	for _, p := range phases {
		if err := j.Append(JournalEntry{Kind: p.kind, Node: "a", Step: "restore", Err: "why"}); err != nil {
			t.Fatal(err)
		}
		if got := j.Phase(); got != p.want {
			t.Errorf("after %s it is in phase %d, want %d", p.kind, got, p.want)
		}
		if p.kind != KindEnd {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			list, err := d.Unfinished()
			if err != nil || len(list) != 1 {
				t.Fatalf("%d unfinished: %v", len(list), err)
			}
			j = list[0]
			if got := j.Phase(); got != p.want {
				t.Errorf("read again after %s it is in phase %d, want %d", p.kind, got, p.want)
			}
		}
	}
	if got := j.Order(); got.Container.Name != "web" || string(got.Container.Config) != `{"x":1}` || got.Lease != time.Second {
		t.Errorf("order %+v", got)
	}
	if j.restoring().IsZero() {
		t.Error("it does not know that a restore was tried")
	}
	_ = j.Close()
	if list, err := d.Unfinished(); err != nil || len(list) != 0 {
		t.Errorf("%d unfinished after the end: %v", len(list), err)
	}
	if err := d.Expire(time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.path("m-1")); err != nil {
		t.Errorf("it has expired too early: %v", err)
	}
	if err := d.Expire(0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.path("m-1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has not expired: %v", err)
	}
}

func TestAJournalSurvivesACrashInALine(t *testing.T) {
	d := Journals{Dir: t.TempDir()}
	j, err := d.Begin(MoveSpec{Move: "m-1", From: "a", To: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Append(JournalEntry{Kind: KindConfirm}); err != nil {
		t.Fatal(err)
	}
	if _, err := j.file.WriteString(`{"kind":"confir`); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open("m-1"); !errors.Is(err, ErrBusy) {
		t.Errorf("opened twice: %v", err)
	}
	_ = j.Close()
	if j, err = d.Open("m-1"); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Append(JournalEntry{Kind: KindConfirmed}); err != nil {
		t.Fatal(err)
	}
	again := &Journal{file: j.file}
	if err := again.read(); err != nil || again.Phase() != PhaseForgetting || len(again.Entries()) != 3 {
		t.Errorf("phase %d of %d records: %v", again.Phase(), len(again.Entries()), err)
	}
}

func TestAJournalsNameIsNoPath(t *testing.T) {
	for _, move := range []string{"", "../x", "a/b", "-x", "a b"} {
		if _, err := (Journals{Dir: t.TempDir()}).Begin(MoveSpec{Move: move}); err == nil {
			t.Errorf("id %q was taken", move)
		}
	}
}
