// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/config"
	"weir/internal/event"
)

func pemOf(certificate []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
}

// script writes a program and returns its path.
func script(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "handler")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func running(args ...string) config.Tell {
	c := config.DefaultTell()
	c.Command.Run = args
	return c
}

func read(t *testing.T, path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCommand: what the program gets is what the page says, and nothing of the agent's own.
func TestCommand(t *testing.T) {
	t.Setenv("AGENTS_SECRET", "x")
	out := t.TempDir() + "/out"
	sinks, log := telling(t, running(script(t, `{ env | sort; pwd; for a; do echo "<$a>"; done; cat; } >"$1.part"; mv "$1.part" "$1"`), out, "a b; $(id)"))
	e := sample(7)
	e.Subject.Name = "web$(touch /tmp/owned)\n;"
	sinks.Offer([]event.Event{e})
	await(t, "delivered", func() bool { return sinks.Status()[0].Delivered == 1 })
	got := read(t, out)
	for _, line := range []string{"WEIR_EVENT=refused\n", "WEIR_STATE=begin\n", "WEIR_NAME=web$(touch /tmp/owned)\n", "WEIR_TEXT=web: no room\n", "\n/\n", "<a b; $(id)>\n", `"id":7`, `"name":"web$(touch /tmp/owned)\n;"`} {
		if !strings.Contains(got, line) {
			t.Errorf("lacks %q:\n%s\n%s", line, got, log)
		}
	}
	if strings.Contains(got, "AGENTS_SECRET") {
		t.Error("the agent's environment is there")
	}
}

// TestOneAtATime: programs do not run beside each other, and come in order.
func TestOneAtATime(t *testing.T) {
	out := t.TempDir() + "/out"
	sinks, log := telling(t, running(script(t, `echo "begin $WEIR_ID" >>"$1"; sleep 0.05; echo "end $WEIR_ID" >>"$1"`), out))
	var want string
	for id := uint64(1); id <= 5; id++ {
		sinks.Offer([]event.Event{sample(id)})
		want += fmt.Sprintf("begin %d\nend %[1]d\n", id)
	}
	await(t, "all delivered", func() bool { return sinks.Status()[0].Delivered == 5 })
	if got := read(t, out); got != want {
		t.Errorf("%s\n%s", got, log)
	}
}

// TestFailures: a program that fails, hangs or is none costs its event and no other.
func TestFailures(t *testing.T) {
	marker := t.TempDir() + "/child"
	for _, c := range []struct{ name, text, problem string }{
		{"exit code", "echo oops >&2; exit 3", "exit status 3: oops"},
		{"hangs", "sleep 60", "did not end within 300ms and was killed"},
		{"hangs in a child", "(sleep 2; touch " + marker + ") & echo started; wait", "was killed: started"},
		{"leaves a child behind", "sleep 60 & exit 4", ""}, // holds the output open
	} {
		t.Run(c.name, func(t *testing.T) {
			tell := running(script(t, c.text))
			tell.Command.Timeout = 300 * time.Millisecond
			sinks, log := telling(t, tell)
			begin := time.Now()
			sinks.Offer([]event.Event{sample(1), sample(2)})
			await(t, "both are given up", func() bool { return sinks.Status()[0].Undelivered == 2 })
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
			if !strings.Contains(sinks.Status()[0].Error, c.problem) || !strings.Contains(log.String(), "event given up") {
				t.Errorf("%+v\n%s", sinks.Status(), log)
			}
		})
	}
	time.Sleep(2 * time.Second)
	if _, err := os.Stat(marker); err == nil {
		t.Error("a killed program's child went on")
	}
}

// TestProgramsThatOthersMayChange are not run: they would have the agent's rights.
func TestProgramsThatOthersMayChange(t *testing.T) {
	mode := func(mode os.FileMode) func(string) error {
		return func(path string) error { return os.Chmod(path, mode) }
	}
	for name, spoil := range map[string]func(string) error{
		"others may change it":   mode(0o757),
		"group may change it":    mode(0o775),
		"is no program":          mode(0o644),
		"another user's":         func(path string) error { return os.Chown(path, 12345, 0) },
		"others may replace it":  func(path string) error { return os.Chmod(filepath.Dir(path), 0o777) },
		"is not there":           os.Remove,
		"link to one of another": func(path string) error { return relink(path) },
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir() + "/out"
			path := script(t, "touch "+out)
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			sinks, _ := telling(t, running(path))
			sinks.Offer([]event.Event{sample(1)})
			await(t, "given up", func() bool { return sinks.Status()[0].Undelivered == 1 })
			if _, err := os.Stat(out); err == nil || sinks.Status()[0].Error == "" {
				t.Errorf("it was run: %+v", sinks.Status())
			}
		})
	}
}

// relink puts a link to a program that another user may change in the place of one.
func relink(path string) error {
	other := path + "-other"
	if err := os.Rename(path, other); err != nil {
		return err
	}
	if err := os.Chown(other, 12345, 0); err != nil {
		return err
	}
	return os.Symlink(other, path)
}
