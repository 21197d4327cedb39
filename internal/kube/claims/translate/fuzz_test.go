// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"encoding/json"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	many := func(text string) string { return strings.Repeat(text+",", 4000) + text }
	f.Add([]byte(`{"spec":{"devices":{"requests":[` + many(`{"name":"b","firstAvailable":[{"name":"b"}]}`) +
		`]}},"status":{"allocation":{"devices":{"results":[` + many(`{"request":"a","driver":"weir.dev","pool":"n1","device":"eth0"}`) + `]}}}}`))
	boundtest.Seeds[[]byte](f, bound.Claim, `{"spec":{"devices":{"config":[{"opaque":{"parameters":`, `{"status":{"devices":[{"data":`, `{"status":{"allocation":{"devices":{"results":[{"consumedCapacity":{"egress":"`)
	f.Fuzz(func(t *testing.T, text []byte) {
		boundtest.Hold(t, func() {
			var claim resourceapi.ResourceClaim
			if json.Unmarshal(text, &claim) != nil {
				return
			}
			asked, err := Ask(&claim, "n1", fourLinks)
			if err == nil && len(asked.Pods) > len(text) {
				t.Errorf("%d pods", len(asked.Pods))
			}
			_ = Status(asked, Heard{}, claim.Status.Devices, metav1.Time{})
			_ = Shareable(&claim)
			_, _ = Merge(claim.Status.Devices, claim.Status.Devices, "n1")
		})
	})
}
