// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestScenariosOfTheProject(t *testing.T) {
	files, err := filepath.Glob("../../../lab/cluster/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("found %v: %v", files, err)
	}
	for _, name := range []string{"downtime", "fig07", "fig09"} {
		files = append(files, "../../../lab/c-balancer/"+name+".yaml")
	}
	for _, file := range files {
		if s, err := Load(file); err != nil || s.Name == "" || len(s.Timeline) == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"nodes: []", "nodes: missing"},
		{"nodes: [a]\nnods: [b]", `unknown field "nods"`},
		{"nodes: [A]", `nodes: "A"`},
		{"nodes: [a]\ncontainers: {web: {node: b}}", `containers.web.node: node "b" is not in nodes`},
		{"nodes: [a]\ncontainers: {web: {node: a, image: x}}", `containers.web.image: "x" is not in images`},
		{"nodes: [a, b]\ncontainers: {web: {node: a}}\ntimeline: [{migrate: web}]", "timeline[1]: migrate and to belong together"},
		{"nodes: [a, b]\ncontainers: {web: {node: a}}\ntimeline: [{migrate: web, to: b, approach: magic}]", `timeline[1].approach: "magic"`},
		{"nodes: [a]\ntimeline: [{cut: a, join: a}]", "timeline[1]: has 2 verbs [cut join]"},
		{"nodes: [a]\ntimeline: [{at: 5s}]", "timeline[1]: has 0 verbs"},
		{"nodes: [a]\nmachines: container", `machines: "container"; write namespace, vm or units`},
		{"nodes: [a]\nmachines: vm", "machines: vm needs agents"},
		{"nodes: [a]\nagents: {egress: 1gbit}\ntimeline: [{kill_node: a}]", "timeline[1]: only a machine can be switched off"},
		{"nodes: [a]\nmachines: vm\nagents: {egress: 1gbit}\ntimeline: [{start_node: b}]", `timeline[1]: node "b" is not in nodes`},
		{"nodes: [a]\nexpect: [{on: a}]", "expect[1].container: missing"},
		{"nodes: [a, b]\nexpect: [{label: x, downtime: 1s}]", `expect[1].label: no migration has the label "x"`},
		{"nodes: [a, b]\nexpect: [{label: x, exact: true}]", "expect[1].label: goes with downtime alone"},
		{"nodes: [a, b]\nexpect: [{s: 0.1}]", "expect[1].s: needs a number from 0 up, and agents"},
	} {
		_, err := Parse("x.yaml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
			continue
		}
		for line := range strings.Lines(err.Error()) {
			if !strings.HasPrefix(line, "x.yaml:") {
				t.Errorf("%q: the line %q does not name the file", c.text, line)
			}
		}
	}
}

// Whatever stands in a file, it is read or refused in lines that name it.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../../../lab/cluster/*.yaml")
	if err != nil || len(files) < 2 {
		f.Fatalf("found %v: %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("nodes: !0 0"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := Parse("f.yaml", text); err != nil {
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "f.yaml: ") {
					t.Errorf("%q does not name the file", line)
				}
			}
		}
	})
}
