// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for _, tt := range []struct{ text, err string }{
		{"nodes: [a, b]\n", ""},
		{"nodes: [a]\nnode: b\n", `f.yaml: [2:1] unknown field "node"`},
		{"nodes: 3\n", "f.yaml: [1:8] "},
		{"nodes: [a\n", "f.yaml: [1:8] "},
		{"nodes: !0 0\n", "f.yaml: no YAML that can be read: "}, // the library panics
	} {
		var into struct{ Nodes []string }
		err := Read("f.yaml", []byte(tt.text), &into)
		if tt.err == "" {
			if err != nil || strings.Join(into.Nodes, " ") != "a b" {
				t.Errorf("%q: %q, %v", tt.text, into.Nodes, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), tt.err) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want one line that begins with %q", tt.text, err, tt.err)
		}
	}
}
