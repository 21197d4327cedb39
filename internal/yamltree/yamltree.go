// SPDX-License-Identifier: Apache-2.0

// Package yamltree decodes YAML, and JSON with it, into plain values that keep what a reader
// with messages of its own needs: the order of keys, and single values as they are written.
// Example:
//
//	voice: {rate: 1mbit, match: [{udp: 5001}]}
//
// is
//
//	Mapping{{"voice", Mapping{{"rate", "1mbit"}, {"match", []any{Mapping{{"udp", "5001"}}}}}}}
//
// It knows no fields and keeps no positions. A file whose form is a struct is read by package
// strictyaml, and weir.yaml by package config, which makes the same values of its nodes.
package yamltree

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Mapping is a decoded mapping in the order in which it was written.
type Mapping []Entry

// Entry is one key of a mapping with its value: a Mapping, a []any, a string, or nil where
// nothing is written.
type Entry struct {
	Key   string
	Value any
}

// AsMaps returns a decoded tree with maps in place of the mappings, whose order is lost.
func AsMaps(value any) any {
	switch v := value.(type) {
	case Mapping:
		m := map[string]any{}
		for _, e := range v {
			m[e.Key] = AsMaps(e.Value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = AsMaps(v[i])
		}
		return list
	case nil:
		return ""
	}
	return value
}

// Describe says what kind of value a decoded one is: "fields", "a list", or the single value.
func Describe(value any) string {
	switch v := value.(type) {
	case Mapping:
		return "fields"
	case []any:
		return "a list"
	default:
		return fmt.Sprintf("the single value %q", v)
	}
}

// Parse decodes the first document of a text down to a number of levels. Anchors, aliases, tags
// and merge keys are refused.
func Parse(text string, deepest int) (any, error) {
	file, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		msg := "cannot be read"
		if syntax, ok := errors.AsType[interface {
			error
			GetMessage() string
		}](err); ok {
			msg = syntax.GetMessage()
		}
		return nil, errors.New(msg + "; correct brackets, quotes or indentation")
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, nil
	}
	return decoded(file.Docs[0].Body, deepest)
}

func decoded(n ast.Node, depth int) (any, error) {
	if depth == 0 {
		return nil, errors.New("nested too deep")
	}
	switch v := n.(type) {
	case nil, *ast.NullNode:
		return nil, nil
	case *ast.MappingNode:
		m := Mapping{}
		for _, e := range v.Values {
			if e.Key.IsMergeKey() {
				return nil, errors.New("merge keys (<<) are not supported")
			}
			value, err := decoded(e.Value, depth-1)
			if err != nil {
				return nil, err
			}
			m = append(m, Entry{e.Key.GetToken().Value, value})
		}
		return m, nil
	case *ast.SequenceNode:
		list := []any{}
		for _, item := range v.Values {
			value, err := decoded(item, depth-1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode: // which are scalars to the parser
	case *ast.StringNode:
		return v.Value, nil
	case *ast.LiteralNode:
		return v.Value.Value, nil
	case ast.ScalarNode:
		return v.GetToken().Value, nil
	}
	return nil, errors.New("anchors, aliases and tags are not supported here")
}
