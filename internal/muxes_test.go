// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"bytes"
	"go/ast"
	"go/printer"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// front is what may ask at a route, or at the routes of an API, and the tests that hold it.
type front struct {
	who   string
	tests string
}

// fronts are all routes of all programs: "FILE PATTERN" for one on a mux, "FILE rest.New" for an
// API, whose routes have a role each. A route that is not here is no route that strangers have been
// kept from.
var fronts = map[string]front{
	"internal/face/server/routes.go rest.New":                              {"root and the groups of the sockets, by SO_PEERCRED and role", "TestViewersChangeNothing TestRoutesWithoutRoleAreForChangers TestWhatRefusalsCost FuzzBodies"},
	`internal/face/server/routes.go "GET /metrics"`:                        {"as status", "TestViewersChangeNothing"},
	`internal/face/server/routes.go "/"`:                                   {"no route", "TestViewersChangeNothing"},
	`internal/face/server/server.go "GET /metrics"`:                        {"scrapers with a certificate, or all on the loopback", "TestTCPServesMetricsOnly TestMetricsOverTLS"},
	"internal/face/server/managerapi/managerapi.go rest.New":               {"root and the groups of the sockets, by SO_PEERCRED and role", "TestViewersChangeNothingAndSeeNoSecret TestWhatRefusalsCost"},
	`internal/face/server/managerapi/managerapi.go "/"`:                    {"no route", "TestViewersChangeNothingAndSeeNoSecret"},
	`internal/face/web/guard.go "POST /session"`:                           {"all, with the code of a link; at most 1 KiB is read", "TestStrangersGetNothing TestWhatRefusalsCost"},
	`internal/face/web/guard.go "GET /session"`:                            {"all; a session's own words with its token", "TestStrangersGetNothing"},
	`internal/face/web/guard.go pattern`:                                   {"sessions", "TestStrangersGetNothing"},
	`internal/face/web/guard.go "/v1/"`:                                    {"sessions, by token and role", "TestStrangersGetNothing TestWhatRefusalsCost"},
	`internal/face/web/guard.go "/"`:                                       {"all: the page's files", "TestStrangersGetNothing"},
	"internal/cluster/manager/http.go rest.New":                            {"members, by certificate; strangers may join and renew", "TestStrangersBodiesAreNotRead TestWhatRefusalsCost TestHostileBodies"},
	`internal/cluster/manager/http.go "/"`:                                 {"no route", "TestStrangersBodiesAreNotRead"},
	`internal/cluster/node/incoming/serve.go "POST "+remote.Path+"{verb}"`: {"members with an order or a grant, which is examined before the body", "TestOnlyTargetStepsAreServed TestOrdersBeforeBodies TestWhatRefusalsCost"},
	`internal/cluster/migrate/remote/helper.go "POST "+Path+"{verb}"`:      {"root, by SO_PEERCRED when it connects", "TestHelperServesRootAlone TestHostileAgent TestWhatRefusalsCost"},
}

// TestRoutesAreKnown: each route that a program registers is in the list, with tests that exist.
func TestRoutesAreKnown(t *testing.T) {
	left := maps.Clone(fronts)
	for _, s := range sources(t) {
		if strings.Contains(s.path, "/lab/") || strings.HasSuffix(filepath.Dir(s.path), "test") || strings.Contains(s.path, "/demo/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			fun, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			var key string
			switch from, _ := fun.X.(*ast.Ident); {
			case fun.Sel.Name == "New" && from != nil && from.Name == "rest":
				key = "rest.New"
			case (fun.Sel.Name == "Handle" || fun.Sel.Name == "HandleFunc") && len(call.Args) == 2:
				var text bytes.Buffer
				if err := printer.Fprint(&text, s.fset, call.Args[0]); err != nil {
					t.Fatal(err)
				}
				key = strings.ReplaceAll(text.String(), " + ", "+")
			default:
				return true
			}
			key = s.path + " " + key
			if _, known := fronts[key]; !known {
				t.Errorf("%s: %s is in no list of who may ask; enter it in fronts, with a test", s.fset.Position(n.Pos()), key)
			}
			delete(left, key)
			return true
		})
	}
	for key := range left {
		t.Errorf("%s is no route any more", key)
	}
	tests := testNames(t)
	for key, f := range fronts {
		for _, name := range strings.Fields(f.tests) {
			if !tests[name] {
				t.Errorf("%s: there is no test %s", key, name)
			}
		}
	}
}

// testNames returns the names of all tests and fuzz targets.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if rest, is := strings.CutPrefix(line, "func "); is {
				name, _, _ := strings.Cut(rest, "(")
				names[name] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
