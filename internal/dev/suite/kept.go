// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"weir/internal/base/atomicfile"
	"weir/internal/dev/figures"
)

// keptFile has the last result of each step of make test-full. It is committed, so that a
// run of hours can go on on another machine, and so that every reader sees which step
// passed when.
const keptFile = "docs/tests.jsonl"

// keptResult is a line of keptFile.
type keptResult struct {
	Tree   string `json:"tree"`   // digest of the step's inputs
	Commit string `json:"commit"` // at which it ran
	result
}

// results are the results in keptFile, and the tree that they are looked at for. A nil pointer has
// none and keeps none.
type results struct {
	file string
	tree *tree

	mu   sync.Mutex
	list []keptResult // by name
}

// openResults reads the file; one that is not there is empty.
func openResults(file string, t *tree) (*results, error) {
	r := &results{file: file, tree: t}
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		var k keptResult
		if err := json.Unmarshal(line, &k); err != nil {
			return nil, fmt.Errorf("%s:%d: %w; remove the line, and its step is run again", file, n, err)
		}
		r.list = append(r.list, k)
	}
	return r, nil
}

// stands returns the last result of a step, passed or not, and whether it is of what the step
// would run now: the same inputs and, where it measured what a page may quote, code of which no
// more has changed since than figures may be old.
func (r *results) stands(s step) (k keptResult, stands bool, err error) {
	r.mu.Lock()
	i := slices.IndexFunc(r.list, func(k keptResult) bool { return k.Name == s.Name })
	if i >= 0 {
		k = r.list[i]
	}
	r.mu.Unlock()
	if i < 0 || k.Tree != r.tree.digest(s.Inputs) {
		return k, false, nil
	}
	if s.Inputs.paper != "" {
		stands, err = figures.Stands(".", k.Commit, s.Inputs.paper)
		return k, stands, err
	}
	return k, true, nil
}

// passed returns the result of a step that passed, if it stands.
func (r *results) passed(s step) (result, bool, error) {
	if r == nil {
		return result{}, false, nil
	}
	k, stands, err := r.stands(s)
	return k.result, stands && k.Passed, err
}

// keep writes a result instead of the step's former one.
func (r *results) keep(s step, res result) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(slices.DeleteFunc(r.list, func(k keptResult) bool { return k.Name == res.Name }),
		keptResult{r.tree.digest(s.Inputs), r.tree.commit, res})
	slices.SortFunc(r.list, func(a, b keptResult) int { return cmp.Compare(a.Name, b.Name) })
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for _, k := range r.list {
		if err := enc.Encode(k); err != nil {
			return err
		}
	}
	return atomicfile.Write(r.file, out.Bytes(), 0o644)
}

// table prints the last result of each step, and whether it stands. It returns how many steps have
// none that stands, and how many of those that do are red.
func (r *results) table(out io.Writer, steps []step) (missing, red int, err error) {
	fmt.Fprintf(out, "%-44s %-8s %7s %7s %7s  %-16s %-8s %s\n", "step", "result", "seconds", "passed", "skipped", "when (UTC)", "commit", "")
	for _, s := range steps {
		k, stands, err := r.stands(s)
		if err != nil {
			return 0, 0, err
		}
		remark := ""
		switch {
		case k.Name == "":
			missing++
			fmt.Fprintf(out, "%-44s never run\n", s.Name)
			continue
		case !stands:
			missing++
			remark = "does not stand: what it ran has changed"
		case !k.Passed:
			red++
		}
		fmt.Fprintf(out, "%-44s %-8s %7.0f %7d %7d  %-16s %-8s %s\n", s.Name, word(k.Passed), k.Seconds, k.Ran, len(k.Skips),
			k.At.UTC().Format(time.DateTime)[:16], k.Commit[:min(8, len(k.Commit))], remark)
	}
	fmt.Fprintf(out, "%d of %d steps of make test-full have no result that stands, %d of the others failed\n", missing, len(steps), red)
	return missing, red, nil
}
