// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestWatch goes through the ways in which files change.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "weir.yaml")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "group: a\n")
	ctx, cancel := context.WithCancel(context.Background())
	changed := make(chan string, 10)
	done := make(chan error)
	go func() {
		done <- Watch(ctx, file, func() {
			text, _ := os.ReadFile(file)
			changed <- string(text)
		})
	}()
	expect := func(what, want string) {
		t.Helper()
		select {
		case got := <-changed:
			if got != want {
				t.Fatalf("%s: got %q, want %q", what, got, want)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%s: not noticed", what)
		}
	}
	expect("begin", "group: a\n")
	write(file, "group: b\n")
	expect("written in place", "group: b\n")
	write(file+".new", "group: c\n")
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	expect("renamed into place", "group: c\n")
	write(filepath.Join(dir, "other"), "x")
	write(file, "group: c\n") // the same again: silence
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	write(file, "group: d\n")
	expect("removed and written anew", "group: d\n")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(changed) > 0 {
		t.Errorf("one change too many: %q", <-changed)
	}
}

// TestWatchDoubtsAnEmptyFile: a file that a slow writer has emptied, or moved away, and writes a
// moment later, is not reported so; one that stays empty, or gone, is.
func TestWatchDoubtsAnEmptyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	remove := func() {
		t.Helper()
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	write("group: a\n")
	changed := make(chan string, 10)
	go func() {
		_ = Watch(t.Context(), file, func() {
			text, _ := os.ReadFile(file)
			changed <- string(text)
		})
	}()
	for _, step := range []struct{ during, want string }{
		{"", "group: a\n"}, {"emptied", "group: b\n"}, {"stays empty", ""}, {"comes back", "group: c\n"},
		{"moved away", "group: d\n"}, {"stays gone", ""}, {"comes back", "group: d\n"},
	} {
		switch step.during {
		case "emptied":
			write("")
			time.Sleep(3 * settle)
			write(step.want)
		case "stays empty":
			write("")
		case "moved away":
			remove()
			time.Sleep(3 * settle)
			write(step.want)
		case "stays gone":
			remove()
		case "comes back":
			write(step.want)
		}
		select {
		case got := <-changed:
			if got != step.want {
				t.Fatalf("%s: got %q, want %q", step.during, got, step.want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: %q was not noticed", step.during, step.want)
		}
	}
}

func TestWatchNowhere(t *testing.T) {
	if err := Watch(t.Context(), "/nonexistent-weir/weir.yaml", func() {}); err == nil {
		t.Error("no error for a directory that is not there")
	}
}
