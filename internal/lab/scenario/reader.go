// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"weir/internal/core/closest"
	"weir/internal/core/invalid"
)

// maxProblems is the largest number of mistakes that are told of one file.
const maxProblems = 10

// reader walks a document's syntax tree and collects the mistakes in it. It
// works on the tree and not by decoding into structs, because every message
// needs the line and column of the value that it is about.
type reader struct {
	file     string
	problems []error
}

// field handles the value of one key of a mapping.
type field func(n ast.Node, path string)

// document is the one mapping that a file consists of, nil if it is not.
func (r *reader) document(data []byte) ast.Node {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		r.syntax(err)
		return nil
	}
	var docs []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType {
			docs = append(docs, d.Body)
		}
	}
	switch {
	case len(docs) == 0:
		r.problems = append(r.problems, &Error{File: r.file, Line: 1, Col: 1,
			Problem: "the file is empty; a scenario needs link, workloads and phases"})
		return nil
	case len(docs) > 1:
		r.fail(docs[1], "", "", "a second document; put each scenario into a file of its own")
		return nil
	}
	return docs[0]
}

func (r *reader) syntax(err error) {
	e := &Error{File: r.file, Line: 1, Col: 1, Problem: "not valid YAML"}
	var ye yaml.Error
	if errors.As(err, &ye) {
		if t := ye.GetToken(); t != nil && t.Position != nil {
			e.Line, e.Col = t.Position.Line, t.Position.Column
		}
		e.Problem += ": " + strings.ReplaceAll(ye.GetMessage(), "\n", " ")
	}
	r.problems = append(r.problems, e)
}

// fail records a mistake at a node.
func (r *reader) fail(n ast.Node, path, value, format string, args ...any) {
	e := &Error{File: r.file, Line: 1, Col: 1, Field: path, Value: value, Problem: fmt.Sprintf(format, args...)}
	if t := first(n); t != nil && t.GetToken() != nil && t.GetToken().Position != nil {
		e.Line, e.Col = t.GetToken().Position.Line, t.GetToken().Position.Column
	}
	r.problems = append(r.problems, e)
}

// refuse records a mistake in a policy, in the field that it names.
func (r *reader) refuse(n ast.Node, path string, err error) {
	var mistake *invalid.Error
	if !errors.As(err, &mistake) {
		r.fail(n, path, "", "%v", err)
		return
	}
	if mistake.Field != "" && !strings.HasSuffix(path, mistake.Field) {
		path = join(path, mistake.Field)
	}
	r.fail(n, path, mistake.Value, "%s", problem(mistake))
}

// problem returns the mistake and its remedy.
func problem(e *invalid.Error) string {
	if e.Remedy == "" {
		return e.Msg
	}
	return e.Msg + "; " + e.Remedy
}

// first is the node whose token begins n: a block mapping's own token is the
// colon of its first entry.
func first(n ast.Node) ast.Node {
	switch v := n.(type) {
	case *ast.MappingNode:
		if !v.IsFlowStyle && len(v.Values) > 0 {
			return v.Values[0].Key
		}
	case *ast.MappingValueNode:
		return v.Key
	}
	return n
}

// entries are the key-value pairs of a mapping, checked for doubles; ok is
// false if n is no mapping.
func (r *reader) entries(n ast.Node, path, want string) (list []*ast.MappingValueNode, ok bool) {
	switch v := n.(type) {
	case *ast.MappingNode:
		list = v.Values
	case *ast.MappingValueNode:
		list = []*ast.MappingValueNode{v}
	default:
		r.fail(n, path, text(n), "needs %s", want)
		return nil, false
	}
	seen := map[string]bool{}
	for _, e := range list {
		key := e.Key.String()
		if e.Key.IsMergeKey() {
			r.fail(e.Key, join(path, key), "", "merge keys are not part of the format; repeat the entries")
			return nil, false
		}
		if seen[key] {
			r.fail(e.Key, join(path, key), "", "given twice; keep one")
			return nil, false
		}
		seen[key] = true
	}
	return list, true
}

// fields hands the value of each key to its handler and refuses unknown keys.
func (r *reader) fields(n ast.Node, path, want string, known map[string]field) {
	list, ok := r.entries(n, path, want)
	if !ok {
		return
	}
	for _, e := range list {
		key := keyText(e.Key)
		handle, ok := known[key]
		if !ok {
			r.unknown(e.Key, join(path, key), "key", key, names(known))
			continue
		}
		handle(e.Value, join(path, key))
	}
}

// unknown refuses a name and says which ones there are.
func (r *reader) unknown(n ast.Node, path, what, got string, known []string) {
	hint := "one of " + strings.Join(known, ", ")
	if near := closest.Words(got, known, 1); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %q?", near[0])
	}
	r.fail(n, path, "", "unknown %s %q; %s", what, got, hint)
}

// items are the elements of a list.
func (r *reader) items(n ast.Node, path, want string) []ast.Node {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		r.fail(n, path, text(n), "needs %s", want)
		return nil
	}
	return s.Values
}

// err is everything that went wrong, one line each, nil if nothing did.
func (r *reader) err() error {
	if len(r.problems) > maxProblems {
		rest := len(r.problems) - maxProblems
		r.problems = append(r.problems[:maxProblems:maxProblems],
			fmt.Errorf("%s: and %d more problems", r.file, rest))
	}
	return errors.Join(r.problems...)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func keyText(k ast.MapKeyNode) string {
	if s, ok := k.(ast.ScalarNode); ok {
		return fmt.Sprint(s.GetValue())
	}
	return k.String()
}

// text is a scalar as written, "" for anything else.
func text(n ast.Node) string {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode, *ast.AnchorNode, *ast.AliasNode, nil:
		return ""
	case *ast.NullNode:
		return ""
	}
	if t := n.GetToken(); t != nil {
		return t.Value
	}
	return ""
}
