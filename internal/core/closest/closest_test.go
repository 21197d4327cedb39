// SPDX-License-Identifier: Apache-2.0

package closest

import (
	"reflect"
	"testing"
)

func TestWords(t *testing.T) {
	known := []string{"egress", "reservable", "scheduler", "web", "web-1"}
	for word, want := range map[string][]string{
		"egres":    {"egress"},
		"EGRESS":   {"egress"},
		"wbe":      {"web"},
		"we":       {"web", "web-1"},
		"shedular": {"scheduler"},
		"nothing":  {},
		"":         {},
	} {
		if got := Words(word, known, 2); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}
