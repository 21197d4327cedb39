// SPDX-License-Identifier: Apache-2.0

package yamltree

import (
	"strings"
	"testing"

	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// TestDepthIsSeenBeforeTheParser: what nests too deep costs no more than a look at each byte.
func TestDepthIsSeenBeforeTheParser(t *testing.T) {
	for name, text := range map[string]string{
		"lists":           strings.Repeat("[", bound.Policy),
		"mappings":        strings.Repeat("{a: ", bound.Policy/4),
		"lines":           strings.Repeat("- ", bound.Policy/2),
		"complex keys":    strings.Repeat("? ", bound.Policy/2),
		"both":            strings.Repeat("- {a: [", bound.Policy/7),
		"behind a quote":  "[it's, " + strings.Repeat("[", 9),
		"behind an end":   `["]", [ "]", [ "]", [ "]", [ "]", [ "]", [ "]", [ "]", [ "]" ]]]]]]]]]`,
		"behind comments": "[ # ]]]]\n[ # ]]\n[[[[[[[",
	} {
		cost := boundtest.Measure(func() {
			if _, err := Parse(text, bound.Policy, bound.Levels); err == nil || !strings.Contains(err.Error(), " levels, 8 are the most; nest lists and fields less") {
				t.Errorf("%s: %v", name, err)
			}
		})
		if cost.Bytes > 4<<20 {
			t.Errorf("%s: %d KB allocated", name, cost.Bytes>>10)
		}
	}
}

// TestLevels: the look at the bytes counts as the tree does.
func TestLevels(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "a": 0, "none": 0, "a: b": 1, "[a]": 1, "- a": 1, "- - a": 2, "a:\n- b\n- c\nd: e": 2,
		"a:\n  b:\n    c: d\ne: {f: [g]}":                          3,
		"- a: b\n  c: d\n- e: [f]":                                 3,
		`[{days: mon-fri, from: "08:00"}]`:                         2,
		"voice: {rate: 1mbit, match: [{udp: [1, 2]}]}\nrest: {}\n": 5,
		"# [[[[\na: it's # [[\nb: \"[[[\"\n":                       1,
		"a: 'it''s [[['\nb: \"\\\"[[\"":                            1,
		"[\n  a,\n  {b: c}\n]":                                     2,
		"a:\r\n  b:\r\n    c: d":                                   3,
		`{"a": {"b": "c"}, "d": ["e"]}`:                            2,
		"? a\n: b":                                                 1,
	} {
		if got := Levels(text); got != want {
			t.Errorf("%q has %d levels, want %d", text, got, want)
		}
	}
}

// TestWorstShapes: whatever the text, reading it costs what one input may cost.
func TestWorstShapes(t *testing.T) {
	for _, opening := range []string{"", "[", "{", "a: ", "- ", "\"", "'", "|\n ", "- # c\n  "} {
		for _, shape := range boundtest.Shapes(bound.Policy - len(opening)) {
			text := opening + shape
			boundtest.Hold(t, func() { _, _ = Parse(text, bound.Policy, bound.Levels) })
			boundtest.Hold(t, func() { _, _ = Parse(text, bound.Policy, bound.Policy) }) // the parser alone
			if t.Failed() {
				t.Fatalf("%.60q, %d bytes", text, len(text))
			}
		}
	}
}
