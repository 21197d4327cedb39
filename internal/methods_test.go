// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"maps"
	"slices"
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
	"internal/cluster/node.Node":             90,
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
	if methods["internal/agent.Agent"] < 20 {
		t.Errorf("the agent has %d methods; are they counted?", methods["internal/agent.Agent"])
	}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		limit, excepted := largeTypes[name]
		switch n := methods[name]; {
		case !excepted && n > mostMethods:
			t.Errorf("%s has %d methods, and a type may have %d; give what some of them have in common a type of its own", name, n, mostMethods)
		case excepted && n <= mostMethods:
			t.Errorf("%s has %d methods only; remove it from largeTypes in internal/methods_test.go", name, n)
		case excepted && n > limit:
			t.Errorf("%s has %d methods, and largeTypes in internal/methods_test.go permits it %d", name, n, limit)
		}
	}
	for name := range largeTypes {
		if methods[name] == 0 {
			t.Errorf("largeTypes in internal/methods_test.go names %s, and there is no such type", name)
		}
	}
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
