// SPDX-License-Identifier: Apache-2.0

package flowchart

import (
	"math"
	"testing"

	"weir/internal/lab/scenario"
)

// TestRates has the cases of docs/decisions/0011-ancs-from-prose.md.
func TestRates(t *testing.T) {
	weights := func(change func(list []scenario.Policy)) []scenario.Policy {
		list := []scenario.Policy{{Weight: 1}, {Weight: 2}, {Weight: 3}, {Weight: 4}, {Weight: 5}}
		change(list)
		return list
	}
	equal := []scenario.Policy{{Weight: 1}, {Weight: 1}, {Weight: 1}}
	for _, c := range []struct {
		name string
		list []scenario.Policy
		idle int // -1: none
		want []float64
	}{
		{"weights", weights(func([]scenario.Policy) {}), -1, []float64{6.67, 13.33, 20, 26.67, 33.33}},
		{"a max for the last", weights(func(l []scenario.Policy) { l[4].Max = 15 }), -1, []float64{6.67, 13.33, 20, 26.67, 15}},
		{"and a min for the first", weights(func(l []scenario.Policy) { l[4].Max, l[0].Min = 15, 20 }), -1, []float64{20, 13.33, 20, 26.67, 15}},
		{"a max for the second of three", []scenario.Policy{{Weight: 1}, {Weight: 1, Max: 10}, {Weight: 1}}, -1, []float64{33.33, 10, 41.11}},
		{"the second of two is idle", []scenario.Policy{{Weight: 1}, {Weight: 5}}, 1, []float64{16.67, 0}},
		{"the last of three is idle", equal, 2, []float64{33.33, 33.33, 0}},
	} {
		got := Rates(100, c.list, func(i int) bool { return i == c.idle })
		for i := range c.want {
			if math.Abs(got[i]-c.want[i]) > 0.1 {
				t.Errorf("%s: interface %d: %.2f, want %.2f", c.name, i+1, got[i], c.want[i])
			}
		}
	}
}

// TestCardIsNotOverrun: credits beyond the link are cut by the card, and the sum is the link.
func TestCardIsNotOverrun(t *testing.T) {
	list := []scenario.Policy{{Weight: 1, Min: 20}, {Weight: 2}, {Weight: 3}, {Weight: 4}, {Weight: 5}}
	var all float64
	for _, r := range Rates(100, list, func(int) bool { return false }) {
		all += r
	}
	if math.Abs(all-100) > 0.1 {
		t.Errorf("%.2f of 100", all)
	}
	if got := card(10, []float64{1, 20, 20}); math.Abs(got[0]-1) > 1e-9 || math.Abs(got[1]-4.5) > 1e-9 || math.Abs(got[2]-4.5) > 1e-9 {
		t.Errorf("%v, want 1, 4.5 and 4.5", got)
	}
}
