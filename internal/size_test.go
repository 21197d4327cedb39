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
var tooLong = map[string]int{
	"internal/cluster/node": 3900,
}

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
	for _, folder := range slices.Sorted(maps.Keys(lines)) {
		limit, excepted := tooLong[folder]
		switch n := lines[folder]; {
		case !excepted && n > longest:
			t.Errorf("%s has %d lines, and a package may have %d; give one of its concepts a package of its own", folder, n, longest)
		case excepted && n <= longest:
			t.Errorf("%s has %d lines only; remove it from tooLong in internal/size_test.go", folder, n)
		case excepted && n > limit:
			t.Errorf("%s has %d lines, and tooLong in internal/size_test.go permits it %d", folder, n, limit)
		}
	}
	for folder := range tooLong {
		if lines[folder] == 0 {
			t.Errorf("tooLong in internal/size_test.go names %s, and there is no such package", folder)
		}
	}
}
