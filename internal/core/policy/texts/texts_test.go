// SPDX-License-Identifier: Apache-2.0

package texts

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"weir/internal/core/bound"
	"weir/internal/core/policy"
)

// TestPut: with and without what is kept, the first time and later, a text says what Change.Put
// makes of it.
func TestPut(t *testing.T) {
	kept := &Kept{}
	for range 2 {
		for _, k := range []*Kept{nil, kept} {
			var got, want policy.Change
			for _, name := range policy.AllNames() {
				f := policy.FieldOf(name)
				for _, text := range []string{f.Example, "{{{", "none"} {
					err, wanted := k.Put(&got, name, text), want.Put(name, text)
					if fmt.Sprint(err) != fmt.Sprint(wanted) {
						t.Errorf("%s %q: %v, want %v", name, text, err, wanted)
					}
				}
			}
			if !reflect.DeepEqual(got.Texts(), want.Texts()) || len(got.Texts()) < 20 {
				t.Errorf("%v\nwant %v", got.Texts(), want.Texts())
			}
		}
	}
	if most := 3 * len(policy.AllNames()); kept.Parsed == 0 || kept.Parsed > most {
		t.Errorf("%d texts were parsed, %d are there", kept.Parsed, most)
	}
}

// TestKeptIsBounded: as many texts as there may be are kept, and no more.
func TestKeptIsBounded(t *testing.T) {
	kept, long := &Kept{}, strings.Repeat("x", 4000)
	for i := range 20000 {
		var c policy.Change
		_ = kept.Put(&c, "queues", fmt.Sprint(i, long))
		if n := len(kept.young) + len(kept.old); n > 2*mostTexts || kept.bytes > mostBytes || n*4000 > 2*mostBytes {
			t.Fatalf("%d texts are kept, of the young %d bytes", n, kept.bytes)
		}
	}
	var c policy.Change
	before := kept.Parsed
	_ = kept.Put(&c, "queues", fmt.Sprint(19999, long))
	if kept.Parsed != before {
		t.Error("a text that was read just now is parsed again")
	}
}

// TestLongLabelsAreKept: of 100 workloads that each have two labels of the largest size, nothing is
// parsed at the second pass.
func TestLongLabelsAreKept(t *testing.T) {
	kept := &Kept{}
	for pass := range 3 {
		for i := range 100 {
			var c policy.Change
			for _, field := range []string{"queues", "ingress.queues"} {
				_ = kept.Put(&c, field, fmt.Sprintf("%d%s", i, strings.Repeat(" ", bound.Label-4)))
			}
		}
		if kept.Parsed != 200 {
			t.Fatalf("%d texts are parsed after pass %d, 200 are there", kept.Parsed, pass+1)
		}
	}
}
