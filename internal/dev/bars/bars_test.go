// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/base/verdict"
	"weir/internal/test/goldentest"
)

const root = "../../.."

// docs/bars.md says what the scenario files, the list of tests and the data say.
func TestThePageIsCurrent(t *testing.T) {
	text, err := page(root)
	if err != nil {
		t.Fatal(err)
	}
	goldentest.Check(t, filepath.Join(root, pageFile), text)
}

// Each figure of the data belongs to an entry that is still there: a changed entry
// leaves no figure behind that no page shows.
func TestTheDataIsOfEntriesThatThereAre(t *testing.T) {
	files, err := scenarios(root)
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, f := range files {
		for _, e := range f.expect {
			there[f.path+e] = true
		}
	}
	data, err := recorded(filepath.Join(root, dataFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range data {
		if !there[d.File+d.Expect] {
			t.Errorf("%s has a figure of %s, which is not in %s any more; remove the line", dataFile, d.Expect, d.File)
		}
	}
}

func TestRecord(t *testing.T) {
	dir := t.TempDir()
	data, run := filepath.Join(dir, "bars.jsonl"), filepath.Join(dir, "run.jsonl")
	write := func(holds bool, figure string) {
		t.Helper()
		v := verdict.Verdict{File: "lab/a.yaml", Line: 3, Expect: "{utilisation: 99%}", Check: "utilisation", Scheduler: "fair", Figure: figure}
		if !holds {
			v.Failures = []string{"no"}
		}
		if err := errors.Join(os.RemoveAll(run), verdict.Add(run, []verdict.Verdict{v})); err != nil {
			t.Fatal(err)
		}
		if err := record(data, run, origin{"2026-11-23", "abc", "7.3"}); err != nil {
			t.Fatal(err)
		}
	}
	write(true, "99.9 %")
	write(false, "98.1 %")
	list, err := recorded(data)
	if err != nil || len(list) != 1 || list[0].Figure != "98.1 %" || list[0].Holds || list[0].Kernel != "7.3" {
		t.Fatalf("%+v, %v: want the second run's figure alone", list, err)
	}
	if got := measured(list); got != "98.1 % | **no** | 2026-11-23, abc, 7.3" {
		t.Errorf("the page says %q", got)
	}
	if got := measured(nil); !strings.HasPrefix(got, "not measured") {
		t.Errorf("without data the page says %q", got)
	}
}

func TestATestThatIsNotThereIsNamed(t *testing.T) {
	if there, err := hasTest(".", "TestRecord"); err != nil || !there {
		t.Errorf("TestRecord: %v, %v", there, err)
	}
	if there, err := hasTest(".", "TestRec"); err != nil || there {
		t.Errorf("TestRec: %v, %v", there, err)
	}
}
