// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// longest is the number of lines, without tests and generated files, that a package may
// have. A longer one holds more than one concept.
const longest = 3000

// tooLong are the packages that are longer, each with the lines that it must not exceed
// until it is split. An entry leaves this list with the split.
var tooLong = map[string]int{}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func TestPackagesAreShort(t *testing.T) {
	lines := map[string]int{}
	for _, s := range sources(t) {
		text, err := os.ReadFile(filepath.Join("..", s.path))
		if err != nil {
			t.Fatal(err)
		}
		if !generated.Match(text) {
			lines[s.folder] += bytes.Count(text, []byte("\n"))
		}
	}
	holdTo(t, bar{most: longest, unit: "lines", exceptions: tooLong, list: "tooLong in internal/size_test.go",
		remedy: "give one of its concepts a package of its own"}, lines)
}

// bar is the most that each of some things may have, but for exceptions with their figures.
type bar struct {
	most       int
	unit       string
	exceptions map[string]int
	list       string // that has the exceptions
	remedy     string
}

// holdTo fails where a figure is above its bar, and where an exception is not needed.
func holdTo(t *testing.T, b bar, figures map[string]int) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		limit, excepted := b.exceptions[name]
		switch n := figures[name]; {
		case !excepted && n > b.most:
			t.Errorf("%s has %d %s, and may have %d; %s", name, n, b.unit, b.most, b.remedy)
		case excepted && n <= b.most:
			t.Errorf("%s has %d %s only; remove it from %s", name, n, b.unit, b.list)
		case excepted && n > limit:
			t.Errorf("%s has %d %s, and %s permits it %d", name, n, b.unit, b.list, limit)
		}
	}
	for name := range b.exceptions {
		if figures[name] == 0 {
			t.Errorf("%s names %s, which does not exist", b.list, name)
		}
	}
}
