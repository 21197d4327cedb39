// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"weir/internal/core/policy"
	"weir/internal/kube/decide"
	"weir/internal/test/goldentest"
)

// TestAnnotationsInDocs holds the table of docs/kubernetes.md in step with the table of fields.
func TestAnnotationsInDocs(t *testing.T) {
	const page, begin, end = "../../docs/kubernetes.md", "<!-- annotations -->\n", "<!-- /annotations -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no %s...%s", page, begin, end)
	}
	var b strings.Builder
	b.WriteString("| annotation | on a pod | on a namespace | example | what it says |\n|---|---|---|---|---|\n")
	for _, f := range policy.Fields(policy.OnWorkload | policy.OnGroup) {
		on := map[bool]string{true: "yes", false: "no"}
		doc := f.Doc
		if f.Name == "group" {
			doc = "group of the namespace that it is in; or none"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` | %s |\n", decide.Annotation(f.Name), on[f.On&policy.OnWorkload != 0], on[f.On&policy.OnGroup != 0], f.Example, doc)
	}
	goldentest.Check(t, page, head+begin+b.String()+end+tail)
}
