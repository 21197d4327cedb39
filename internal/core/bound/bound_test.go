// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"fmt"
	"strings"
	"testing"
)

func TestLength(t *testing.T) {
	if err := Length("label weir.queues", Label, Label); err != nil {
		t.Error(err)
	}
	if got, want := fmt.Sprint(Length("label weir.queues", 40000, Label)), "label weir.queues: 40000 bytes, 4096 are the most; write less"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		`[[{"a":[]}]]`:                   "<nil>",
		`["[[[[[[", "\"[[[[", "]]", {}]`: "<nil>",
		`[[[[[`:                          "body: 5 levels, 4 are the most; nest less",
		`{"a":["\\",[{"b":[1]}]]}`:       "body: 5 levels, 4 are the most; nest less",
		strings.Repeat("[]", 30):         "<nil>",
	} {
		if got := fmt.Sprint(JSON("body", []byte(text), 4)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	text := []byte(strings.Repeat("[", Body))
	if n := testing.AllocsPerRun(10, func() { _ = JSON("", text, Body) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLists(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":[1,2,3],"b":[[1,2,3],[4,5,6]]}`:                           "<nil>",
		`{"a":"[1,2,3,4,5\\"","b":1,"c":2}`:                             "<nil>",
		`{"a":[{},{},{},{},0]}`:                                         "message: 5 values in a list, 4 are the most; write fewer",
		`[[],[[1,2,3,4,5]]]`:                                            "message: 5 values in a list, 4 are the most; write fewer",
		`{"a":[1,2,3],"b":[1,2,3],"c":[1,2,3],"d":[1,2,3],"e":[1,2,3]}`: "message: 21 values, 20 are the most; write fewer",
		strings.Repeat("[", 40) + "1,2,3,4,5" + strings.Repeat("]", 40): "message: 45 values, 20 are the most; write fewer",
		`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}`:                         "<nil>",
	} {
		if got := fmt.Sprint(Lists("message", []byte(text), 20, 4)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	deep := []byte(strings.Repeat("[", 40) + strings.Repeat("1,", 100) + "1" + strings.Repeat("]", 40))
	if err := Lists("", deep, 1000, 50); err == nil {
		t.Error("a long list in 40 others is not seen")
	}
	text := []byte(strings.Repeat("[0,", Body))
	if n := testing.AllocsPerRun(10, func() { _ = Lists("", text, len(text), len(text)) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestShown(t *testing.T) {
	for name, want := range map[string]string{"web-1": "web-1", "a\x1b[31mb\nc\xff": "a?[31mb?c?", "ü\u202e": "ü?", strings.Repeat("a", Name+1): strings.Repeat("a", Name)} {
		if got := Shown(name); got != want {
			t.Errorf("%q is shown as %q, want %q", name, got, want)
		}
	}
	if got := Shown(strings.Repeat("ü", Name)); len(got) > Name {
		t.Errorf("%d bytes", len(got))
	}
}
