// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"weir/internal/dev/figures"
)

// inputs is what a step's result depends on. The zero value is every file of HEAD but those that
// steps write: right for each command that runs the programs, or whose inputs are not known.
type inputs struct {
	tests []string // packages, below internal/, with their tests and all that they are built of
	files []string // files and folders
	// paper is the folder of the papers' data that the step's scenario belongs to. Its result
	// then also depends on the code that such a run measures, as far as figures may be old.
	paper string
}

// tree is what there is in HEAD.
type tree struct {
	commit   string
	files    map[string]string // what git calls the content, by path
	packages map[string]goPackage
}

// goPackage is what go list says of a package of this module.
type goPackage struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

const module = "weir/"

// tested are the pathspecs of what belongs to a tree: not figures and results, which steps write,
// and not pages (*.md), which are made of them. make test holds the pages against the program.
var tested = append([]string{"--", ".", ":!" + keptFile}, figures.Written...)

// treeNow reads the tree of HEAD. It is nil if something was changed and is not committed: results
// are of commits.
func treeNow(ctx context.Context) (*tree, error) {
	changes, err := output(ctx, append([]string{"git", "status", "--porcelain"}, tested...)...)
	if err != nil || len(bytes.TrimSpace(changes)) > 0 {
		return nil, err
	}
	return readTree(ctx)
}

func readTree(ctx context.Context) (*tree, error) {
	head, err := output(ctx, "git", "rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	staged, err := output(ctx, append([]string{"git", "ls-files", "--stage"}, tested...)...)
	if err != nil {
		return nil, err
	}
	t := &tree{commit: string(bytes.TrimSpace(head)), files: map[string]string{}, packages: map[string]goPackage{}}
	for line := range strings.Lines(string(staged)) {
		content, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		t.files[name] = content
	}
	list, err := output(ctx, "go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	if err != nil {
		return nil, err
	}
	for dec := json.NewDecoder(bytes.NewReader(list)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return t, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		t.packages[p.ImportPath] = p
	}
}

// digest names the content of all that a step's result depends on.
func (t *tree) digest(in inputs) string {
	var names []string
	if in.tests == nil && in.files == nil {
		names = slices.Collect(maps.Keys(t.files))
	} else {
		names = append(t.under(in.files...), t.builtOf(in.tests)...)
	}
	slices.Sort(names)
	sum := sha256.New()
	for _, name := range slices.Compact(names) {
		fmt.Fprintf(sum, "%s\t%s\n", t.files[name], name)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))[:16]
}

// under returns the files that have one of the names, or are in a folder of it.
func (t *tree) under(names ...string) (found []string) {
	for file := range t.files {
		if slices.ContainsFunc(names, func(n string) bool { return file == n || strings.HasPrefix(file, n+"/") }) {
			found = append(found, file)
		}
	}
	return found
}

// builtOf returns the files of packages with their tests, of all that those import, and of the
// eBPF programs if one of them is made of such. The versions of libraries are in go.mod.
func (t *tree) builtOf(tests []string) []string {
	if len(tests) == 0 {
		return nil
	}
	var folders []string // of packages, those with tests first
	add := func(imports ...string) {
		for _, p := range imports {
			if _, here := t.packages[p]; here && !slices.Contains(folders, strings.TrimPrefix(p, module)) {
				folders = append(folders, strings.TrimPrefix(p, module))
			}
		}
	}
	for _, p := range tests {
		add(module + "internal/" + p)
	}
	own := len(folders)
	for i := 0; i < len(folders); i++ {
		p := t.packages[module+folders[i]]
		add(p.Imports...)
		if i < own {
			add(p.TestImports...)
			add(p.XTestImports...)
		}
	}
	files := t.under("go.mod", "go.sum")
	for file := range t.files {
		i := slices.Index(folders, t.packageOf(file))
		if i >= 0 && (i < own || !strings.HasSuffix(file, "_test.go") && !strings.Contains(file, "/testdata/")) {
			files = append(files, file)
		}
		if i >= 0 && path.Base(file) == "gen.go" {
			files = append(files, t.under("bpf", "docs/examples/discipline")...)
		}
	}
	return files
}

// packageOf returns the folder of the package that a file belongs to: its own, or the next above
// it, for what is embedded and for test data. "" = it belongs to none.
func (t *tree) packageOf(file string) string {
	for folder := path.Dir(file); folder != "."; folder = path.Dir(folder) {
		if _, own := t.packages[module+folder]; own {
			return folder
		}
	}
	return ""
}
