// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"testing"
)

// mostMethods is the number of methods, exported or not, that a type may have. A type with
// more is more than one object.
const mostMethods = 40

// largeTypes are the types that have more, each with the number that it must not exceed until
// it is split. An entry leaves this list with the split.
var largeTypes = map[string]int{
	"internal/cluster/manager.Manager":       100,
	"internal/cluster/migrate/docker.Engine": 70,
	"internal/lab/scenario.reader":           65,
}

func TestNoObjectIsLarge(t *testing.T) {
	methods := map[string]int{} // by "folder.Type"
	for _, s := range sources(t) {
		for _, declared := range s.file.Decls {
			f, ok := declared.(*ast.FuncDecl)
			if ok && f.Recv != nil && !ast.IsGenerated(s.file) {
				methods[s.folder+"."+receiver(f)]++
			}
		}
	}
	if methods["internal/host/agent.Agent"] < 20 {
		t.Errorf("the agent has %d methods; are they counted?", methods["internal/host/agent.Agent"])
	}
	holdTo(t, bar{most: mostMethods, unit: "methods", exceptions: largeTypes, list: "largeTypes in internal/methods_test.go",
		remedy: "give the common part of some of them a type of its own"}, methods)
}

// receiver returns the name of the type that a method belongs to.
func receiver(method *ast.FuncDecl) string {
	at := method.Recv.List[0].Type
	for {
		switch x := at.(type) {
		case *ast.Ident:
			return x.Name
		case *ast.StarExpr:
			at = x.X
		case *ast.ParenExpr:
			at = x.X
		case *ast.IndexExpr:
			at = x.X
		case *ast.IndexListExpr:
			at = x.X
		default:
			return ""
		}
	}
}
