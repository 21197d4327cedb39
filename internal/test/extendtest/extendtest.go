// SPDX-License-Identifier: Apache-2.0

// Package extendtest does what docs/extend.md says on a copy of the source, so that the page
// cannot promise more than is true. A test takes the code of a section, puts it where the
// page says, and runs Go on the result:
//
//	c := extendtest.Copy(t, "../../..")
//	code := c.Code("docs/extend.md", "## A refusal")
//	c.After("internal/core/refusal/kind.go", `Timeout  Kind =`, code[0])
//	c.Go("test", "./internal/core/refusal")
//
// The copy has the Go source and docs/*.md, all that the Go packages need. It has no
// history and nothing of the kernel side but what was generated.
package extendtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Tree is a copy of the source.
type Tree struct {
	Root string
	t    testing.TB
}

// Copy copies the source below root. It is removed when the test ends.
func Copy(t testing.TB, root string) *Tree {
	t.Helper()
	c := &Tree{Root: t.TempDir(), t: t}
	for _, folder := range []string{"cmd", "internal"} {
		c.must(os.CopyFS(filepath.Join(c.Root, folder), os.DirFS(filepath.Join(root, folder))))
	}
	c.must(os.MkdirAll(filepath.Join(c.Root, "docs"), 0o755))
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	c.must(err)
	for _, file := range append(pages, filepath.Join(root, "go.mod"), filepath.Join(root, "go.sum")) {
		text, err := os.ReadFile(file)
		c.must(err)
		name, err := filepath.Rel(root, file)
		c.must(err)
		c.write(name, string(text))
	}
	return c
}

// Read returns a file of the copy.
func (c *Tree) Read(name string) string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.Root, name))
	c.must(err)
	return string(text)
}

// codeBlock is a block of Go in a page.
var codeBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// Code returns the blocks of Go in the section of a page that begins with a heading.
func (c *Tree) Code(page, heading string) (blocks []string) {
	c.t.Helper()
	_, section, found := strings.Cut(c.Read(page), "\n"+heading+"\n")
	if !found {
		c.t.Fatalf("%s has no section %q", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, b := range codeBlock.FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, b[1])
	}
	return blocks
}

// After puts text below the one line of a file that has these words.
func (c *Tree) After(name, words, text string) {
	c.t.Helper()
	lines := strings.SplitAfter(c.Read(name), "\n")
	has := func(line string) bool { return strings.Contains(line, words) }
	at := slices.IndexFunc(lines, has)
	if at < 0 || slices.ContainsFunc(lines[at+1:], has) {
		c.t.Fatalf("%s: not exactly one line has %q", name, words)
	}
	c.write(name, strings.Join(slices.Insert(lines, at+1, text), ""))
}

// Go runs the go command in the copy; it has to succeed.
func (c *Tree) Go(args ...string) {
	c.t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = c.Root
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (c *Tree) write(name, text string) {
	c.t.Helper()
	c.must(os.WriteFile(filepath.Join(c.Root, name), []byte(text), 0o644))
}

func (c *Tree) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}
