// SPDX-License-Identifier: Apache-2.0

package algorithm1

import (
	"math"
	"testing"

	"weir/internal/lab/scenario"
)

func TestRates(t *testing.T) {
	for _, c := range []struct {
		name string
		list []scenario.Policy
		want []float64
	}{
		{"weights", []scenario.Policy{{Weight: 1}, {Weight: 2}, {Weight: 3}}, []float64{100. / 6, 200. / 6, 50}},
		{"max first", []scenario.Policy{{Weight: 1, Max: 10 * m}, {Weight: 1}, {Weight: 1}}, []float64{10, 45, 45}},
		{"max second, those behind it gain more", []scenario.Policy{{Weight: 1}, {Weight: 1, Max: 10 * m}, {Weight: 1}}, []float64{40, 10, 50}},
		{"max last", []scenario.Policy{{Weight: 1}, {Weight: 1}, {Weight: 1, Max: 10 * m}}, []float64{45, 45, 10}},
		{"min first", []scenario.Policy{{Weight: 1, Min: 50 * m}, {Weight: 1}, {Weight: 1}}, []float64{50, 25, 25}},
		{"all have a max that does not fill the link", []scenario.Policy{{Weight: 1, Max: 10 * m}, {Weight: 1, Max: 20 * m}}, []float64{10, 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, got := range Rates(100*m, c.list) {
				if math.Abs(got/m-c.want[i]) > 1e-6 {
					t.Errorf("workload %d: %.6f Mbit/s, want %.6f", i+1, got/m, c.want[i])
				}
			}
		})
	}
}
