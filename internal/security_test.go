// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedTest  = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z][A-Za-z0-9]+\b`)
	testHeader = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z][A-Za-z0-9]+)\(`)
	namedFile  = regexp.MustCompile("`((?:scripts|vm|lab)/[a-z0-9/.-]+)`")
)

// TestSecurityPageNamesTests holds docs/security.md to what there is: a promise whose
// test was renamed or removed fails here.
func TestSecurityPageNamesTests(t *testing.T) {
	page, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	err = filepath.WalkDir(".", func(p string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(p, "_test.go") {
			return err
		}
		text, err := os.ReadFile(p)
		for _, found := range testHeader.FindAllSubmatch(text, -1) {
			known[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := namedTest.FindAllString(string(page), -1)
	if len(named) < 50 {
		t.Fatalf("the page names %d tests only", len(named))
	}
	for _, name := range named {
		if !known[name] {
			t.Errorf("docs/security.md names %s, and no package has such a test", name)
		}
	}
	for _, found := range namedFile.FindAllStringSubmatch(string(page), -1) {
		if _, err := os.Stat(filepath.Join("..", found[1])); err != nil {
			t.Errorf("docs/security.md: %v", err)
		}
	}
}
