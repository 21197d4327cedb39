// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"weir/internal/invalid"
)

// ParseQueues reads queues as weir.yaml has them, in YAML's block or flow style or
// in JSON: a mapping of names to queues, or a list of queues with names. Example:
//
//	voice: {rate: 1mbit, match: [{udp: 5001}]}
//	rest: {}
//
// "none", or nothing, is no queue. The error is an *invalid.Error; its field is such as
// "queues.voice.rate".
func ParseQueues(text string) ([]Queue, error) {
	if text = strings.TrimSpace(text); text == "" || strings.EqualFold(text, "none") {
		return []Queue{}, nil
	}
	if len(text) > maxQueuesText {
		return nil, &invalid.Error{Field: "queues", Value: text, Msg: fmt.Sprintf("longer than %d bytes", maxQueuesText), Remedy: "write fewer matches; the rest belongs into weir.yaml"}
	}
	tree, err := parseYAML(text)
	if err != nil {
		return nil, &invalid.Error{Field: "queues", Value: text, Msg: err.Error(), Remedy: queuesRemedy}
	}
	queues, faults := QueuesFrom(tree)
	if len(faults) > 0 {
		first := *faults[0]
		if strings.HasPrefix(first.Field, "[") || first.Field == "" {
			first.Field = "queues" + first.Field
		} else {
			first.Field = "queues." + first.Field
		}
		first.Value = cmp.Or(first.Value, text)
		return nil, &first
	}
	return queues, nil
}

// maxQueuesText bounds a text of queues in bytes: every user who may start a container writes
// labels, and reading takes up to 15 ms for each KiB.
const maxQueuesText = 64 << 10

// deepest is the number of levels to which a tree is followed: a list of queues, each with a list of matches,
// each with a list of ports.
const deepest = 7

// parseYAML decodes the first document of a text, with single values as they are written.
// Anchors, aliases and merge keys are refused.
func parseYAML(text string) (any, error) {
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
