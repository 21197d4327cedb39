// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"math"
	"testing"

	"weir/internal/core/control"
)

// TestLagSettlesWhatIsRefused: the paper's two sets of figure 8(b), which weir refuses since no
// loop with them is stable on a network that answers within the second, settle on one with a lag.
func TestLagSettlesWhatIsRefused(t *testing.T) {
	for _, s := range sets[3:] {
		if s.gains.CheckStable() == nil {
			t.Errorf("%s: not refused", s.gains)
		}
		if r := (Case{Gains: s.gains}).Response(); !math.IsNaN(r.Settle) || r.Overshoot < 1 {
			t.Errorf("%s, no lag: settles after %g s, overshoot %.2f", s.gains, r.Settle, r.Overshoot)
		}
		for _, lag := range []float64{0.2, 0.5, 1} {
			if r := (Case{Gains: s.gains, Lag: lag}).Response(); !(r.Settle <= 20) || r.Overshoot > 0.01 {
				t.Errorf("%s, lag %g s: settles after %g s, overshoot %.3f", s.gains, lag, r.Settle, r.Overshoot)
			}
		}
	}
	if r := (Case{Gains: sets[3].gains, Lag: forty}).Response(); r.Settle != 40 {
		t.Errorf("lag %g s: settles after %g s, the paper's figure after 40", forty, r.Settle)
	}
}

// TestPrintedLawHoldsNoRate: the interval only grows while a flow is short of its reservation.
func TestPrintedLawHoldsNoRate(t *testing.T) {
	for _, s := range sets {
		cold := Case{Gains: s.gains, Summed: true}.Goodput()
		if last := cold[len(cold)-1]; last > 0.02*target {
			t.Errorf("%s: from next to nothing to %.1f Mbit/s", s.gains, last/1e6)
		}
		warm := Case{Gains: s.gains, Summed: true, Warm: true}.Goodput()
		if last := warm[len(warm)-1]; last > 0.9*target {
			t.Errorf("%s: from the target to %.1f Mbit/s", s.gains, last/1e6)
		}
		for i := 3; i < len(warm); i++ {
			if warm[i] > warm[i-1]*1.0001 {
				t.Errorf("%s: faster in second %d", s.gains, i)
				break
			}
		}
	}
	if r := (Case{Gains: control.Default}).Response(); !(r.Settle <= 10) {
		t.Errorf("Weir's law with the default gains settles after %g s", r.Settle)
	}
}
