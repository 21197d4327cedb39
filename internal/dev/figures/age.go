// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	scheduler = part{"the data plane", []string{"bpf", "internal/host/dataplane"}, 400}
	labItself = part{"the lab", []string{"internal/lab", ":!internal/lab/cluster", ":!internal/lab/demo", ":!internal/lab/labcli", ":!internal/lab/sandbox"}, 1200}
	optimizer = part{"the optimizer", []string{"internal/cluster/optimize", "internal/cluster/sim"}, 400}
	migration = part{"migration", []string{"internal/cluster/migrate", "internal/lab/cluster"}, 1500}
	noTests   = []string{":!*_test.go", ":!*/testdata/*", ":!internal/*test/*", ":!bpf/sim", ":!internal/host/dataplane/fake"}
)

// measured says what the runs of a paper's folder measure. Runs of a folder that is not
// here measure the scheduler, with the lab.
var measured = map[string][]part{
	"c-balancer-optimizer": {optimizer},
	"c-balancer-together":  {}, // programs of others
	"c-balancer":           {migration},
	"cluster":              {migration},
}

// staleList is the file of the folder that names the stale commits, a line each: the commit, the
// day on which make figures found it so, and the name of the part that has changed. Pages say it
// of every figure of such a commit (Origin.Measured), and make release refuses the tree.
const staleList = "stale.txt"

// age is a commit that was measured, and a part of the code that its runs measured.
type age struct{ commit, part string }

// parts are the parts of the code that a paper's runs measure.
func parts(paper string) []part {
	if list, special := measured[paper]; special {
		return list
	}
	return []part{scheduler, labItself}
}

// readStale reads the text of staleList, and marks the runs of the commits that it names.
func (d *Runs) readStale(text []byte) error {
	d.since, d.staleList = map[age]string{}, string(text)
	for line := range bytes.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(string(line)), " ", 3)
		if len(f) != 3 {
			return fmt.Errorf("%q: want COMMIT DAY PART; run make figures", line)
		}
		d.since[age{f[0], f[2]}] = f[1]
	}
	for _, r := range d.runs {
		for _, p := range parts(r.Paper()) {
			if since := d.since[age{r.Source.Commit, p.name}]; since != "" && r.Source.stale == "" {
				r.Source.stale = fmt.Sprintf("stale since %s: more than %d lines of %s have changed", since, p.lines, p.name)
			}
		}
	}
	return nil
}

// Measured is the commit of a run for a page, and since when the code is another than that.
func (s Origin) Measured() string {
	commit := "`" + s.Commit[:min(12, len(s.Commit))] + "`"
	if s.stale != "" {
		commit += " (**" + s.stale + "**)"
	}
	return commit
}

// Wrong returns a line for each run whose data cannot be held against the tree at root: its
// commit is not in the clone, or its scenario is another one by now. Each line begins with
// the run's file and has the remedy. A line more says that the list of stale commits is wrong.
func (d *Runs) Wrong(root string) (problems []string) {
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
		if len(parts(r.Paper())) > 0 && !known(root, r.Source.Commit) {
			complain(fmt.Sprintf("its commit %.12s is not in this clone; in a shallow one, git fetch --unshallow; else", r.Source.Commit))
		}
	}
	if len(problems) > 0 {
		return problems
	}
	want, err := d.staleText(root, "now")
	if err != nil {
		return []string{err.Error()}
	}
	if want != d.staleList {
		problems = append(problems, fmt.Sprintf("%s/%s:1: the code has changed by more than the data may be old, or no longer; run make figures", Folder, staleList))
	}
	return problems
}

// Stale returns a line for each listed commit of which there are runs: it, since when and why, and
// how many of the papers' runs are of it.
func (d *Runs) Stale() (list []string) {
	count := map[string]int{}
	for _, r := range d.runs {
		if r.Source.stale != "" {
			count[r.Source.Measured()]++
		}
	}
	for _, what := range slices.Sorted(maps.Keys(count)) {
		list = append(list, fmt.Sprintf("%d runs of %s", count[what], what))
	}
	return list
}

// Refresh writes the list of stale commits anew: today is the day of those that are new in it.
func (d *Runs) Refresh(root, today string) error {
	text, err := d.staleText(root, today)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, Folder, staleList), []byte(text), 0o644)
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

// known says whether a commit is in the clone at root, or need not be.
func known(root, commit string) bool {
	return os.Getenv(withoutHistory) != "" || in(root, commit)
}

func in(root, commit string) bool {
	_, err := git(root, "cat-file", "-e", commit+"^{commit}")
	return err == nil
}

// staleText is what staleList has to be for the tree at root. today is the day of commits that
// are new in it. Commits that are not in the clone keep what the list says.
func (d *Runs) staleText(root, today string) (string, error) {
	var list []string
	seen := map[age]bool{}
	for _, name := range d.Names() {
		r := d.runs[name]
		for _, p := range parts(r.Paper()) {
			a := age{r.Source.Commit, p.name}
			if seen[a] {
				continue
			}
			seen[a] = true
			since, stale := d.since[a]
			if in(root, a.commit) {
				lines, err := p.changed(root, a.commit)
				if err != nil {
					return "", err
				}
				stale = lines > p.lines
			}
			if stale {
				list = append(list, fmt.Sprintf("%s %s %s\n", a.commit, cmp.Or(since, today), a.part))
			}
		}
	}
	slices.Sort(list)
	return strings.Join(list, ""), nil
}

// Stands says whether what a run of a paper's folder measured at a commit, and what it measured
// with, has not changed since by more than figures may be old. A commit that is not in the clone
// does not.
func Stands(root, commit, paper string) (bool, error) {
	if !in(root, commit) {
		return false, nil
	}
	for _, p := range parts(paper) {
		if lines, err := p.changed(root, commit); err != nil || lines > p.lines {
			return false, err
		}
	}
	return true, nil
}

// changed returns how many lines of the part the tree at root has added and removed since a commit.
func (p part) changed(root, commit string) (lines int, err error) {
	text, err := git(root, append(append([]string{"diff", "--text", "--numstat", commit, "--"}, p.folders...), noTests...)...)
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
	return lines, err
}

// Written are git's pathspecs that leave out recorded data, and the pages made of it.
var Written = []string{":!docs/papers", ":!docs/bars.jsonl", ":!internal/host/rootlock/cost.json", ":!*.md"}

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
