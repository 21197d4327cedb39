// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// speakHTTP are the files that may name HTTP statuses, by their paths or folders, each with
// the reason. Everywhere else a refusal has a kind.
var speakHTTP = map[string]string{
	"internal/api/problem.go":                     "the table of kinds and statuses",
	"internal/host/agent/notify/webhook.go":       "reads answers of a webhook's server",
	"internal/api/client.go":                      "reads answers of the agent and the manager",
	"internal/face/server":                        "answers",
	"internal/api/rest":                           "answers",
	"internal/face/web/guard.go":                  "answers",
	"internal/face/web/static.go":                 "serves files, by HTTP's rules for caches",
	"internal/host/discover/localhttp":            "reads answers of daemons of the host",
	"internal/cluster/node/membership/manager.go": "reads answers of the manager",
	"internal/cluster/node/incoming/audit.go":     "writes down how calls of other nodes were answered",
	"internal/cluster/node/images/registry.go":    "a proxy between the engine and the manager's image registry",
	"internal/cluster/node/images/order.go":       "asks the manager whether its image registry is there",
	"internal/cluster/migrate/registry":           "an image registry, whose protocol has statuses",
	"internal/cluster/migrate/remote":             "the protocol between nodes; a definite answer has a move.Error with its own code",
}

// sentences are the functions that may look at the text of an error or a message, as
// FILE: FUNCTION, each with the reason. Everywhere else a kind, a code or a type decides.
var sentences = map[string]string{
	"internal/host/agent/record/record.go: states":         onlyNews,
	"internal/host/agent/regulator.go: watch":              onlyNews,
	"internal/host/agent/link.go: complain":                onlyNews,
	"internal/host/agent/reload/reload.go: Failed":         onlyNews,
	"internal/cluster/bus/kafka/kafka.go: Ping":            onlyNews,
	"internal/cluster/manager/plan.go: look":               onlyNews,
	"internal/cluster/node/node.go: lookAtEngine":          onlyNews,
	"internal/host/dataplane/tc/run.go: Run":               onlyNews,
	"internal/lab/scenario/inside.go: Warnings":            onlyNews,
	"internal/host/sdn/switchport/watch.go: Run":           onlyNews,
	"internal/face/cli/frame/exit.go: refusalLine":         onlyOnce,
	"internal/host/discover/docker.go: trouble":            onlyOnce,
	"internal/cluster/bus/kafka/security.go: words":        "franz-go has no other sign of a broker that expects TLS",
	"internal/cluster/bus/nats/conn.go: refused":           "the server says what it does not allow as a text",
	"internal/cluster/migrate/docker/target.go: pullImage": "the engine passes on what a registry answers as a text",

	"internal/base/safepath/safepathtest/safepathtest.go: Refused": "it checks what users read of a refusal",
}

const (
	onlyNews = "says again only what is another text than the last one; nothing else depends on it"
	onlyOnce = "leaves out of the line what the text has already"
)

// TestStatusesStayAtTheEdge: an HTTP status is an answer's, and never what something means.
func TestStatusesStayAtTheEdge(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		local := s.localName("net/http")
		ast.Inspect(s.file, func(n ast.Node) bool {
			x, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, _ := x.X.(*ast.Ident)
			named := local != "" && of != nil && of.Name == local && strings.HasPrefix(x.Sel.Name, "Status")
			if !named && x.Sel.Name != "StatusCode" {
				return true
			}
			for place := range speakHTTP {
				if below(s.path, place) {
					used[place] = true
					return true
				}
			}
			t.Errorf("%s: %s; outside of the files in speakHTTP a refusal has a kind (internal/core/refusal)", s.fset.Position(n.Pos()), x.Sel.Name)
			return true
		})
	}
	for place := range speakHTTP {
		if !used[place] {
			t.Errorf("speakHTTP: %s names no status; take it out", place)
		}
	}
}

