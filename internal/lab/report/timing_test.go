// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"testing"

	"weir/internal/lab/meter"
)

func TestTimingOf(t *testing.T) {
	var stamps []meter.Stamp
	for i := range uint64(1050) {
		at := 5_000_000 + 1_000_000*i
		if i%100 == 60 {
			at += 30_000 // one in a hundred is late, and does not make the next one late
		}
		stamps = append(stamps, meter.Stamp{At: at + 700, Due: 5_000_000 + 1_000_000*i})
	}
	r := TimingOf(stamps, 1e6)
	if r.Packets != 1000 || r.LateFrom != TimerKnown || r.LateP50 != 0.7 || r.LateMax != 30.7 || r.GapP50 != 0 || r.GapP99 != 30 || math.Abs(r.RateError) > 1e-9 {
		t.Errorf("%+v", r)
	}
	stamps[999].Due = 0
	if r := TimingOf(stamps, 1e6); r.LateFrom != ByArrival || r.LateP50 != 0 || r.LateMax != 30 {
		t.Errorf("one without a timer: %+v", r)
	}
	if r := TimingOf(stamps[:20], 1e6); r.Packets != 0 {
		t.Errorf("too few: %+v", r)
	}
}
