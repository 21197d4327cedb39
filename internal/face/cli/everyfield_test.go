// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"testing"

	"weir/internal/config"
	"weir/internal/core/policy"
	"weir/internal/face/cli/frame"
)

// Every field of the table has a flag on the command line, wherever it may stand.
func TestEveryFieldHasItsFlag(t *testing.T) {
	for on, command := range map[policy.Place][]string{policy.OnWorkload: {"set"}, policy.OnIngress: {"set"}, policy.OnGroup: {"group", "set"}} {
		c, _, err := root(&frame.App{}).Find(command)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range policy.Fields(on) {
			name := f.Hyphenated()
			if on == policy.OnIngress {
				name = "ingress-" + name
			}
			if flag := c.Flags().Lookup(name); flag == nil {
				t.Errorf("weir %v has no --%s", command, name)
			} else if err := flag.Value.Set(f.Example); err != nil {
				t.Errorf("--%s %s: %v", name, f.Example, err)
			}
		}
	}
}

// withZones is a link with a zone, which policies may name.
const withZones = "links: [{device: eth0, egress: 1gbit, zones: {wan: {egress: 100mbit}, lan: {prefixes: [private]}}}]\n"

// Every field of the table can stand in weir.yaml.
func TestEveryFieldIsReadFromTheFile(t *testing.T) {
	for _, f := range policy.Fields(policy.OnWorkload | policy.OnGroup) {
		value := f.Example
		switch f.Form {
		case policy.Text:
			value = fmt.Sprintf("%q", value)
		case policy.List:
			value = "{" + value + "}"
		}
		for on, text := range map[policy.Place]string{
			policy.OnWorkload: "workloads: {web: {%s: %s}}",
			policy.OnIngress:  "workloads: {web: {ingress: {%s: %s}}}",
			policy.OnGroup:    "groups: {office: {%s: %s}}",
		} {
			c, err := config.Parse("weir.yaml", fmt.Appendf(nil, withZones+text, f.Name, value))
			if (err == nil) != (f.On&on != 0) {
				t.Errorf("%s in %s: %v", f.Name, text, err)
			}
			if err != nil || on == policy.OnGroup {
				continue
			}
			name := f.Name
			if on == policy.OnIngress {
				name = "ingress." + name
			}
			if layer := c.LayerFor("web"); !layer.Gives(name) {
				t.Errorf("%s: weir.yaml gives %v", name, layer.Given())
			}
		}
	}
}