// TestEveryRefusalHasAKind: without one it would be answered as a failure of the program.
func TestEveryRefusalHasAKind(t *testing.T) {
	seen := 0
	for _, s := range sources(t) {
		local := s.localName(module + "/internal/core/refusal")
		ast.Inspect(s.file, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok || local == "" || !isName(literal.Type, local, "Error") {
				return true
			}
			seen++
			if !slices.ContainsFunc(literal.Elts, func(e ast.Expr) bool {
				pair, ok := e.(*ast.KeyValueExpr)
				return ok && isIdent(pair.Key, "Kind")
			}) {
				t.Errorf("%s: a refusal without a kind", s.fset.Position(n.Pos()))
			}
			return true
		})
	}
	if seen < 50 {
		t.Errorf("only %d refusals found; does the test still see them?", seen)
	}
}

func isIdent(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}

// isName reports whether an expression is a name of a package: refusal.Error.
func isName(x ast.Expr, pkg, name string) bool {
	s, ok := x.(*ast.SelectorExpr)
	return ok && isIdent(s.X, pkg) && s.Sel.Name == name
}

// TestNoSentenceDecides: what an error or a message says is for people. Code compares kinds,
// codes, types and errors themselves.
func TestNoSentenceDecides(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			name := "a declaration"
			if f, ok := d.(*ast.FuncDecl); ok {
				name = f.Name.Name
			}
			at := decidesByText(d)
			place := s.path + ": " + name
			if at == nil {
				continue
			}
			if sentences[place] == "" {
				t.Errorf("%s: %s decides by the text of an error or a message; give it a kind (internal/core/refusal), a code or a type, or enter %q in sentences with the reason",
					s.fset.Position(at.Pos()), name, place)
			}
			used[place] = true
		}
	}
	for place := range sentences {
		if !used[place] {
			t.Errorf("sentences: %s looks at no text; take it out", place)
		}
	}
}

// TestTheGuardSees: the ways to decide by a text that the guard knows, and what it lets pass.
func TestTheGuardSees(t *testing.T) {
	for body, want := range map[string]bool{
		`if err.Error() == "x" {}`:                                          true,
		`if "x" != e.Msg {}`:                                                true,
		`if strings.HasPrefix(p.Why, "is moving") {}`:                       true,
		`if strings.Contains(strings.ToLower(err.Error()), "x") {}`:         true,
		`text := err.Error(); if strings.HasSuffix(text, "x") {}`:           true,
		`text := "at: " + e.Msg; switch text { case "x": }`:                 true,
		`var text = err.Error(); _, _, _ = strings.Cut(text, "x")`:          true,
		`if pattern.MatchString(err.Error()) {}`:                            true,
		`if bytes.Contains([]byte(err.Error()), nil) {}`:                    true,
		`if slices.Contains(known, err.Error()) {}`:                         true,
		`func() { said := e.Remedy; if said == other {} }()`:                true,
		`first, _, _ := strings.Cut(err.Error(), "\n"); fmt.Println(first)`: false,
		`if e.Msg == "" {}`:                                                 false,
		`if err == other {}`:                                                false,
		`fmt.Println(err.Error() + "x")`:                                    false,
		`text := err.Error(); if len(text) > 3 {}`:                          false,
		`if strings.HasPrefix(name, "x") {}`:                                false,
		`text := "x"; if strings.HasPrefix(text, "x") {}`:                   false,
		`lines := strings.Split(err.Error(), "\n"); fmt.Println(lines)`:     false,
	} {
		if got := decidesByText(parseBody(t, body)) != nil; got != want {
			t.Errorf("%s: seen %v, want %v", body, got, want)
		}
	}
}

// messages are the names of fields that hold a sentence for a person.
var messages = regexp.MustCompile(`^([mM]sg|Message|Remedy|Detail|[wW]hy|[nN]ote|Unmet|[cC]omplaint|[tT]rouble)$`)

