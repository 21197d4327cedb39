// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func sh(name, script string) step { return step{Name: name, Command: []string{"sh", "-c", script}} }

// runSteps runs steps and returns what was printed with the summary.
func runSteps(t *testing.T, r *runner, steps ...step) (text string, passed bool, outcomes []outcome) {
	t.Helper()
	var out strings.Builder
	r.out = &out
	outcomes, err := r.run(t.Context(), steps)
	if err != nil {
		t.Fatal(err)
	}
	passed = summary(&out, steps, outcomes, time.Minute)
	return out.String(), passed, outcomes
}

// TestRunnerGoesOn: what passed is not run again, what failed is, and a failure is said
// at once, in the table and in its verdict.
func TestRunnerGoesOn(t *testing.T) {
	dir := t.TempDir()
	count := "echo ran >>" + filepath.Join(dir, "count")
	steps := []step{sh("lab/good", count), sh("lab/bad", count+"; echo a clue; echo it is broken >&2; test -e "+filepath.Join(dir, "mended"))}
	steps[0].Note = "seed 7"
	kept := func(content string) *results {
		t.Helper()
		list, err := openResults(filepath.Join(dir, "tests.jsonl"), &tree{files: map[string]string{"file": content}})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	r := &runner{slots: 2, folder: dir, kept: kept("one")}
	ran := func() int {
		data, _ := os.ReadFile(filepath.Join(dir, "count"))
		return strings.Count(string(data), "ran")
	}

	text, passed, _ := runSteps(t, r, steps...)
	if passed || ran() != 2 || !strings.Contains(text, "a clue") || !strings.Contains(text, "failed   lab/bad: sh: exit status 1: it is broken") ||
		!strings.Contains(text, "1 of 2 steps passed") || !strings.Contains(text, "lab/good: seed 7") {
		t.Errorf("first run: %v, %d commands\n%s", passed, ran(), text)
	}
	r.kept = kept("one") // as on another machine
	text, passed, _ = runSteps(t, r, steps...)
	if passed || ran() != 3 || !strings.Contains(text, "ok before") {
		t.Errorf("second run: %v, %d commands\n%s", passed, ran(), text)
	}
	if err := os.WriteFile(filepath.Join(dir, "mended"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if text, passed, _ = runSteps(t, r, steps...); !passed || ran() != 4 {
		t.Errorf("third run: %v, %d commands\n%s", passed, ran(), text)
	}
	r.kept = kept("another")
	if text, passed, _ = runSteps(t, r, steps...); !passed || ran() != 6 {
		t.Errorf("another tree: %v, %d commands\n%s", passed, ran(), text)
	}
	r.kept = nil // as with changes that are not committed
	if text, passed, _ = runSteps(t, r, steps...); !passed || ran() != 8 {
		t.Errorf("without resuming: %v, %d commands\n%s", passed, ran(), text)
	}
}

// TestRunnerSlots: two steps run at once, and one that measures runs by itself.
func TestRunnerSlots(t *testing.T) {
	dir := t.TempDir()
	// Each waits for the other, so that both end only if they run at once.
	meet := func(own, other string) step {
		return sh(own, "cd "+dir+"; touch "+own+".begun; until test -e "+other+".begun; do sleep 0.01; done; sleep 0.1; touch "+own+".ended")
	}
	alone := sh("alone", "cd "+dir+"; test -e a.ended && test -e b.ended && sleep 0.1 && touch alone.ended")
	alone.Alone = true
	after := sh("after", "test -e "+dir+"/alone.ended")
	r := &runner{slots: 2, folder: t.TempDir()}
	if text, passed, _ := runSteps(t, r, meet("a", "b"), meet("b", "a"), alone, after); !passed {
		t.Error(text)
	}
}

// TestRunnerIdle: steps that are idle run beside all others, two at once, in a cgroup that has
// what the others leave and is gone afterwards; or after them, where that cannot be.
func TestRunnerIdle(t *testing.T) {
	group, err := newIdleGroup()
	if err == nil {
		err = group.remove()
	}
	dir := t.TempDir()
	begun := func(name string) string { return "until test -e " + name + ".begun; do sleep 0.01; done" }
	in := func(name, script string) step { return sh(name, "cd "+dir+"; touch "+name+".begun; "+script) }
	idle := func(name, script string) step {
		s := in(name, script)
		s.Idle = true
		return s
	}
	alone := in("alone", begun("i1")+"; "+begun("i2"))
	if err != nil {
		alone = in("alone", "! test -e i1.begun")
	}
	alone.Alone = true
	steps := []step{
		idle("i1", begun("i2")+" && "+begun("alone")+" && grep weir-suite- /proc/self/cgroup"),
		idle("i2", begun("i1")),
		alone,
		in("after", "true"),
	}
	if err != nil {
		steps[0] = idle("i1", begun("i2")+" && "+begun("after"))
	}
	r := &runner{slots: 2, folder: t.TempDir()}
	if text, passed, _ := runSteps(t, r, steps...); !passed {
		t.Error(text)
	}
	for _, root := range cpuRoots {
		if left, _ := filepath.Glob(filepath.Join(root, fmt.Sprint("weir-suite-", os.Getpid()))); left != nil {
			t.Errorf("%s is left", left)
		}
	}
}

// TestRunnerIsInterrupted: the command ends, and its step did not pass.
func TestRunnerIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	kept, err := openResults(filepath.Join(dir, "tests.jsonl"), &tree{})
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{slots: 1, folder: dir, kept: kept, out: &strings.Builder{}}
	time.AfterFunc(100*time.Millisecond, cancel)
	outcomes, err := r.run(ctx, []step{sh("long", "sleep 60"), sh("next", "true")})
	if !errors.Is(err, context.Canceled) || outcomes[0].Passed || outcomes[1].Passed {
		t.Errorf("%+v, %v", outcomes, err)
	}
	if _, err := os.Stat(kept.file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a result was kept: %v", err)
	}
}

// TestRealTests: a step's tests are judged, those of go test and those that a binary
// prints as it does in a machine.
func TestRealTests(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module x\n", "x_test.go": `package x
import "testing"
func TestGood(t *testing.T) {}
func TestSkipped(t *testing.T) { t.Skip("no reason") }
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := readSkips(strings.NewReader("native x ^TestSkipped$ no reason"))
	if err != nil {
		t.Fatal(err)
	}
	goTest := step{Name: "go", Place: "native", Command: []string{"go", "test", "-C", dir, "-json"}}
	binary := sh("binary", "cd "+dir+" && go test -c -o x.test && ./x.test -test.v=test2json")
	binary.Place, binary.Binary = "native", "x"
	dies := sh("dies", binary.Command[2]+" -test.run Good | head -n 2; exit 125")
	dies.Place, dies.Binary = "native", "x"
	text, passed, outcomes := runSteps(t, &runner{slots: 1, folder: dir, list: list}, goTest, binary, dies)
	for i, want := range []outcome{{result: result{Passed: true, Ran: 1}}, {result: result{Passed: true, Ran: 1}}, {}} {
		if got := outcomes[i]; got.Passed != want.Passed || want.Passed && (got.Ran != 1 || len(got.Skips) != 1) {
			t.Errorf("%s: %+v\n%s", got.Name, got, text)
		}
	}
	if passed || !strings.Contains(text, "failed   dies: sh: exit status 125") || !strings.Contains(text, "skipped  go: 1 of x (TestSkipped): no reason") {
		t.Error(text)
	}
}
