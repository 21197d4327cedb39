// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"weir/internal/core/delay"
	"weir/internal/core/plan"
	"weir/internal/core/policy/discipline"
)

// exactly returns the delay that a part of the packets had at most, of all of them.
func exactly(waits []time.Duration, part float64) time.Duration {
	slices.Sort(waits)
	return waits[min(int(part*float64(len(waits))), len(waits)-1)]
}

// TestDelaysAreRight: what the kernel side counts of delays is what packets waited, within 5 % at
// p50 and p99, in each discipline and for quiet and busy classes, and it counts as many packets as
// left.
func TestDelaysAreRight(t *testing.T) {
	web, batch, calm := port(discipline.SFQ), port(discipline.FIFO), port(discipline.SFQ)
	web.ID, batch.ID, calm.ID = 1, 2, 3
	queued := port(discipline.CBWFQ, weighted(1, 3)...)
	queued.ID = 4
	classes := []plan.Class{web, batch, calm, queued}
	const over = 60 * time.Second
	s := simulate(fairLink(100e6), classes...)
	for i, window := range []int{3, 40, 90} {
		s.send(traffic{id: web.ID, flow: i, length: frames, window: window, delay: 3 * time.Millisecond})
	}
	s.send(traffic{id: batch.ID, length: 700, window: 300, delay: 200 * time.Microsecond})
	s.send(traffic{id: calm.ID, length: 98, interval: 7300 * time.Microsecond})
	for q := range 2 {
		s.send(traffic{id: queued.ID, flow: q, length: frames, window: 50, delay: time.Millisecond})
	}
	s.trace(1)
	s.run(over)
	keys := map[string]uint32{"web": 1, "batch": 2, "calm": 3, "queued": 4,
		"queue 0": delayKey(queued.ID, 0), "queue 1": delayKey(queued.ID, 1)}
	for _, key := range keys {
		s.askDelays(key)
	}
	got := s.result(t)[0]
	waits := map[string][]time.Duration{}
	for name, class := range map[string]plan.Class{"web": web, "batch": batch, "calm": calm, "queued": queued} {
		for _, d := range got.left[class.ID] {
			waits[name] = append(waits[name], d.at-d.born)
			if name == "queued" {
				waits["queue "+fmt.Sprint(d.flow)] = append(waits["queue "+fmt.Sprint(d.flow)], d.at-d.born)
			}
		}
	}
	for name, key := range keys {
		h, exact := got.delays[key], waits[name]
		if len(exact) == 0 || h == nil {
			t.Errorf("%s: %d packets left, counted is %v", name, len(exact), h)
			continue
		}
		for _, part := range []float64{0.5, 0.99} {
			want, has := exactly(exact, part), h.Quantile(part)
			if diff := math.Abs(float64(has - want)); diff > 0.05*float64(want) && diff > float64(delay.Unit) {
				t.Errorf("%s: p%v is %v, exactly %v", name, 100*part, has, want)
			}
			t.Logf("%s: p%v is %v, exactly %v, of %d packets", name, 100*part, has, want, len(exact))
		}
		// A class's runs are exact; which queue the drawn packet of a run is from is
		// chance.
		margin := 256.0
		if key >= plan.MaxClasses {
			margin = 0.05 * float64(len(exact))
		}
		if n := h.Count(); math.Abs(float64(n)-float64(len(exact))) > margin {
			t.Errorf("%s: %d packets are counted, %d left", name, n, len(exact))
		}
		if most, longest := h.Most(), slices.Max(exact); most > longest*103/100+delay.Unit {
			t.Errorf("%s: the most is %v, and the longest %v", name, most, longest)
		}
	}
}

// askDelays has the simulator print a histogram.
func (s *simulation) askDelays(key uint32) { fmt.Fprintln(s, "delays", key) }
