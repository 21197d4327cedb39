// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"weir/internal/core/bound"
	"weir/internal/core/invalid"
	"weir/internal/core/policy"
	"weir/internal/core/yamltree"
)

// Mistake is one mistake in a file.
type Mistake struct {
	Line, Column int
	Field        string // e.g. "links[0].egress", "" if it concerns no field
	Msg          string // value and remedy included

	mistake *invalid.Error // which Msg is the text of; nil if it is about the file's form
}

// Mistake returns the policy's error behind the problem, nil if the problem is one of the
// file's form.
func (p Mistake) Mistake() *invalid.Error { return p.mistake }

// Error holds all mistakes in a file.
type Error struct {
	Path     string
	Problems []Mistake // never empty, in the file's order
}

// FileError is a file that cannot be read at all. It wraps the reason.
type FileError struct {
	Msg string // with the file's name and the remedy
	Err error
}

// Error implements error.
func (e *FileError) Error() string { return e.Msg }

// Unwrap returns the reason for which the file cannot be read.
func (e *FileError) Unwrap() error { return e.Err }

// mostSaid is how many mistakes an error says one by one, and longest how many bytes of one. A
// damaged file may have as many as it has bytes.
const (
	mostSaid = 50
	longest  = 400
)

// Error returns one line for each problem, and the number of those that are too many to say.
func (e *Error) Error() string {
	lines := inFile(e.Path, e.Problems[:min(mostSaid, len(e.Problems))])
	if more := len(e.Problems) - mostSaid; more > 0 {
		lines[mostSaid-1] += fmt.Sprintf(" (and %d more mistakes)", more)
	}
	return strings.Join(lines, "\n")
}

// clipped returns a text without its middle where it is too long for a line.
func clipped(text string) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest/2], "") + " ... " + strings.ToValidUTF8(text[len(text)-longest/2:], "")
}

// zeroByte returns a problem with the first zero byte of a text, which the file system may leave
// in place of what was written before the power failed; nil if there is none.
func zeroByte(text []byte) *Mistake {
	at := bytes.IndexByte(text, 0)
	if at < 0 {
		return nil
	}
	before := text[:at]
	return &Mistake{Line: 1 + bytes.Count(before, []byte("\n")), Column: at - bytes.LastIndexByte(before, '\n'),
		Msg: "a zero byte, which no text has: the file is damaged; put a copy of it back"}
}

// Linkless returns the mistake of a file with which an agent would have nothing to steer and
// which does not say that this is meant; nil if there is a link, or a switch that names some.
func (c Config) Linkless() error {
	if len(c.Links) > 0 || c.NoLink || c.SDN.OVSDB != "" {
		return nil
	}
	return &Error{Path: c.Path, Problems: []Mistake{{Field: "links", Msg: "no link; name one, or write links: [] to steer nothing"}}}
}

// inFile returns a line for each problem, with its place.
func inFile(path string, problems []Mistake) []string {
	var lines []string
	for _, p := range problems {
		line := path
		if p.Line > 0 {
			line += fmt.Sprintf(":%d:%d", p.Line, p.Column)
		}
		if p.Field != "" {
			line += ": " + p.Field
		}
		lines = append(lines, line+": "+p.Msg)
	}
	return lines
}

// syntaxText returns the mistake at which the parser gave up. Of a tab the parser says
// only that some character cannot stand there.
func syntaxText(text []byte, at *token.Token, message string) string {
	lines := strings.Split(string(text), "\n")
	if at != nil && at.Position.Line <= len(lines) && at.Position.Line > 0 {
		line := lines[at.Position.Line-1]
		if indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]; strings.Contains(indent, "\t") {
			return "a tab in the indentation, which YAML does not take; write blanks"
		}
	}
	if strings.Contains(message, "already defined") {
		return message + "; take one of the two out"
	}
	return message + "; correct brackets, quotes or indentation here or just above"
}

// tree is a file while it is being read. Reading goes on after a problem, so
// that one run reports them all.
type tree struct {
	anchors  map[string]ast.Node
	problems []Mistake
	warnings []Mistake                     // what may be meant, but seldom is
	zones    []zoneName                    // that policies name
	quotas   []quotaAt                     // of what is received
	asked    func(path string, given bool) // called for each key that is known, if not nil
}

// node is one value in the file and the way to it.
type node struct {
	tree *tree
	ast  ast.Node // nil: given by nothing in the file
	path string
}