// comparers are functions that compare texts, by their packages; any other method that is
// called Match or MatchString counts too.
var comparers = map[string]*regexp.Regexp{
	"strings": regexp.MustCompile(`^(HasPrefix|HasSuffix|Contains|ContainsAny|ContainsFunc|EqualFold|Compare|Count|Cut|CutPrefix|CutSuffix|Index|LastIndex)$`),
	"bytes":   regexp.MustCompile(`^(HasPrefix|HasSuffix|Contains|Equal|EqualFold|Compare|Cut|CutPrefix|CutSuffix|Index)$`),
	"slices":  regexp.MustCompile(`^(Contains|Index)$`),
	"regexp":  regexp.MustCompile(`^(Match|MatchString)$`),
}

// decidesByText finds a comparison of an error's text or a message in a declaration, nil
// if there is none. It follows the text through variables of the declaration, and not into
// other functions.
func decidesByText(d ast.Node) (at ast.Node) {
	texts := textVariables(d)
	ast.Inspect(d, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.BinaryExpr:
			if (x.Op == token.EQL || x.Op == token.NEQ) && !empty(x.X) && !empty(x.Y) && (texts.in(x.X) || texts.in(x.Y)) {
				at = x
			}
		case *ast.SwitchStmt:
			if x.Tag != nil && texts.in(x.Tag) {
				at = x
			}
		case *ast.CallExpr:
			if compares(x.Fun) && slices.ContainsFunc(x.Args, texts.in) && !slices.ContainsFunc(x.Args, newline) {
				at = x
			}
		}
		return at == nil
	})
	return at
}

// compares reports whether a function compares texts.
func compares(f ast.Expr) bool {
	x, ok := f.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if of, ok := x.X.(*ast.Ident); ok && comparers[of.Name] != nil {
		return comparers[of.Name].MatchString(x.Sel.Name)
	}
	return comparers["regexp"].MatchString(x.Sel.Name)
}

// newline is "\n": the first line of a text is taken, whatever it says.
func newline(x ast.Expr) bool {
	text, ok := x.(*ast.BasicLit)
	return ok && text.Value == `"\n"`
}

// empty is "": whether there is a text at all is no question about what it says.
func empty(x ast.Expr) bool {
	text, ok := x.(*ast.BasicLit)
	return ok && (text.Value == `""` || text.Value == "``")
}

// variables are the variables of a declaration that hold an error's text or a message.
type variables map[string]bool

func textVariables(d ast.Node) variables {
	texts := variables{}
	note := func(names []ast.Expr, values []ast.Expr) {
		for i, name := range names {
			if id, ok := name.(*ast.Ident); ok && len(values) == len(names) && texts.in(values[i]) {
				texts[id.Name] = true
			}
		}
	}
	ast.Inspect(d, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.AssignStmt:
			note(x.Lhs, x.Rhs)
		case *ast.ValueSpec:
			var names []ast.Expr
			for _, id := range x.Names {
				names = append(names, id)
			}
			note(names, x.Values)
		}
		return true
	})
	return texts
}

// in reports whether an expression is an error's text or a message, or made of one by
// concatenation, conversion or a function of texts.
func (v variables) in(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return v[x.Name]
	case *ast.ParenExpr:
		return v.in(x.X)
	case *ast.BinaryExpr:
		return x.Op == token.ADD && (v.in(x.X) || v.in(x.Y))
	case *ast.SelectorExpr:
		return messages.MatchString(x.Sel.Name)
	case *ast.CallExpr:
		f, ok := x.Fun.(*ast.SelectorExpr)
		if !ok { // string(x), []byte(x)
			return len(x.Args) == 1 && v.in(x.Args[0])
		}
		if f.Sel.Name == "Error" && len(x.Args) == 0 {
			return true
		}
		of, ok := f.X.(*ast.Ident)
		return ok && of.Name == "strings" && regexp.MustCompile(`^(To|Trim|Replace)`).MatchString(f.Sel.Name) && v.in(x.Args[0])
	}
	return false
}

func parseBody(t *testing.T, body string) ast.Node {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() {\n"+body+"\n}", parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file.Decls[0]
}
