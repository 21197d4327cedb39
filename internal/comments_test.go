// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	// inComment finds names of files and folders of this project in a comment: what ends as
	// source, documentation and configuration do, and what begins with a folder of ours.
	inComment = regexp.MustCompile(`(^|[^\w/.*<>$-])((?:[\w-]+/)*[\w.-]+\.(?:go|[ch]|md|yaml|golden)\b|(?:bpf|cmd|deploy|docs|internal|lab|scripts|tools|vm)/[\w/.-]*\w)($|[^\w/*])`)
	// foreign are files of the kernel, of other projects, and those that a reader makes.
	foreign = regexp.MustCompile(`^(?:(?:linux|asm|net)/|vmlinux\.h$|bpf/lib/common\.h$)|NAME|PAPER`)
	// steps of make test-full have names that look like paths: vm/qdisc-7.3.
	stepName = regexp.MustCompile(`^vm/[a-z0-9/]+(?:-[0-9.]+)?$`)
	// qualified is a name with its package: plan.Diff.
	qualified = regexp.MustCompile(`\b([a-z][a-z0-9]+)\.([A-Z]\w+)\b`)
	slashes   = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)
	hashes    = regexp.MustCompile(`(?m)(?:^|\s)#[^\n]*`)
)

// tree holds the files of the working tree that git tracks, and their folders.
type tree struct{ files, folders map[string]bool }

func trackedFiles(t *testing.T) tree {
	t.Helper()
	out, err := exec.Command("git", "-C", "..", "ls-files", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Skip("not in a clone: ", err)
	}
	tr := tree{map[string]bool{}, map[string]bool{}}
	for _, file := range strings.Fields(string(out)) {
		if !exists(filepath.Join("..", file)) {
			continue
		}
		tr.files[file] = true
		for folder := path.Dir(file); folder != "."; folder = path.Dir(folder) {
			tr.folders[folder] = true
		}
	}
	return tr
}

// has reports whether name, in a comment of a file in folder, is something of the tree:
// from folder, from the root, or, of the files that all of the project knows by their
// names, from bpf or deploy.
func (tr tree) has(folder, name string) bool {
	for _, from := range []string{folder, ".", "bpf", "deploy"} {
		if p := path.Join(from, name); tr.files[p] || tr.folders[p] {
			return true
		}
	}
	return false
}