// parseTree reads the file's one document; the node is empty for an empty file.
func parseTree(text []byte) (node, error) {
	t := &tree{anchors: map[string]ast.Node{}}
	root := node{tree: t}
	if damage := zeroByte(text); damage != nil {
		t.problems = append(t.problems, *damage)
		return root, nil
	}
	if levels := yamltree.Levels(string(text)); levels > deepest { // the parser's time grows with their square
		t.problem(nil, "", "%d levels, %d are the most; nest lists and fields less", levels, deepest)
		return root, nil
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		var syntax yaml.Error
		if errors.As(err, &syntax) {
			at := syntax.GetToken()
			t.problem(at, "", "%s", syntaxText(text, at, syntax.GetMessage()))
			return root, nil
		}
		return root, err
	}
	for i, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if i > 0 && root.ast != nil {
			t.problem(doc.Body.GetToken(), "", "a second document; put everything into one, without a line of ---")
			break
		}
		root.ast = doc.Body
	}
	return root, nil
}

func (t *tree) problem(at *token.Token, field, format string, args ...any) {
	p := Mistake{Field: clipped(field), Msg: clipped(fmt.Sprintf(format, args...))}
	if at != nil && at.Position != nil {
		p.Line, p.Column = at.Position.Line, at.Position.Column
	}
	t.problems = append(t.problems, p)
}

// wrong records a problem with this value.
func (n node) wrong(format string, args ...any) {
	var at *token.Token
	if n.ast != nil {
		at = n.ast.GetToken()
		if m, ok := n.ast.(*ast.MappingNode); ok && len(m.Values) > 0 {
			at = m.Values[0].Key.GetToken() // a block mapping's own token is its first colon
		}
	}
	n.tree.problem(at, n.path, format, args...)
}

// refuse records an error about this value, or about the field of it that the
// error names.
func (n node) refuse(err error) {
	var mistake *invalid.Error
	if errors.As(err, &mistake) && mistake.Field != "" && !strings.HasSuffix(n.path, mistake.Field) {
		n.path = join(n.path, mistake.Field)
	}
	if err != nil {
		n.wrong("%v", invalid.InField("", err))
		n.tree.problems[len(n.tree.problems)-1].mistake = mistake
	}
}

// warn records what may not be meant about the field of this value that the
// warning names.
func (n node) warn(about *invalid.Error) {
	known := n.tree.problems
	n.refuse(about)
	n.tree.warnings = append(n.tree.warnings, n.tree.problems[len(known):]...)
	n.tree.problems = known
}

// resolve follows anchors and aliases.
func (n node) resolve() node {
	for range 100 { // an alias of an alias is rare, a cycle is an error of the file
		switch v := n.ast.(type) {
		case *ast.AnchorNode:
			n.tree.anchors[v.Name.String()] = v.Value
			n.ast = v.Value
		case *ast.AliasNode:
			target, ok := n.tree.anchors[v.Value.String()]
			if !ok {
				n.wrong("alias *%s has no anchor before it", v.Value)
				n.ast = nil
				return n
			}
			n.ast = target
		case *ast.NullNode:
			n.ast = nil
			return n
		default:
			return n
		}
	}
	n.wrong("alias refers to itself")
	n.ast = nil
	return n
}

// given reports whether the file says anything here.
func (n node) given() bool { return n.ast != nil }

// fields reads a mapping whose keys are known; read is called with a node for
// each of them, in the order given, whether the file has it or not.
func (n node) fields(known []string, read func(key string, value node)) {
	values := map[string]node{}
	n.each(func(key string, at *token.Token, value node) {
		if !slices.Contains(known, key) {
			value.tree.problem(at, value.path, "unknown key %q; %s", key, policy.DidYouMean(key, known))
			return
		}
		values[key] = value
	})
	for _, key := range known {
		value, ok := values[key]
		if !ok {
			value = node{tree: n.tree, path: join(n.path, key)}
		}
		if n.tree.asked != nil {
			n.tree.asked(value.path, ok)
		}
		read(key, value)
	}
}

// each visits the entries of a mapping in the file's order.
func (n node) each(visit func(key string, at *token.Token, value node)) {
	switch n = n.resolve(); v := n.ast.(type) {
	case nil:
	case *ast.MappingNode:
		for _, entry := range v.Values {
			key := entry.Key.GetToken()
			if entry.Key.IsMergeKey() {
				n.tree.problem(key, n.path, "merge keys (<<) are not supported; write the fields out")
				continue
			}
			visit(key.Value, key, node{tree: n.tree, ast: entry.Value, path: join(n.path, key.Value)}.resolve())
		}
	default:
		n.wrong("%s where fields are expected", describe(v))
	}
}

