// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"testing"

	"weir/internal/policy"
)

// What each leaf qdisc holds of disciplines and AQM.
func TestAbilities(t *testing.T) {
	for leaf, want := range map[string]struct {
		discipline policy.Discipline
		aqm        string
	}{"fq_codel": {policy.SFQ, "5ms/100ms"}, "sfq": {policy.SFQ, "off"}, "pfifo": {policy.FIFO, "off"}} {
		a := abilitiesOf(leaf)
		if !a.NoGroups || !a.OneQueue || a.Discipline != want.discipline || a.AQM.Compact() != want.aqm {
			t.Errorf("%s: %+v", leaf, a)
		}
	}
}
