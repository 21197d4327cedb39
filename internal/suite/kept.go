// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"weir/internal/atomicfile"
	"weir/internal/lab/figures"
)

// keptFile has the last result of each step of make test-full. It is committed, so that a
// run of hours can go on on another machine, and so that every reader sees which step
// passed when.
const keptFile = "docs/tests.jsonl"

// keptResult is a line of keptFile.
type keptResult struct {
	Tree string `json:"tree"` // what was tested: treeNow
	result
}

// results are the results in keptFile, and the tree of new ones. A nil pointer has none
// and keeps none.
type results struct {
	file string
	tree string

	mu   sync.Mutex
	list []keptResult // by name
}

// openResults reads the file; one that is not there is empty.
func openResults(file, tree string) (*results, error) {
	r := &results{file: file, tree: tree}
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

// passed returns the result of a step that passed with this tree.
func (r *results) passed(name string) (result, bool) {
	if r == nil {
		return result{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.list, func(k keptResult) bool { return k.Name == name && k.Tree == r.tree && k.Passed })
	if i < 0 {
		return result{}, false
	}
	return r.list[i].result, true
}

// keep writes a result instead of the step's former one.
func (r *results) keep(res result) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(slices.DeleteFunc(r.list, func(k keptResult) bool { return k.Name == res.Name }), keptResult{r.tree, res})
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

// table prints the results that there are of the steps, the tree of each included.
func (r *results) table(out io.Writer, steps []step) {
	fmt.Fprintf(out, "%-44s %-8s %7s %7s %7s  %-16s %s\n", "step", "result", "seconds", "passed", "skipped", "when (UTC)", "tree")
	for _, s := range steps {
		i := slices.IndexFunc(r.list, func(k keptResult) bool { return k.Name == s.Name })
		if i < 0 {
			fmt.Fprintf(out, "%-44s never run\n", s.Name)
			continue
		}
		k := r.list[i]
		tree := k.Tree[:min(8, len(k.Tree))]
		if k.Tree == r.tree {
			tree = "this"
		}
		fmt.Fprintf(out, "%-44s %-8s %7.0f %7d %7d  %-16s %s\n", s.Name, word(k.Passed), k.Seconds, k.Ran, len(k.Skips), k.At.UTC().Format(time.DateTime)[:16], tree)
	}
}

// treeNow returns the name of the tested tree: a digest of all files of HEAD but for
// figures and results, which steps write, and pages (*.md), which are made of them; make
// test holds the pages against the program. "" = the tree has changes that are not
// committed.
func treeNow(ctx context.Context) (string, error) {
	files := append([]string{"--", ".", ":!" + keptFile}, figures.Written...)
	changes, err := output(ctx, append([]string{"git", "status", "--porcelain"}, files...)...)
	if err != nil || len(bytes.TrimSpace(changes)) > 0 {
		return "", err
	}
	staged, err := output(ctx, append([]string{"git", "ls-files", "--stage"}, files...)...)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(staged))[:16], nil
}