// comments returns the comments of a file, by the line where each begins.
func comments(t *testing.T, file string) map[int]string {
	text, err := os.ReadFile(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	list := map[int]string{}
	if strings.HasSuffix(file, ".go") {
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range parsed.Comments {
			for _, c := range group.List {
				list[fset.Position(c.Pos()).Line] = c.Text
			}
		}
		return list
	}
	kind := hashes
	if strings.HasSuffix(file, ".c") || strings.HasSuffix(file, ".h") {
		kind = slashes
	}
	for _, at := range kind.FindAllIndex(text, -1) {
		list[1+strings.Count(string(text[:at[0]]), "\n")] = string(text[at[0]:at[1]])
	}
	return list
}

// commented are the files whose comments are held to what there is.
func commented(tr tree) (list []string) {
	for file := range tr.files {
		if strings.Contains(file, "testdata/") {
			continue
		}
		switch path.Ext(file) {
		case ".go", ".c", ".h", ".yaml", ".yml":
			list = append(list, file)
		case "":
			if strings.HasPrefix(file, "scripts/") || strings.HasPrefix(file, "vm/") || file == "Makefile" || file == ".ci/run" {
				list = append(list, file)
			}
		}
	}
	slices.Sort(list)
	return list
}

// stale returns the names of files in a comment that the tree does not have.
func stale(tr tree, folder, comment string) (list []string) {
	if strings.HasPrefix(comment, "//go:") {
		return nil
	}
	for rest := comment; ; {
		at := inComment.FindStringSubmatchIndex(rest)
		if at == nil {
			return list
		}
		name := strings.TrimRight(rest[at[4]:at[5]], ".")
		rest = rest[at[5]:]
		if !foreign.MatchString(name) && !stepName.MatchString(name) && !tr.has(folder, name) {
			list = append(list, name)
		}
	}
}

// examples are files that users, tests and make test-full write.
var examples = []string{"docs/tests.jsonl", "bad.yaml", "nowhere.yaml", "plan.yaml", "w01.yaml", "w02.yaml"}

// TestFilesInCommentsExist: a comment that names a file or a folder of the project names
// one that there is.
func TestFilesInCommentsExist(t *testing.T) {
	tr := trackedFiles(t)
	files := commented(tr)
	if len(files) < 500 {
		t.Fatalf("only %d files with comments found", len(files))
	}
	for _, file := range files {
		for line, text := range comments(t, file) {
			for _, name := range stale(tr, path.Dir(file), text) {
				if !slices.Contains(examples, name) {
					t.Errorf("%s:%d: the comment names %s, which does not exist", file, line, name)
				}
			}
		}
	}
}

// TestStaleNamesAreSeen: a comment with the name of a file that is gone is found, in each
// of the forms that names have.
func TestStaleNamesAreSeen(t *testing.T) {
	tr := trackedFiles(t)
	for comment, want := range map[string]string{
		"// see gone.go for the rest":                 "gone.go",
		"//\tgone.go   what is no more":               "gone.go",
		"/* Where is it (gone.h)? */":                 "gone.h",
		"// docs/gone.md has the reasons.":            "docs/gone.md",
		"// internal/gone decides.":                   "internal/gone",
		"# scripts/gone makes it":                     "scripts/gone",
		"// gone.go gone.h, scripts/versions":         "gone.go gone.h",
		"// arch_test.go and internal/core/policy":    "",
		"// changes.h, weir.yaml, docs/qdisc.md.":     "",
		"// linux/pkt_cls.h; a step: vm/test/e2e-7.3": "",
	} {
		if got := strings.Join(stale(tr, "internal", comment), " "); got != want {
			t.Errorf("%q: %q, want %q", comment, got, want)
		}
	}
}

// TestNamesInCommentsAreDeclared: a name of a package in a comment, as in plan.Diff, is one
// that the package declares. Packages of other projects that a file imports by the name of
// one of ours are left alone.
func TestNamesInCommentsAreDeclared(t *testing.T) {
	tr := trackedFiles(t)
	parsed := map[string]*ast.File{}
	fset := token.NewFileSet()
	declared := map[string]map[string]bool{}
	for _, file := range commented(tr) {
		if path.Ext(file) != ".go" {
			continue
		}
		f, err := parser.ParseFile(fset, filepath.Join("..", file), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed[file] = f
		name := strings.TrimSuffix(f.Name.Name, "_test")
		if declared[name] == nil {
			declared[name] = map[string]bool{}
		}
		for _, d := range f.Decls {
			for _, n := range namesOf(d) {
				declared[name][n] = true
			}
		}
	}
	for _, f := range parsed {
		for _, group := range f.Comments {
			for _, m := range qualified.FindAllStringSubmatch(group.Text(), -1) {
				if names := declared[m[1]]; names != nil && !names[m[2]] && !importsForeign(f, m[1]) {
					t.Errorf("%s: the comment names %s, which package %s does not declare", fset.Position(group.Pos()), m[0], m[1])
				}
			}
		}
	}
}

// importsForeign reports whether what a file calls name is a package of another project.
func importsForeign(f *ast.File, name string) bool {
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil || below(imported, module) {
			continue
		}
		if spec.Name != nil && spec.Name.Name == name || spec.Name == nil && path.Base(imported) == name {
			return true
		}
	}
	return false
}

// namesOf returns the names that a declaration declares in its package, methods and
// fields aside.
func namesOf(d ast.Decl) (list []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		list = append(list, d.Name.Name)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				list = append(list, spec.Name.Name)
			case *ast.ValueSpec:
				for _, n := range spec.Names {
					list = append(list, n.Name)
				}
			}
		}
	}
	return list
}

// asIs are lines of comments that are what they are: directives, and examples and tables, which
// stand behind a tab or three spaces.
var asIs = regexp.MustCompile(`^\s*(//go:|(//|\*)(\t|   ))`)

// TestCommentLinesFit: no line that is a comment alone is longer than 100 columns, with tabs at
// every eighth: it is read beside the code, and in the diff of a review.
func TestCommentLinesFit(t *testing.T) {
	const most = 100
	for _, file := range commented(trackedFiles(t)) {
		if !slices.Contains([]string{".go", ".c", ".h"}, path.Ext(file)) {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for first, comment := range comments(t, file) {
			for i := range strings.Count(comment, "\n") + 1 {
				line := lines[first-1+i]
				behindCode := i == 0 && !strings.HasPrefix(strings.TrimSpace(line), comment[:2])
				if got := columns(line); got > most && !behindCode && !asIs.MatchString(line) {
					t.Errorf("%s:%d: the comment's line has %d columns, %d are the most", file, first+i, got, most)
				}
			}
		}
	}
}

// columns returns how wide a line is.
func columns(line string) (n int) {
	for _, r := range line {
		if n++; r == '\t' {
			n = (n + 7) / 8 * 8
		}
	}
	return n
}
