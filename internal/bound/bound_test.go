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
