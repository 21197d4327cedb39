// SPDX-License-Identifier: Apache-2.0

package usage

import "testing"

// TestLaterOfIngress: times of an ingress are told apart from the workload's own, and what
// is equal in both is no change.
func TestLaterOfIngress(t *testing.T) {
	const when = "daily 12:00-13:00 UTC max 5mbit"
	got := Later("web", map[string]any{"ingress": map[string]any{"quota": "x"}, "max": "1mbit"},
		map[string]any{"ingress": map[string]any{"quota": "x", "when": when}, "max": "2mbit"}, "asked")
	if len(got) != 1 || got[0].What != "web (ingress): when none -> "+when || got[0].Why != "asked" {
		t.Errorf("%+v", got)
	}
}