// items visits the entries of a list.
func (n node) items(visit func(node)) {
	switch n = n.resolve(); v := n.ast.(type) {
	case nil:
	case *ast.SequenceNode:
		for i, value := range v.Values {
			visit(node{tree: n.tree, ast: value, path: fmt.Sprintf("%s[%d]", n.path, i)}.resolve())
		}
	default:
		n.wrong("%s where a list is expected; begin each entry with a dash", describe(v))
	}
}

// isEmptyList reports whether the file says "[]" here, which is more than to say nothing.
func (n node) isEmptyList() bool {
	list, ok := n.ast.(*ast.SequenceNode)
	return ok && len(list.Values) == 0
}

// text returns a single value as it stands in the file, without quotes. ok is false if
// there is none or it is not a single value, which is recorded.
func (n node) text() (text string, ok bool) {
	switch v := n.ast.(type) {
	case nil:
		return "", false
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	case ast.ScalarNode:
		return v.GetToken().Value, true
	default:
		n.wrong("%s where a single value is expected; write one", describe(v))
		return "", false
	}
}

// single returns a single value as text does, and whether there is neither a mapping nor a list:
// "" where nothing is given.
func (n node) single() (text string, ok bool) {
	n = n.resolve()
	switch n.ast.(type) {
	case nil:
		return "", true
	case *ast.MappingNode, *ast.SequenceNode:
		return "", false
	}
	return n.text()
}

// find returns the value at the end of a way such as "voice.match[0].udp", or the deepest
// one on the way that is there; its path is the whole way.
func (n node) find(way string) node {
	at := n
	for step := range strings.SplitSeq(strings.ReplaceAll(way, "[", ".["), ".") {
		at = at.child(step)
	}
	at.path = strings.TrimSuffix(n.path+"."+strings.TrimPrefix(way, "."), ".")
	at.path = strings.ReplaceAll(at.path, ".[", "[")
	return at
}

// child returns the entry of a mapping, or with "[2]" of a list, and n itself if there is
// none.
func (n node) child(step string) node {
	found, scratch := n, node{tree: &tree{anchors: n.tree.anchors}, ast: n.ast}
	see := func(value node) { found.ast = value.ast }
	switch n.ast.(type) {
	case *ast.MappingNode:
		scratch.each(func(key string, _ *token.Token, value node) {
			if key == step {
				see(value)
			}
		})
	case *ast.SequenceNode:
		scratch.items(func(item node) {
			if item.path == step {
				see(item)
			}
		})
	}
	return found
}

// deepest is how many lists and mappings in each other the file may have: those of a policy, and
// what is around it.
const deepest = bound.Levels + 8

// plain returns the value without its places, as policy.QueuesFrom takes it. It follows neither
// an alias within its own anchor nor aliases of aliases without end.
func (n node) plain() any {
	left := bound.Policy
	value := n.plainTo(bound.Levels+1, &left)
	if left < 0 {
		n.wrong("more than %d bytes, which are the most of one value; write less", bound.Policy)
		return nil
	}
	return value
}

// plainTo returns the value with at most so many levels, of single values too, as long as bytes
// are left: aliases can make much of a short text.
func (n node) plainTo(depth int, left *int) any {
	n = n.resolve()
	if depth == 0 {
		n.wrong("more than %d levels, which are the most; nest lists and fields less", bound.Levels)
		return nil
	}
	if *left < 0 {
		return nil
	}
	switch v := n.ast.(type) {
	case *ast.MappingNode:
		fields := yamltree.Mapping{}
		n.each(func(key string, _ *token.Token, value node) {
			*left -= len(key) + 1
			fields = append(fields, yamltree.KeyValue{Key: key, Value: value.plainTo(depth-1, left)})
		})
		return fields
	case *ast.SequenceNode:
		list := []any{}
		n.items(func(item node) { list = append(list, item.plainTo(depth-1, left)) })
		return list
	case nil:
		return nil
	case ast.ScalarNode:
		text, _ := n.text()
		*left -= len(text) + 1
		return text
	default:
		n.wrong("%s where a value is expected; write one", describe(v))
		return nil
	}
}

func describe(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode:
		return "fields"
	case *ast.SequenceNode:
		return "a list"
	case ast.ScalarNode:
		return fmt.Sprintf("the single value %q", n.GetToken().Value)
	}
	return strings.ToLower(n.Type().String())
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
