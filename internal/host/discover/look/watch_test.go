// SPDX-License-Identifier: Apache-2.0

package look

import "testing"

// Quiet workloads are each looked into within two looks where there are up to 25, and never more
// than sixteen of them, nor fewer than four, at a look.
func TestQuietAtOnce(t *testing.T) {
	for n := range 1000 {
		at := quietAtOnce(n)
		if at < 4 || at > 16 || n <= 25 && (n+at-1)/at > 2 {
			t.Errorf("%d workloads: %d at a look", n, at)
		}
	}
	if at := quietAtOnce(100); at != 4 {
		t.Errorf("100 workloads: %d at a look, want 4", at)
	}
}
