// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"strings"
	"testing"

	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// FuzzPrefixes: a file of prefixes costs what one input may, and no zone gets more than it may
// have.
func FuzzPrefixes(f *testing.F) {
	f.Add("192.0.2.0/24 # office\n2001:db8::/32\n")
	f.Add(strings.Repeat("10.0.0.0/8\n", bound.Prefixes/11))
	boundtest.Seeds[string](f, bound.Prefixes, "10.0.0.0/8\n", "2001:db8::/")
	f.Fuzz(func(t *testing.T, text string) {
		boundtest.Hold(t, func() {
			var p Prefixes
			if p.AddFile(text) == nil && len(p.List) > MostPrefixes {
				t.Errorf("%d prefixes", len(p.List))
			}
		})
	})
}
