// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// part is something that a run measures or measures with, and how many of its lines may
// change (added or removed, without tests) before what was measured counts as too old.
type part struct {
	name    string
	folders []string // git's pathspecs
	lines   int
}

var (
	scheduler = part{"the data plane", append([]string{"bpf", "internal/dataplane"}, noPacket...), 400}
	labItself = part{"the lab", []string{"internal/lab", ":!internal/lab/papers", ":!internal/lab/balancer", ":!internal/lab/figures", ":!internal/lab/cluster"}, 1200}
	optimizer = part{"the optimizer", []string{"internal/cluster/optimize"}, 400}
	migration = part{"migration", []string{"internal/cluster/migrate", "internal/lab/cluster", ":!internal/lab/cluster/paper"}, 1500}
	noTests   = []string{":!*_test.go", ":!*/testdata/*", ":!internal/*test/*", ":!bpf/sim", ":!internal/dataplane/fake"}
)

// noPacket are files of the data plane that no packet meets: they refuse options of sockets, and
// mount the file system of pins.
var noPacket = []string{":!bpf/marking/bypass.bpf.c", ":!internal/dataplane/mark/bypass.go", ":!internal/dataplane/device/bpffs.go"}

// measured says what the runs of a paper's folder measure. Runs of a folder that is not
// here measure the scheduler, with the lab.
var measured = map[string][]part{
	"c-balancer-optimizer": {optimizer},
	"c-balancer-together":  {}, // programs of others
	"c-balancer":           {migration},
	"cluster":              {migration},
}

// Parts says for people what may change how far, for the docs.
func Parts() string {
	var list []string
	for _, p := range []part{scheduler, labItself, optimizer, migration} {
		list = append(list, fmt.Sprintf("%d lines of %s (%s)", p.lines, p.name, strings.Join(p.folders, " ")))
	}
	return strings.Join(list, "; ")
}

// Stale returns a line for each run that is too old for the tree at root: its commit is not
// in the clone, what it measures has changed by more lines since than it may, or its scenario
// is another one by now. Each line begins with the run's file and has the remedy.
func (d *Data) Stale(root string) (problems []string) {
	known := map[string]string{} // commit and part to the complaint
	for _, name := range d.Names() {
		r := d.runs[name]
		complain := func(what string) {
			problems = append(problems, fmt.Sprintf("%s/%s.jsonl:1: %s; measure again: %s", Folder, name, what, r.remedy()))
		}
		if text, err := os.ReadFile(filepath.Join(root, r.Source.Scenario)); err != nil {
			complain(fmt.Sprintf("its scenario %s is not there", r.Source.Scenario))
		} else if r.Source.Digest != Digest(text) {
			complain(fmt.Sprintf("%s has changed since", r.Source.Scenario))
		}
		parts, special := measured[r.Paper()]
		if !special {
			parts = []part{scheduler, labItself}
		}
		for _, p := range parts {
			key := r.Source.Commit + p.name
			what, done := known[key]
			if !done {
				what = p.changed(root, r.Source.Commit)
				known[key] = what
			}
			if what != "" {
				complain(what)
				break
			}
		}
	}
	return problems
}

// remedy is the command that measures a run again and keeps its data.
func (r *Run) remedy() string {
	switch r.Paper() {
	case "c-balancer", "cluster":
		return "scripts/papers c-balancer"
	case "c-balancer-optimizer", "c-balancer-together":
		return r.Source.Command
	}
	return "scripts/papers " + r.Name
}

// withoutHistory in the environment says that the checkout has no history, so that the age
// of data cannot be looked at: .ci/run sets it where that is so, and says it.
const withoutHistory = "WEIR_WITHOUT_HISTORY"

// changed returns the complaint about the distance of a commit from the tree at root, "" if
// there is none.
func (p part) changed(root, commit string) string {
	if _, err := git(root, "cat-file", "-e", commit+"^{commit}"); err != nil {
		if os.Getenv(withoutHistory) != "" {
			return ""
		}
		return fmt.Sprintf("its commit %.12s is not in this clone; in a shallow one, git fetch --unshallow; else", commit)
	}
	text, err := git(root, append(append([]string{"diff", "--numstat", commit, "--"}, p.folders...), noTests...)...)
	if err != nil {
		return err.Error()
	}
	lines := 0
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) < 3 {
			continue
		}
		for _, n := range fields[:2] {
			v, _ := strconv.Atoi(n) // "-" of a binary file is 0
			lines += v
		}
	}
	if lines > p.lines {
		return fmt.Sprintf("%d lines of %s have changed since its commit %.12s, %d may", lines, p.name, commit, p.lines)
	}
	return ""
}

// Written are git's pathspecs that leave out recorded data, and the pages made of it.
var Written = []string{":!docs/papers", ":!docs/bars.jsonl", ":!internal/rootlock/cost.json", ":!*.md"}

// measures names the files that any run measures, or measures with: git's pathspecs.
var measures = append([]string{"bpf", "cmd", "internal", "lab", "vm", "go.mod", "go.sum"}, Written...)

// Committed fails, naming the files, if something that a run measures is not as HEAD has it:
// the run's data could not say what was measured.
func Committed(root string) error {
	changed, err := git(root, append([]string{"status", "--porcelain", "--"}, measures...)...)
	if err == nil && len(changed) > 0 {
		err = fmt.Errorf("commit or put away what is measured before it is measured:\n%s", bytes.TrimRight(changed, "\n"))
	}
	return err
}

// Current says whether HEAD has what the run measured, whatever else has been committed since.
func (r *Run) Current(root string) bool {
	_, err := git(root, append([]string{"diff", "--quiet", r.Source.Commit, "HEAD", "--"}, measures...)...)
	return err == nil
}

func git(root string, args ...string) ([]byte, error) {
	out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("git %s: %s", args[0], bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}
