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
		if got, err := Parse(text, 7); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nis %v, %v; want %v", text, got, err, want)
		}
	}
	if got, err := Parse("", 7); got != nil || err != nil {
		t.Errorf("an empty text is %v, %v", got, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a: &x 1":                   "anchors, aliases and tags are not supported here",
		"a: !!str 1":                "anchors, aliases and tags are not supported here",
		"{a: {<<: {b: 1}}}":         "merge keys (<<) are not supported",
		strings.Repeat("[", 4):      "correct brackets, quotes or indentation",
		"[[[1]]]":                   "nested too deep",
		"{a: {b: {c: {d: {e: 1}}}}": "correct brackets, quotes or indentation",
	} {
		if got, err := Parse(text, 3); err == nil || !strings.Contains(err.Error(), want) {
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
