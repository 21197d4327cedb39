// SPDX-License-Identifier: Apache-2.0

package event

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/test/goldentest"
)

// TestKindsInDocs: docs/events.md has the table Kinds; -update writes it.
func TestKindsInDocs(t *testing.T) {
	const page, begin, end = "../../../docs/events.md", "<!-- kinds -->\n", "<!-- /kinds -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), begin)
	_, foot, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s lacks %q or %q", page, begin, end)
	}
	goldentest.Check(t, page, head+begin+kindsTable()+end+foot)
}

func kindsTable() string {
	var b strings.Builder
	b.WriteString("| kind | severity | | told after | over after |\n|---|---|---|---|---|\n")
	for _, k := range Kinds {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.Name, k.Severity, k.Means, pause(k.Wait), pause(k.Quiet))
	}
	return b.String()
}

func pause(d time.Duration) string {
	if d == 0 {
		return "at once"
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// TestKinds: each kind has what a reader of the docs and of an event needs.
func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds {
		if seen[k.Name] || k.Name == "" || k.Over == "" || !strings.Contains(strings.ToLower(k.Means), "it ends when") || rank(k.Severity) < 0 {
			t.Errorf("%+v", k)
		}
		seen[k.Name] = true
	}
}
