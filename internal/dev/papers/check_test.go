// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/internal/dev/figures"
	"weir/internal/dev/papers/footprint"
)

// copied is a copy of all that pages are made of, and of the pages.
func copied(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range []string{"docs/papers", "lab"} {
		if err := os.CopyFS(filepath.Join(root, name), os.DirFS(filepath.Join("../../..", name))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(doctorFile)), 0o755); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(names, "../../../README.md", "../../../"+doctorFile, "../../../"+footprint.File) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := filepath.Rel("../../..", file)
		if err := os.WriteFile(filepath.Join(root, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// disagreements returns the complaints about a copy, without its age: a copy has no history.
func disagreements(t *testing.T, root string) []string {
	t.Helper()
	list, _, err := problems(root)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(line string) bool { return strings.HasPrefix(line, figures.Folder) })
}

// TestEditedCostIsFound changes the figure that weir doctor quotes by hand.
func TestEditedCostIsFound(t *testing.T) {
	root := copied(t)
	file := filepath.Join(root, doctorFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, regexp.MustCompile(`"instructions": \d`).ReplaceAll(text, []byte(`"instructions": 9`)), 0o644); err != nil {
		t.Fatal(err)
	}
	if list := disagreements(t, root); len(list) != 1 || !strings.HasPrefix(list[0], doctorFile+":2:") {
		t.Errorf("said %q, want that %s:2 disagrees", list, doctorFile)
	}
}

var number = regexp.MustCompile(`\d+\.\d+`)

// TestEditedFigureIsFound changes a number by hand in each page and block that is made from
// data, and looks for the file and the line in what make check says.
func TestEditedFigureIsFound(t *testing.T) {
	root := copied(t)
	if list := disagreements(t, root); len(list) > 0 {
		t.Fatalf("before anything was changed: %s", strings.Join(list, "\n"))
	}
	b, err := build(root)
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	for _, name := range b.names {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		file := filepath.Join(root, name)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		at := placeOfFigure(name, text, b.left)
		if at == nil { // all of it is older than the data
			continue
		}
		edited := slices.Concat(text[:at[0]], []byte("123.456"), text[at[1]:])
		if err := os.WriteFile(file, edited, 0o644); err != nil {
			t.Fatal(err)
		}
		want := name + ":" + strconv.Itoa(bytes.Count(text[:at[0]], []byte("\n"))+1) + ": "
		if list := disagreements(t, root); len(list) != 1 || !strings.HasPrefix(list[0], want) || !strings.Contains(list[0], "run make figures") {
			t.Errorf("%s: make check says %q, want a line that begins with %s", name, list, want)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		pages++
	}
	if pages < 2 {
		t.Errorf("%d pages are made from data; README.md is one, docs/papers has others", pages)
	}
}

var blockBegins = regexp.MustCompile(`<!-- figures: ([a-z0-9/-]+) -->`)

// placeOfFigure is where a page that is all data has its last number, and another one the
// first in a block that is not left as it is.
func placeOfFigure(name string, text []byte, left []string) []int {
	if !figures.HasBlocks(text) {
		all := number.FindAllIndex(text, -1)
		if len(all) == 0 {
			return nil
		}
		return all[len(all)-1]
	}
	for _, begin := range blockBegins.FindAllSubmatchIndex(text, -1) {
		place := name + "#" + string(text[begin[2]:begin[3]]) + ": "
		if slices.ContainsFunc(left, func(l string) bool { return strings.HasPrefix(l, place) }) {
			continue
		}
		if at := number.FindIndex(text[begin[1]:]); at != nil {
			return []int{begin[1] + at[0], begin[1] + at[1]}
		}
	}
	return nil
}

// A page whose data is gone is an error, unless it is listed as older than the data.
func TestPageWithoutDataIsRefused(t *testing.T) {
	root := copied(t)
	if err := os.RemoveAll(filepath.Join(root, figures.Folder, "c-balancer-optimizer")); err != nil {
		t.Fatal(err)
	}
	if _, err := build(root); err == nil || !strings.Contains(err.Error(), "docs/papers/c-balancer-optimizer.md: no data; measure: scripts/papers c-balancer") {
		t.Errorf("%v", err)
	}
	text, err := os.ReadFile(filepath.Join(root, unmeasured))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	text = append(text, "docs/papers/c-balancer-optimizer.md a test\n"...)
	if err := os.WriteFile(filepath.Join(root, unmeasured), text, 0o644); err != nil {
		t.Fatal(err)
	}
	b, err := build(root)
	if err != nil || !slices.Contains(b.left, "docs/papers/c-balancer-optimizer.md: a test") {
		t.Errorf("%v: %v", b, err)
	}
}

// A page that is listed as older than the data, and has data, is made from it and taken off the
// list.
func TestListedPageWithDataIsMade(t *testing.T) {
	root := copied(t)
	file := filepath.Join(root, unmeasured)
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(slices.Clip(text), "docs/papers/c-balancer-optimizer.md a test\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	want := "unmeasured.txt: it lists docs/papers/c-balancer-optimizer.md, whose runs are all there; run make figures"
	list, _, err := problems(root)
	if err != nil || !slices.ContainsFunc(list, func(line string) bool { return strings.HasSuffix(line, want) }) {
		t.Errorf("%q: %v", list, err)
	}
	if err := write(root); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != string(text) {
		t.Errorf("the list is %q (%v), want %q", got, err, text)
	}
}

// A picture that is not the run's own is found.
func TestEditedPictureIsFound(t *testing.T) {
	root := copied(t)
	const name = "docs/papers/c-balancer-optimizer/fig10a.svg"
	file := filepath.Join(root, name)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	if list := disagreements(t, root); len(list) != 1 || !strings.HasPrefix(list[0], name+":1: ") {
		t.Errorf("%q", list)
	}
}
