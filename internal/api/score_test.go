// SPDX-License-Identifier: Apache-2.0

package api

import "testing"

func TestRoundedDown(t *testing.T) {
	for part, want := range map[float64]string{1: "100.0 %", 0.99999: "99.9 %", 57.0 / 60: "95.0 %", 0.29: "29.0 %", 0: "0.0 %"} {
		if got := RoundedDown(part); got != want {
			t.Errorf("%v is %q, want %q", part, got, want)
		}
	}
}
