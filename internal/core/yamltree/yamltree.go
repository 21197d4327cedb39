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
// A text may come from any user: it is refused for its length and its levels before the parser
// sees it (levels.go), and the parser takes time and memory in proportion to the length. That of
// weir.yaml does not, which takes 1.4 s for `|` and 16 KiB of empty lines; its tree has positions,
// and the administrator alone writes that file.
//
// It knows no fields and keeps no positions. A file whose form is a struct is read by package
// strictyaml, and weir.yaml by package config, which makes the same values of its nodes.
package yamltree

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Mapping is a decoded mapping in the order in which it was written.
type Mapping []KeyValue

// KeyValue is one key of a mapping with its value: a Mapping, a []any, a string, or nil where
// nothing is written.
type KeyValue struct {
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

// Parse decodes a text of at most so many bytes, with at most so many lists and mappings in each
// other. Anchors, aliases, tags and merge keys are refused.
func Parse(text string, longest, deepest int) (any, error) {
	if len(text) > longest {
		return nil, fmt.Errorf("%d bytes, %d are the most; write less", len(text), longest)
	}
	if n := Levels(text); n > deepest {
		return nil, tooDeep(n, deepest)
	}
	documents := yaml.NewDecoder(strings.NewReader(text))
	var first, second yaml.Node
	err := documents.Decode(&first)
	if err == nil {
		err = documents.Decode(&second)
	}
	if wrong, is := strings.CutPrefix(fmt.Sprint(err), "yaml: "); is { // else it is the end of the text
		return nil, errors.New(wrong + "; correct brackets, quotes or indentation")
	}
	if second.Kind != 0 {
		return nil, errors.New("a second document; put everything into one, without a line of ---")
	}
	if len(first.Content) == 0 {
		return nil, nil
	}
	return decoded(first.Content[0], 1, deepest)
}

func tooDeep(levels, deepest int) error {
	return fmt.Errorf("%d levels, %d are the most; nest lists and fields less", levels, deepest)
}

// decoded returns the value of a node. A list or mapping of it is at this level.
func decoded(n *yaml.Node, level, deepest int) (any, error) {
	if n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 {
		return nil, errors.New("anchors, aliases and tags are not supported here")
	}
	if n.Kind == yaml.ScalarNode {
		if n.ShortTag() == "!!null" {
			return nil, nil
		}
		return n.Value, nil
	}
	if level > deepest { // by a form of writing that Levels does not know
		return nil, tooDeep(level, deepest)
	}
	if n.Kind == yaml.MappingNode {
		return decodedMapping(n.Content, level, deepest)
	}
	list := []any{}
	for _, item := range n.Content {
		value, err := decoded(item, level+1, deepest)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}

// decodedMapping returns a mapping out of its keys and values by turns.
func decodedMapping(nodes []*yaml.Node, level, deepest int) (any, error) {
	m, known := Mapping{}, map[string]bool{}
	for i := 0; i+1 < len(nodes); i += 2 {
		key := nodes[i]
		switch {
		case key.Kind == yaml.AliasNode || key.Anchor != "" || key.Style&yaml.TaggedStyle != 0:
			return nil, errors.New("anchors, aliases and tags are not supported here")
		case key.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("line %d: a list or fields where a key is expected; write a word", key.Line)
		case key.ShortTag() == "!!merge":
			return nil, errors.New("merge keys (<<) are not supported")
		case known[key.Value]:
			return nil, fmt.Errorf("line %d: the key %s is there twice; write it once", key.Line, strconv.Quote(key.Value[:min(len(key.Value), 40)]))
		}
		known[key.Value] = true
		value, err := decoded(nodes[i+1], level+1, deepest)
		if err != nil {
			return nil, err
		}
		m = append(m, KeyValue{key.Value, value})
	}
	return m, nil
}
