// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"encoding/json"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// FuzzClaim: whatever a claim says, opaque parameters included, reading it costs what one input
// may.
func FuzzClaim(f *testing.F) {
	text, err := json.Marshal(claimOf([]string{"web-0"}, "eth0 egress=20M"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	boundtest.Seeds[[]byte](f, bound.Claim, `{"spec":{"devices":{"config":[{"opaque":{"parameters":`, `{"status":{"devices":[{"data":`, `{"status":{"allocation":{"devices":{"results":[{"consumedCapacity":{"egress":"`)
	f.Fuzz(func(t *testing.T, text []byte) {
		boundtest.Hold(t, func() {
			var claim resourceapi.ResourceClaim
			if json.Unmarshal(text, &claim) != nil {
				return
			}
			if asked, err := Ask(&claim, "n1", fourLinks); err == nil && len(asked.Pods) > len(text) {
				t.Errorf("%d pods", len(asked.Pods))
			}
			_ = Shareable(&claim)
			_, _ = Merge(claim.Status.Devices, claim.Status.Devices, "n1")
		})
	})
}
