// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"weir/internal/core/policy"
	"weir/internal/test/goldentest"
)

// TestPolicyPage holds docs/policy.md in step with the table of fields.
func TestPolicyPage(t *testing.T) { goldentest.Check(t, "../../../docs/policy.md", policyPage()) }

const policyHead = `# The fields of a policy

This page is made from the table of fields in ` + "`internal/core/policy/fields.go`" + ` (` + "`go test ./internal/face/cli -update`" + `). Every field has one name everywhere:

| place | how a field is written | example |
|---|---|---|
| weir.yaml, under ` + "`workloads:`, `groups:` or `defaults:`" + ` | its name | ` + "`limit_packets: 200`" + ` |
| a container's label | ` + "`weir.`" + ` and the name with dashes | ` + "`weir.limit-packets=200`" + ` |
| ` + "`weir set`, `weir attach`, `weir group set`" + ` | a flag: the name with dashes | ` + "`--limit-packets 200`" + ` |
| the HTTP API and state.json | a member of that name | ` + "`{\"limit_packets\": 200}`" + ` |
| about what comes to a workload (download) | under ` + "`ingress:`" + `, behind ` + "`weir.ingress.`" + `, behind ` + "`--ingress-`" + ` | ` + "`--ingress-limit-packets 200`" + ` |

What counts if several of them speak of a field: ` + "`weir set`" + `, then labels as far as they [may](deploy.md#what-labels-may-say), then weir.yaml, then the default. ` + "`weir get NAME`" + ` shows each field with the place that it comes from. A container that [moves](migrate.md) takes along what ` + "`weir set`" + ` has said.

| field | workload | ingress | group | what it says |
|---|---|---|---|---|
`

func policyPage() string {
	var b strings.Builder
	b.WriteString(policyHead)
	fields := policy.Fields(policy.OnWorkload | policy.OnGroup)
	stands := func(f policy.Field, on policy.Place) string {
		if f.On&on != 0 {
			return "yes"
		}
		return "no"
	}
	for _, f := range fields {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s | %s | %s |\n", f.Name, f.Name, stands(f, policy.OnWorkload), stands(f, policy.OnIngress), stands(f, policy.OnGroup), f.Doc)
	}
	for _, f := range fields {
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n", f.Name, sentence(f.Doc))
		row := func(what, text string) {
			if text != "" {
				fmt.Fprintf(&b, "* %s: %s\n", what, text)
			}
		}
		if f.Group != "" {
			row("of a group", f.Group)
		}
		row("value", "`"+f.Value+"`, such as `"+f.Example+"`")
		row("default", "`"+cmp.Or(f.Write(policy.Default()), "none")+"`")
		row("flag and label", fmt.Sprintf("`--%s`, `weir.%s`", f.Hyphenated(), f.Label()))
		if f.Guarded {
			row("labels", "only where `labels: {allow: [...]}` in weir.yaml names it")
		}
	}
	b.WriteString("\n## Fields of a queue\n\nThe queues of `pq`, `cbwfq` and `llq` ([disciplines.md](disciplines.md)) have a name and these fields, each of which may be left out.\n\n| field | what it says |\n|---|---|\n")
	for _, f := range policy.QueueFields() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", f.Name, f.Doc)
	}
	return b.String()
}

// sentence begins with a capital letter.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
