// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"

	"weir/internal/core/policy"
)

func TestThrottle(t *testing.T) {
	s := State{Classes: []Class{
		{ID: 0}, {ID: 1, Min: 20e6}, {ID: 2, Max: 3e6}, {ID: 3, Group: true, Min: 30e6},
		{ID: 4, Parent: 3, Min: 10e6}, {ID: 5, Parent: 3, Min: 20e6}, {ID: 6, Parent: 3},
	}}
	before := slices.Clone(s.Classes)
	got := Throttle(s, map[ClassID]policy.Rate{1: 5e6, 2: 5e6, 3: 15e6})
	want := []Class{
		{ID: 0}, {ID: 1, Min: 5e6, Max: 5e6}, {ID: 2, Max: 3e6}, {ID: 3, Group: true, Min: 15e6, Max: 15e6},
		{ID: 4, Parent: 3, Min: 5e6}, {ID: 5, Parent: 3, Min: 10e6}, {ID: 6, Parent: 3},
	}
	for i, c := range got.Classes {
		if c.Min != want[i].Min || c.Max != want[i].Max {
			t.Errorf("class %d has min %v, max %v; want %v, %v", c.ID, c.Min, c.Max, want[i].Min, want[i].Max)
		}
		if s.Classes[i].Min != before[i].Min || s.Classes[i].Max != before[i].Max {
			t.Errorf("class %d of the plan itself was changed", c.ID)
		}
	}
}
