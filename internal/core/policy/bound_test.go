// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// TestNestedIngressIsRefused: an ingress in an ingress is read once, not once for each level.
func TestNestedIngressIsRefused(t *testing.T) {
	levels := bound.Body / len(`{"ingress":}`)
	text := []byte(strings.Repeat(`{"ingress":`, levels) + "{}" + strings.Repeat("}", levels))
	for name, into := range map[string]any{"change": &Change{}, "policy": &Policy{}} {
		cost := boundtest.Measure(func() {
			if err := json.Unmarshal(text, into); err == nil || !strings.Contains(err.Error(), "levels, 16 are the most") {
				t.Errorf("%s: %v", name, err)
			}
		})
		if cost.Bytes > 8<<20 {
			t.Errorf("%s: %d MB allocated in %v", name, cost.Bytes>>20, cost.CPU)
		}
	}
}

// TestWorstTexts: no field costs more than one input may, whatever its text.
func TestWorstTexts(t *testing.T) {
	openings := map[string][]string{"queues": {"[", "{", "{a: {match: [", "{a: {match: [{udp: [", "- {name: a, match: "}, "when": {"[", "[{days: ", "mon 08:00-18:00 "}, "quota": {"{", "{egress: ", "egress "}, "zones": {"lan max "}}
	for _, name := range AllNames() {
		for _, opening := range append([]string{""}, openings[strings.TrimPrefix(name, ingressPrefix)]...) {
			for _, shape := range append(boundtest.Shapes(bound.Policy-len(opening)), zones()) {
				boundtest.Hold(t, func() {
					var c Change
					if c.Put(name, opening+shape) == nil {
						_ = c.Check()
					}
				})
				if t.Failed() {
					t.Fatalf("%s: %.60q", name, opening+shape)
				}
			}
		}
	}
}

// zones returns a text of as many zones as fit.
func zones() string {
	var text strings.Builder
	for i := 0; text.Len() < bound.Policy-20; i++ {
		fmt.Fprintf(&text, "z%d max 1k;", i)
	}
	return strings.TrimSuffix(text.String(), ";")
}

// TestManyUnknownNames: names that are not known cost no more than one input may, and of the fields
// that are known each fault is noted beside any number of them.
func TestManyUnknownNames(t *testing.T) {
	var names strings.Builder
	for i := 0; names.Len() < bound.Body-200; i++ {
		fmt.Fprintf(&names, `,"%x":1`, i)
	}
	text := `{"weight":0,"zones":"?"` + names.String() + "}"
	cost := boundtest.Measure(func() {
		var c Change
		if err := json.Unmarshal([]byte(text), &c); err != nil || c.Check() == nil {
			t.Errorf("%v, %v", err, c.Check())
		}
		if c = c.Known(); len(c.Texts()) != 2 || !strings.Contains(fmt.Sprint(c.Readable()), "weight") {
			t.Errorf("known: %v, %v", c.Texts(), c.Readable())
		}
	})
	if cost.Bytes > 32<<20 {
		t.Errorf("%d MB allocated in %v", cost.Bytes>>20, cost.CPU)
	}
}
