// SPDX-License-Identifier: Apache-2.0

package warrant

import (
	"testing"

	"weir/internal/core/bound"
	"weir/internal/core/wire"
	"weir/internal/test/boundtest"
)

// FuzzProposal: a description that was granted by its digest alone costs what one may.
func FuzzProposal(f *testing.F) {
	f.Add([]byte(`{"order":{"move":"m","from":"a","to":"b","container":{"name":"web","config":{"a":[1]}}},"settings":{"weight":3}}`))
	boundtest.Seeds[[]byte](f, bound.Description, `{"settings":`, `{"order":{"container":{"config":`, `{"order":{"container":{"volumes":[`)
	f.Fuzz(func(t *testing.T, text []byte) {
		boundtest.Hold(t, func() {
			g := wire.Grant{From: "a", To: "b"}
			g.Digest = Digest(text)
			if p, err := ReadProposal(text, g); err == nil && p.Order.From != "a" {
				t.Errorf("from %q", p.Order.From)
			}
		})
	})
}
