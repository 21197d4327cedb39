// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fences   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	headings = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	linked   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	unslug   = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
	// named is a file or folder of ours that a page names: `internal/core/plan/build.go`.
	named = regexp.MustCompile("`((?:bpf|cmd|deploy|docs|internal|lab|scripts|tools|vm)/[\\w./-]*\\w)`")
)

// TestEveryPageIsOnTheMap: docs/README.md, the map by reader, leads to each page of docs.
func TestEveryPageIsOnTheMap(t *testing.T) {
	text, err := os.ReadFile("../docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(string(text), "("+name+")") {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
	}
}

// TestLinks: a link from one page to another leads to a file, and to a heading in it, that
// are there; so are the files and folders that README.md and docs/*.md name as code.
func TestLinks(t *testing.T) {
	pages := map[string]string{} // text without fenced code, by path from the root
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md", "deploy/*.md", "vm/*.md", "lab/*.md", "lab/*/*.md"} {
		files, err := filepath.Glob("../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			pages[strings.TrimPrefix(file, "../")] = fences.ReplaceAllString(string(text), "")
		}
	}
	for page, text := range pages {
		for _, name := range named.FindAllStringSubmatch(text, -1) {
			current := filepath.Dir(page) == "docs" || filepath.Dir(page) == "."
			if current && page != "CHANGELOG.md" && !foreign.MatchString(name[1]) && !exists(filepath.Join("..", name[1])) && !exists(name[1]) {
				t.Errorf("%s: there is no %s", page, name[1])
			}
		}
		for _, link := range links.FindAllStringSubmatch(text, -1) {
			file, heading, _ := strings.Cut(link[1], "#")
			if strings.Contains(file, ":") {
				continue // another site
			}
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if !exists(filepath.Join("..", target)) {
				t.Errorf("%s: there is no %s (%s)", page, target, link[1])
			} else if there, ok := pages[target]; ok && heading != "" && !anchors(there)[heading] {
				t.Errorf("%s: %s has no heading #%s", page, target, heading)
			}
		}
	}
	if len(pages) < 50 {
		t.Errorf("only %d pages were found", len(pages))
	}
}

// anchors returns the names by which a page's headings are linked to, as forges make them.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, heading := range headings.FindAllStringSubmatch(text, -1) {
		name := linked.ReplaceAllString(heading[1], "$1")
		name = strings.ReplaceAll(unslug.ReplaceAllString(strings.ToLower(strings.TrimSpace(name)), ""), " ", "-")
		again := name
		for i := 1; names[again]; i++ {
			again = fmt.Sprintf("%s-%d", name, i)
		}
		names[again] = true
	}
	return names
}
