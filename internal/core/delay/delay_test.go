// SPDX-License-Identifier: Apache-2.0

package delay

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// binOf returns the bin that has a delay.
func binOf(d time.Duration) int {
	for bin := range Bins - 1 {
		if _, to := Bounds(bin); d < to {
			return bin
		}
	}
	return Bins - 1
}

func TestBoundsJoin(t *testing.T) {
	var last time.Duration
	for bin := range Bins {
		from, to := Bounds(bin)
		if from != last || to <= from {
			t.Fatalf("bin %d is from %v to %v, the one before ends at %v", bin, from, to, last)
		}
		if width := to - from; width > Unit && float64(width) > float64(from)/31.9 {
			t.Errorf("bin %d from %v is %v wide", bin, from, width)
		}
		last = to
	}
	if last < 2*time.Second {
		t.Errorf("the last bin ends at %v", last)
	}
	if from, to := Bounds(198); binOf(5*time.Millisecond) != 198 || from.Microseconds() != 4980 || to.Microseconds() != 5111 {
		t.Errorf("5 ms are in bin %d; 198 is from %v to %v", binOf(5*time.Millisecond), from, to)
	}
}

// Of random delays the quantiles are right within 2 %.
func TestQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h Histogram
	var all []time.Duration
	for range 100000 {
		d := time.Duration(math.Exp(r.NormFloat64()*2) * float64(3*time.Millisecond))
		if d > 2*time.Second {
			continue
		}
		h[binOf(d)]++
		all = append(all, d)
	}
	slices.Sort(all)
	for _, part := range []float64{0.01, 0.5, 0.9, 0.99, 0.999} {
		want, got := all[int(part*float64(len(all)))], h.Quantile(part)
		if math.Abs(float64(got-want)) > 0.02*float64(want) {
			t.Errorf("p%v is %v, want %v", 100*part, got, want)
		}
		if n := h.Within(want); math.Abs(float64(n)-part*float64(len(all))) > 0.002*float64(len(all)) {
			t.Errorf("%d packets within %v, want %.0f", n, want, part*float64(len(all)))
		}
	}
	if longest := all[len(all)-1]; h.Most() < longest || float64(h.Most()) > 1.04*float64(longest) {
		t.Errorf("the most is %v, of %v", h.Most(), longest)
	}
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	if math.Abs(float64(h.Sum()-sum)) > 0.01*float64(sum) || h.Count() != uint64(len(all)) {
		t.Errorf("sum %v, want %v; count %d", h.Sum(), sum, h.Count())
	}
}

func TestNothingWaited(t *testing.T) {
	var h Histogram
	if h.Quantile(0.99) != 0 || h.Most() != 0 || h.Count() != 0 || h.Within(time.Second) != 0 {
		t.Errorf("of no packet: p99 %v, most %v", h.Quantile(0.99), h.Most())
	}
}

func TestSince(t *testing.T) {
	var before, now Histogram
	before[3], now[3], now[7] = 2, 5, 1
	before[9], now[9] = 1<<32-10, 5 // the kernel counts in 32 bits
	if d := now.Since(&before); d[3] != 3 || d[7] != 1 || d[9] != 15 || d.Count() != 19 {
		t.Errorf("%v", d)
	}
	if d := now.Since(nil); *d != now {
		t.Errorf("since nothing: %v", d)
	}
	if d := before.Since(&now); *d != before {
		t.Errorf("begun anew: %v", d)
	}
	var none *Histogram
	if sum := now.Plus(&before); sum[3] != 7 || now[3] != 5 {
		t.Errorf("the sum has %d", sum[3])
	}
	if none.Plus(nil) != nil || *none.Plus(&now) != now || *now.Plus(nil) != now || none.Since(&now) != nil {
		t.Error("what was not measured counts")
	}
}
