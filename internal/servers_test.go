// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"testing"
)

// ownServers are the folders that may make an http.Server, each with the reason. Everywhere
// else crowd.NewServer does, so that no server is without bounds.
var ownServers = map[string]string{
	"internal/base/crowd":          "makes them, with bounds",
	"internal/cluster/clustertest": "a registry of tests",
}

// TestServersHaveBounds: a server that listens with the defaults of net/http takes headers of
// 1 MB and waits for them for ever.
func TestServersHaveBounds(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			made, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			x, ok := made.Type.(*ast.SelectorExpr)
			if !ok || x.Sel.Name != "Server" {
				return true
			}
			if from, ok := x.X.(*ast.Ident); !ok || from.Name != "http" {
				return true
			}
			for place := range ownServers {
				if below(s.path, place) {
					used[place] = true
					return true
				}
			}
			t.Errorf("%s: http.Server; crowd.NewServer makes servers", s.fset.Position(n.Pos()))
			return true
		})
	}
	for place := range ownServers {
		if !used[place] {
			t.Errorf("ownServers: %s makes none; take it out", place)
		}
	}
}
