// SPDX-License-Identifier: Apache-2.0

package gap

import (
	"encoding/json"
	"testing"

	"weir/internal/core/policy"
)

// The API's names for settings that are not held.
func TestGapView(t *testing.T) {
	text, err := json.Marshal(Gap{Link: "eth0 ingress", Device: "eth0", Direction: policy.Ingress, Field: "ingress.aqm", Value: "off", Reason: "r"}.View())
	const want = `{"device":"eth0","direction":"ingress","field":"ingress.aqm","value":"off","reason":"r","accepted":false}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}
