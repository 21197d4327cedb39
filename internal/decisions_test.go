// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Each decision has a number of its own in its file's name, its heading and its row in the
// list. Numbers of decisions that were withdrawn are not used again.
func TestDecisionsAreNumbered(t *testing.T) {
	files, err := filepath.Glob("../docs/decisions/0*.md")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	list, err := os.ReadFile("../docs/decisions/README.md")
	if err != nil {
		t.Fatal(err)
	}
	used := map[int]string{}
	for _, file := range files {
		name := filepath.Base(file)
		digits, _, _ := strings.Cut(name, "-")
		n, err := strconv.Atoi(digits)
		if err != nil || len(digits) != 4 {
			t.Fatalf("%s does not begin with a number of four digits", name)
		}
		if used[n] != "" {
			t.Errorf("decisions %s and %s have the same number", used[n], name)
		}
		used[n] = name
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if heading := fmt.Sprintf("# %d. ", n); !strings.HasPrefix(string(text), heading) {
			t.Errorf("%s does not begin with %q", name, heading)
		}
		if row := fmt.Sprintf("| [%04d](%s) |", n, name); !strings.Contains(string(list), row) {
			t.Errorf("docs/decisions/README.md has no row %s", row)
		}
	}
}
