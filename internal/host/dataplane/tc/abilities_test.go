// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"testing"

	"weir/internal/core/policy/discipline"
)

// What HTB lacks with each leaf qdisc, and what that holds of disciplines and AQM.
func TestAbilities(t *testing.T) {
	for leaf, want := range map[string]struct {
		discipline discipline.Name
		aqm        string
	}{"fq_codel": {discipline.SFQ, "5ms/100ms ecn"}, "sfq": {discipline.SFQ, "off"}, "pfifo": {discipline.FIFO, "off"}} {
		a := abilitiesOf(leaf)
		if !a.NoGroups || !a.OneQueue || a.Discipline != want.discipline || a.AQM.Compact() != want.aqm ||
			a.Scheduler != "htb" || !a.NoNegativeOverhead || !a.NoByteLimit {
			t.Errorf("%s: %+v", leaf, a)
		}
	}
}
