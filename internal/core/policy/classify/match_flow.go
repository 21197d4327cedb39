// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"strings"

	"weir/internal/core/invalid"
)

// maxFlowDepth is the number of levels to which a match can nest: a list of mappings with lists.
const maxFlowDepth = 3

// flow reads the part of YAML's flow style that matches are written in: lists,
// mappings, words with or without quotes. JSON of the same shape is part of it.
type flow struct {
	text string // the rest that is not read yet
	all  string
}

// parseFlow reads text as a list, a mapping, or a mapping without its braces.
// Single values are strings. The error is an *invalid.Error for the field "match".
func parseFlow(text string) (any, error) {
	f := &flow{text: text, all: text}
	f.blank()
	var tree any
	var err error
	if strings.HasPrefix(f.text, "[") || strings.HasPrefix(f.text, "{") {
		tree, err = f.value(maxFlowDepth)
	} else {
		tree, err = f.mapping("", maxFlowDepth-1)
	}
	if err != nil {
		return nil, err
	}
	if f.blank(); f.text != "" {
		return nil, f.fail("something is left behind the end")
	}
	return tree, nil
}

func (f *flow) fail(msg string) error {
	return &invalid.Error{Field: "match", Value: f.all, Msg: msg, Remedy: "write it as [{udp: 5001}, {dscp: ef}]"}
}

func (f *flow) blank() { f.text = strings.TrimLeft(f.text, " \t\r\n") }

// take consumes the token if the text goes on with it.
func (f *flow) take(token string) bool {
	f.blank()
	rest, ok := strings.CutPrefix(f.text, token)
	if ok {
		f.text = rest
	}
	return ok
}

func (f *flow) value(depth int) (any, error) {
	open := strings.HasPrefix(f.text, "[") || strings.HasPrefix(f.text, "{")
	switch {
	case open && depth == 0:
		return nil, f.fail("nested too deep")
	case f.take("["):
		return f.list(depth - 1)
	case f.take("{"):
		return f.mapping("}", depth-1)
	}
	return f.scalar(",]}\n")
}

func (f *flow) list(depth int) (any, error) {
	list := []any{}
	for !f.take("]") {
		f.blank()
		item, err := f.value(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
		if f.take(",") {
			continue
		}
		if !f.take("]") {
			return nil, f.fail("a list without its end, ]")
		}
		break
	}
	return list, nil
}

// mapping reads entries up to the end, "" for the end of the text.
func (f *flow) mapping(end string, depth int) (any, error) {
	fields := map[string]any{}
	for end == "" || !f.take(end) {
		f.blank()
		key, err := f.scalar(":,]}\n")
		if err != nil {
			return nil, err
		}
		if !f.take(":") {
			return nil, f.fail("a key without a colon behind it")
		}
		f.blank()
		if _, twice := fields[key]; twice {
			return nil, f.fail("the key " + invalid.Quote(key) + " is there twice")
		}
		if fields[key], err = f.value(depth); err != nil {
			return nil, err
		}
		if f.take(",") {
			continue
		}
		if f.blank(); end == "" && f.text != "" || end != "" && !f.take(end) {
			return nil, f.fail("entries without a comma between them, or a mapping without its end, }")
		}
		break
	}
	return fields, nil
}

// scalar reads a word, quoted or up to one of the stops. A colon stops only
// before a blank or the end in YAML; keys have none, so there it always does.
func (f *flow) scalar(stops string) (string, error) {
	for _, quoted := range []string{`"`, `'`} {
		if f.take(quoted) {
			text, rest, ok := strings.Cut(f.text, quoted)
			if !ok {
				return "", f.fail("a quotation mark without its end")
			}
			f.text = rest
			return text, nil
		}
	}
	at := strings.IndexAny(f.text, stops)
	if at < 0 {
		at = len(f.text)
	}
	text := strings.TrimSpace(f.text[:at])
	if text == "" {
		return "", f.fail("a value is missing")
	}
	f.text = f.text[at:]
	return text, nil
}
