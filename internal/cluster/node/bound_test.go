// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"weir/internal/core/bound"
	"weir/internal/core/policy"
	"weir/internal/core/wire"
	"weir/internal/test/boundtest"
)

// TestDrawnSettings: 10,000 policies drawn at random that come with a moved container. Reading
// one costs what one input may.
func TestDrawnSettings(t *testing.T) {
	r := rand.New(rand.NewPCG(44, 3))
	names := append(policy.AllNames(), "ingress", "reserve_queue")
	for i := range 10000 {
		text := []byte(boundtest.Draw(r, bound.Body))
		if i%3 > 0 {
			var err error
			if text, err = json.Marshal(map[string]string{names[r.IntN(len(names))]: boundtest.Draw(r, bound.Body/4), "weight": "3"}); err != nil {
				t.Fatal(err)
			}
		}
		boundtest.Hold(t, func() { _, _ = readChange(wire.ChangeJSON(text)) })
		if t.Failed() {
			t.Fatalf("%.300q", text)
		}
	}
}
