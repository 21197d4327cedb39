// SPDX-License-Identifier: Apache-2.0

package yamltree

import (
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	want := Mapping{{"voice", Mapping{{"rate", "1mbit"}, {"match", []any{Mapping{{"udp", "05001"}}}}}}, {"rest", nil}}
	for _, text := range []string{
		"voice: {rate: 1mbit, match: [{udp: 05001}]}\nrest:\n",
		"voice:\n  rate: 1mbit\n  match:\n    - udp: 05001\nrest: null",
		`{"voice": {"rate": "1mbit", "match": [{"udp": "05001"}]}, "rest": null}`,
	} {
		if got, err := Parse(text, 1000, 7); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nis %v, %v; want %v", text, got, err, want)
		}
	}
	if got, err := Parse("", 1000, 7); got != nil || err != nil {
		t.Errorf("an empty text is %v, %v", got, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a: &x 1":                   "anchors, aliases and tags are not supported here",
		"a: !!str 1":                "anchors, aliases and tags are not supported here",
		"&x a: 1":                   "anchors, aliases and tags are not supported here",
		"{a: {<<: {b: 1}}}":         "merge keys (<<) are not supported",
		"[[":                        "correct brackets, quotes or indentation",
		"a: {}}":                    "correct brackets, quotes or indentation",
		"a: 1\n---\nb: 1":           "a second document",
		"a: *x":                     "unknown anchor 'x' referenced",
		"a: 1\na: 2":                `line 2: the key "a" is there twice; write it once`,
		"[a, b]: c":                 "line 1: a list or fields where a key is expected; write a word",
		"[[[[1]]]]":                 "4 levels, 3 are the most; nest lists and fields less",
		"{a: {b: {c: {d: {e: 1}}}}": "5 levels, 3 are the most; nest lists and fields less",
		strings.Repeat("a", 1001):   "1001 bytes, 1000 are the most; write less",
	} {
		if got, err := Parse(text, 1000, 3); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %s", text, got, err, want)
		}
	}
}

func TestAsMaps(t *testing.T) {
	got := AsMaps(Mapping{{"a", []any{Mapping{{"b", "1"}}, "c"}}, {"d", nil}})
	want := map[string]any{"a": []any{map[string]any{"b": "1"}, "c"}, "d": ""}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
