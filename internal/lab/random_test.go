// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"testing"

	"weir/internal/lab/scenario"
)

// Every seed must give a scenario that the parser admits: mins that fit, no min
// above its max, in both phases.
func TestRandomIsValidAndRepeats(t *testing.T) {
	for n := range uint64(4000) {
		seed, groups := n/2, n%2 == 1
		data := Random(seed, groups)
		if _, err := scenario.Parse("random.yaml", data); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, data)
		}
		if !bytes.Equal(data, Random(seed, groups)) {
			t.Fatalf("seed %d gives two scenarios", seed)
		}
	}
}
