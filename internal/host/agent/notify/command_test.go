// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/base/safepath/safepathtest"
	"weir/internal/config"
	"weir/internal/core/event"
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

// TestKindsOfPrograms: a program is run by its descriptor, whether the kernel loads it or an
// interpreter reads it, and finds its own name where programs look for it.
func TestKindsOfPrograms(t *testing.T) {
	python := script(t, "")
	if err := os.WriteFile(python, []byte("#!/usr/bin/env -S sh -e\necho $1 >$2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := t.TempDir() + "/link"
	if err := os.Symlink(python, link); err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string][]string{
		"loaded":                {"/bin/sh", "-c", "echo said >$0"},
		"script":                {script(t, "echo $1 >$2"), "said"},
		"script with an option": {python, "said"},
		"link":                  {link, "said"},
	} {
		out := t.TempDir() + "/out"
		c := command{Command: running(append(run, out)...).Command, host: "here"}
		if err := c.deliver(t.Context(), sample(1)); err != nil || read(t, out) != "said\n" {
			t.Errorf("%s: %v", name, err)
		}
	}
	out := t.TempDir() + "/out"
	c := command{Command: running("/bin/bash", "-c", `tr '\0' ' ' </proc/$$/cmdline >`+out).Command}
	if err := c.deliver(t.Context(), sample(1)); err != nil || !strings.HasPrefix(read(t, out), "/bin/bash -c") {
		t.Errorf("%v: the name of the program is %q", err, read(t, out))
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

// TestProgramsThatOthersMayChange are not run: they would have the agent's rights. The error
// names the file or folder at fault.
func TestProgramsThatOthersMayChange(t *testing.T) {
	mode := func(mode os.FileMode) func(string) (string, error) {
		return func(path string) (string, error) { return path, os.Chmod(path, mode) }
	}
	above := func(levels int, spoil func(folder string) error) func(string) (string, error) {
		return func(path string) (string, error) {
			for range levels {
				path = filepath.Dir(path)
			}
			return path, spoil(path)
		}
	}
	foreign := func(path string) error { return os.Chown(path, 12345, 0) }
	group := func(path string) error { return os.Chmod(path, 0o775) }
	for name, spoil := range map[string]func(string) (string, error){
		"others may change it":          mode(0o757),
		"group may change it":           mode(0o775),
		"is no program":                 mode(0o644),
		"another user's":                func(path string) (string, error) { return path, foreign(path) },
		"others may replace it":         above(1, func(path string) error { return os.Chmod(path, 0o777) }),
		"sticky folder":                 above(1, func(path string) error { return os.Chmod(path, 0o777|os.ModeSticky) }),
		"another user's folder":         above(1, foreign),
		"group may replace it":          above(1, group),
		"another user's folder, above":  above(2, foreign),
		"group may replace the folder":  above(2, group),
		"is not there":                  func(path string) (string, error) { return path, os.Remove(path) },
		"link to one of another":        func(path string) (string, error) { return path, relink(path) },
		"link through another's folder": above(1, relinkThrough),
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir() + "/out"
			path := script(t, "touch "+out)
			at, err := spoil(path)
			if err != nil {
				t.Fatal(err)
			}
			sinks, _ := telling(t, running(path))
			sinks.Offer([]event.Event{sample(1)})
			await(t, "judged", func() bool { s := sinks.Status()[0]; return s.Undelivered+s.Delivered == 1 })
			if _, err := os.Stat(out); err == nil || !strings.Contains(sinks.Status()[0].Error, at) {
				t.Errorf("run: %v, want an error about %s: %+v", err == nil, at, sinks.Status())
			}
		})
	}
}

// relinkThrough replaces a folder by a link that leads through the folder of another user.
func relinkThrough(folder string) error {
	other := folder + "-other"
	if err := os.Mkdir(other, 0o755); err != nil {
		return err
	}
	if err := os.Rename(folder, other+"/deep"); err != nil {
		return err
	}
	if err := os.Chown(other, 12345, 0); err != nil {
		return err
	}
	return os.Symlink(other+"/deep", folder)
}

// TestExchangedProgram: a program that changes places with one of another user, while it is run
// for 1,000 events, never lets that one run.
func TestExchangedProgram(t *testing.T) {
	out := t.TempDir() + "/out"
	path := script(t, "exit 0")
	foreign := path + "-foreign"
	if err := errors.Join(os.WriteFile(foreign, []byte("#!/bin/sh\nid >>"+out+"\n"), 0o755), os.Chown(foreign, 12345, 0)); err != nil {
		t.Fatal(err)
	}
	stop := safepathtest.Exchange(t, path, foreign)
	c := command{Command: running(path).Command, host: "here"}
	done, refused := 0, 0
	for id := range uint64(1000) {
		if err := c.deliver(t.Context(), sample(id)); err == nil {
			done++
		} else if refused++; !strings.Contains(err.Error(), path+": it belongs to uid 12345") {
			t.Fatal(err)
		}
	}
	stop()
	if text, err := os.ReadFile(out); err == nil {
		t.Errorf("of 1,000 events the program of another user ran for %d: %s", strings.Count(string(text), "\n"), text)
	}
	t.Logf("run %d times, refused %d times", done, refused)
	if done == 0 || refused == 0 {
		t.Error("nothing was exchanged meanwhile")
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
