// SPDX-License-Identifier: Apache-2.0

package extendtest

import (
	"strings"
	"testing"
)

// TestNewPolicyField: a member, a row and a test make a field that is in the command line,
// labels, weir.yaml, the API, OpenAPI, state.json, migrations and the documentation.
func TestNewPolicyField(t *testing.T) {
	c := Copy(t, "../../..")
	code := c.Code("docs/extend.md", "## A field of a policy")
	if len(code) != 3 {
		t.Fatalf("docs/extend.md shows %d blocks of code for a field, want the member, the row and the test", len(code))
	}
	c.After("internal/core/policy/policy.go", "// the group that the workload is in", code[0])
	c.After("internal/core/policy/fields.go", "var fields = []Field{", code[1])
	c.write("internal/core/policy/note_test.go", code[2])

	c.Go("test", "-run", "^TestNote$", "./internal/core/policy")
	c.Go("test", "-run", "^(TestPolicyPage|TestCommandReference)$", "./internal/face/cli", "-update")
	c.Go("test", "-run", "^TestEveryField", "./internal/host/agent", "./internal/face/cli", "./internal/face/server")
	c.Go("test", "-run", "^TestSettingsAreComplete$", "./internal/cluster/node")
	for page, words := range map[string][]string{
		"docs/policy.md": {"## note", "`--note`, `weir.note`"},
		"docs/cli.md":    {"`--note TEXT\\|none`"},
	} {
		for _, word := range words {
			if !strings.Contains(c.Read(page), word) {
				t.Errorf("%s does not have %s", page, word)
			}
		}
	}
}
