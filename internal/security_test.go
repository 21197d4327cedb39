// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	namedTest    = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z][A-Za-z0-9]+\b`)
	testHeader   = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z][A-Za-z0-9]+)\(`)
	namedSubtest = regexp.MustCompile(`\b(Test[A-Z][A-Za-z0-9]+)/([A-Za-z0-9_.,-]*[A-Za-z0-9])`)
	namedPackage = regexp.MustCompile("`([a-z0-9/]+)`|\\b(Test[A-Z][A-Za-z0-9]+)\\b")
	namedFile    = regexp.MustCompile("`((?:scripts|vm|lab)/[a-z0-9/.-]+)`")
)

// TestPagesNameTests holds pages that name tests to what there is: a promise whose test was renamed
// or removed fails here. A name may go on with subtests: TestManagers/NetworkManager.
func TestPagesNameTests(t *testing.T) {
	known, texts := map[string]bool{}, map[string]string{} // texts of the folder's files, by test
	folders := map[string][]string{}                       // of packages, by test
	err := filepath.WalkDir(".", func(p string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(p, "_test.go") {
			return err
		}
		text, err := os.ReadFile(p)
		for _, found := range testHeader.FindAllSubmatch(text, -1) {
			known[string(found[1])] = true
			folders[string(found[1])] = append(folders[string(found[1])], filepath.Dir(p))
			texts[string(found[1])] += folderText(t, filepath.Dir(p))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for file, least := range map[string]int{"security.md": 50, "field.md": 40, "links.md": 20} {
		page, err := os.ReadFile("../docs/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if named := namedTest.FindAllString(string(page), -1); len(named) < least {
			t.Errorf("docs/%s names %d tests only", file, len(named))
		}
		for _, found := range namedTest.FindAllStringSubmatch(string(page), -1) {
			if !known[found[0]] {
				t.Errorf("docs/%s names %s, and no package has such a test", file, found[0])
			}
		}
		if file != "security.md" {
			inTheirPackages(t, file, string(page), folders)
		}
		for _, found := range namedSubtest.FindAllStringSubmatch(string(page), -1) {
			name := strings.ReplaceAll(found[2], "_", " ")
			if !strings.Contains(texts[found[1]], `"`+found[2]+`"`) && !strings.Contains(texts[found[1]], `"`+name+`"`) {
				t.Errorf("docs/%s names %s/%s, and no such test is in its folder", file, found[1], found[2])
			}
		}
		for _, found := range namedFile.FindAllStringSubmatch(string(page), -1) {
			if _, err := os.Stat(filepath.Join("..", found[1])); err != nil {
				t.Errorf("docs/%s: %v", file, err)
			}
		}
	}
}

// inTheirPackages holds the tests that a page names to the packages that it says, as `agent`
// TestHealth, and without one to internal/test/e2e. A semicolon ends what a package is said of.
func inTheirPackages(t *testing.T, file, page string, folders map[string][]string) {
	t.Helper()
	for line := range strings.Lines(page) {
		for cell := range strings.SplitSeq(line, "|") {
			for _, part := range strings.FieldsFunc(cell, func(r rune) bool { return r == ';' || r == '(' || r == '.' || r == ':' }) {
				pkg := "e2e"
				for _, word := range namedPackage.FindAllStringSubmatch(part, -1) {
					if word[1] != "" {
						pkg = word[1]
					} else if there := folders[word[2]]; !slices.ContainsFunc(there, func(folder string) bool { return folder == pkg || strings.HasSuffix(folder, "/"+pkg) }) {
						t.Errorf("docs/%s: package %s has no %s, which is in %v", file, pkg, word[2], there)
					}
				}
			}
		}
	}
}

// folderText returns the text of the tests in a folder.
func folderText(t *testing.T, folder string) (all string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all += string(text)
	}
	return all
}

// TestFieldPage holds docs/field.md to what it promises: each report has a row with what Weir does
// and a test that shows it.
func TestFieldPage(t *testing.T) {
	page, err := os.ReadFile("../docs/field.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.TrimSpace(cells[0]) == "reported" {
			continue
		}
		if rows++; len(cells) != 3 || !namedTest.MatchString(cells[2]) {
			t.Errorf("a row without a test: %s", line)
		}
	}
	if rows < 30 {
		t.Errorf("%d reports, want at least 30", rows)
	}
}
