// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"path"
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

// dialect are words that no name has, and the field's for the same.
var dialect = map[string]string{
	"because":  "reason",
	"calendar": "wheel",
	"disowned": "orphaned",
	"fared":    "result",
	"forgive":  "clamp, reset",
	"forsaken": "abandoned",
	"hurry":    "boost",
	"hurries":  "boosts",
	"hurried":  "boosted",
	"let_go":   "release",
	"parked":   "throttled",
	"rush":     "boost",
	"rushed":   "boosted",
	"spoilt":   "damaged",
	"tend":     "reconcile, write",
	"unbidden": "unsolicited",
	"unswept":  "stale",
	"urge":     "boost",
}

var (
	// capital begins a word of a Go name.
	capital = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	// notCode matches comments and strings of C, and the lines that name another file.
	notCode = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|#include[^\n]*`)
	// nameInC is a name in what is left.
	nameInC = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
)

// TestNames: no name of Go or C has a word of the dialect.
func TestNames(t *testing.T) {
	word := regexp.MustCompile(`(?:^|_)(` + strings.Join(slices.Collect(maps.Keys(dialect)), "|") + `)s?(?:_|$)`)
	checked := map[string]int{} // by language
	for file := range trackedFiles(t).files {
		language := path.Ext(file)
		if language == ".h" {
			language = ".c"
		}
		names := map[string]func(string) map[string]int{".go": namesOfGo, ".c": namesOfC}[language]
		if names == nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		for name, line := range names(string(text)) {
			checked[language]++
			if found := word.FindStringSubmatch(strings.ToLower(capital.ReplaceAllString(name, "${1}_$2"))); found != nil {
				t.Errorf("%s:%d: %s: not %q but %s", file, line, name, found[1], dialect[found[1]])
			}
		}
	}
	if checked[".go"] < 10_000 || checked[".c"] < 1000 {
		t.Errorf("%v names were seen: too few", checked)
	}
}

// namesOfGo returns the names in a file of Go, with the line of the last of each.
func namesOfGo(text string) map[string]int {
	list, fset := map[string]int{}, token.NewFileSet()
	var s scanner.Scanner
	s.Init(fset.AddFile("", -1, len(text)), []byte(text), nil, 0)
	for {
		switch at, what, name := s.Scan(); what {
		case token.IDENT:
			list[name] = fset.Position(at).Line
		case token.EOF:
			return list
		}
	}
}

// namesOfC returns the same of a file of C.
func namesOfC(text string) map[string]int {
	list := map[string]int{}
	code := notCode.ReplaceAllStringFunc(text, func(other string) string { return strings.Repeat("\n", strings.Count(other, "\n")) })
	for i, line := range strings.Split(code, "\n") {
		for _, name := range nameInC.FindAllString(line, -1) {
			list[name] = i + 1
		}
	}
	return list
}
