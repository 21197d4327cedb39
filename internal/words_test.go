// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// unused is a row of the glossary's table of words that are not used.
	unused = regexp.MustCompile(`(?m)^\| ([a-z, -]+) \| [^|]+ \|$`)
	// quoted matches blocks of code, and `code` in a line.
	quoted = regexp.MustCompile("(?ms)^ *```.*?^ *```$|^    [^\n]*$|`[^`\n]*`")
)

// TestWords: README.md and the pages of docs use none of the words that docs/glossary.md
// lists as not used, outside of code.
func TestWords(t *testing.T) {
	glossary, err := os.ReadFile("../docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(glossary), "## Words that are not used")
	var words []string
	for _, row := range unused.FindAllStringSubmatch(table, -1) {
		if row[1] != "not" {
			words = append(words, strings.Split(row[1], ", ")...)
		}
	}
	if len(words) == 0 {
		t.Fatal("docs/glossary.md has no table of words that are not used")
	}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = slices.DeleteFunc(pages, func(page string) bool { return page == "../docs/glossary.md" })
	word := regexp.MustCompile(`(?i)\b(` + strings.Join(words, "|") + `)s?\b`)
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		plain := quoted.ReplaceAllStringFunc(string(text), func(code string) string {
			return strings.Repeat("\n", strings.Count(code, "\n")) // lines keep their numbers
		})
		for i, line := range strings.Split(plain, "\n") {
			if found := word.FindString(line); found != "" {
				t.Errorf("%s:%d: %q: docs/glossary.md says what to write instead", page, i+1, found)
			}
		}
	}
}
