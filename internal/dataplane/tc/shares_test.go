// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"testing"
	"time"

	"weir/internal/plan"
)

// The tolerances are of a link of 100 Mbit/s on a machine that does other things
// at the same time; what was measured is in the test's log.

func TestSharesHold(t *testing.T) {
	for _, tt := range []struct {
		name    string
		classes []plan.Class
	}{
		{"weights 1 2 3", []plan.Class{{Weight: 1}, {Weight: 2}, {Weight: 3}}},
		{"mins 30 20 15 15, weights 1 to 5", []plan.Class{
			{Weight: 1, Min: 30 * mbit}, {Weight: 2, Min: 20 * mbit}, {Weight: 3, Min: 15 * mbit},
			{Weight: 4, Min: 15 * mbit}, {Weight: 5},
		}},
		{"maxes", []plan.Class{{Weight: 1, Max: 10 * mbit}, {Weight: 2}, {Weight: 5, Max: 30 * mbit}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBed(t, len(tt.classes))
			backend := b.backend()
			s := b.state(tt.classes...)
			b.set(backend, s)
			b.run(backend)
			var active []plan.ClassID
			for i := range tt.classes {
				b.traffic(i + 1)
				active = append(active, plan.ClassID(i+1))
			}
			got := b.rates(backend, 1500*time.Millisecond, 5*time.Second)
			b.near(tt.name, got, ideal(s, active...), 1.5)
		})
	}
}
