// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Entry is an entry of a list as a file has it.
type Entry struct {
	Line int
	Text string // such as {container: web, exact: true}
}

// Entries returns the entries of the list under a key at the top of the text; none where
// there is no such list.
func Entries(text []byte, key string) (list []Entry) {
	n, ok := Top(text)[key].(*ast.SequenceNode)
	if !ok {
		return nil
	}
	for _, v := range n.Values {
		list = append(list, Entry{Line: v.GetToken().Position.Line, Text: v.String()})
	}
	return list
}

// Top returns the text's topmost mapping, by key, of all its documents; empty where the text is
// no YAML.
func Top(text []byte) map[string]ast.Node {
	keys := map[string]ast.Node{}
	parsed, err := parser.ParseBytes(text, 0)
	if err != nil {
		return keys
	}
	for _, doc := range parsed.Docs {
		if m, ok := doc.Body.(*ast.MappingNode); ok {
			for _, e := range m.Values {
				keys[strings.TrimSpace(e.Key.String())] = e.Value
			}
		}
	}
	return keys
}
