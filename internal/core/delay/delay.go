// SPDX-License-Identifier: Apache-2.0

// Package delay says how long packets waited in a queue: the histogram that the kernel side
// counts (bpf/core/delay.h) and what people ask of it.
//
// A bin is a range of delays: Unit wide up to 131 µs, from there on a 32nd of its octave, so a
// bin's middle is at most 1.6 % off. The last one has all that is longer than 2.1 s. Example:
// 5 ms are in bin 198, from 4.981 to 5.112 ms.
//
// It is pure. Not done here: which packets are counted. The kernel draws a part of them and
// counts each for all that it stands for, so a histogram counts packets, not samples.
package delay

import (
	"cmp"
	"fmt"
	"time"
)

// Bins is WEIR_DELAY_BINS in bpf/weir.h.
const Bins = 480

// Unit is the width of the shortest bins.
const Unit = 4096 * time.Nanosecond

const (
	perOctave = 32
)

// Histogram is how many packets waited for how long, by bins.
type Histogram [Bins]uint64

// Bounds returns the shortest delay of a bin, and the shortest that is longer than all of it.
func Bounds(bin int) (from, to time.Duration) {
	octave := max(0, bin/perOctave-1)
	units := bin - octave*perOctave
	return time.Duration(units<<octave) * Unit, time.Duration((units+1)<<octave) * Unit
}

// Count returns how many packets there are.
func (h *Histogram) Count() (n uint64) {
	for _, packets := range h {
		n += packets
	}
	return n
}

// Sum returns the delays of all packets together, each as the middle of its bin.
func (h *Histogram) Sum() (sum time.Duration) {
	for bin, packets := range h {
		from, to := Bounds(bin)
		sum += time.Duration(packets) * (from + to) / 2
	}
	return sum
}

// Quantile returns the delay that a part of the packets, 0 to 1, had at most; 0 of none.
func (h *Histogram) Quantile(part float64) time.Duration {
	rank := part * float64(h.Count())
	if rank == 0 {
		return 0
	}
	for bin, packets := range h {
		if n := float64(packets); n > 0 && rank <= n {
			from, to := Bounds(bin)
			return from + time.Duration(rank/n*float64(to-from))
		} else {
			rank -= n
		}
	}
	return h.Most()
}

// Most returns a delay that no packet exceeded, at most a bin above the longest; 0 of none.
func (h *Histogram) Most() time.Duration {
	for bin := Bins - 1; bin >= 0; bin-- {
		if h[bin] > 0 {
			_, to := Bounds(bin)
			return to
		}
	}
	return 0
}

// Within returns how many packets waited for at most a time; of the bin that it cuts, as large
// a part as it has of it.
func (h *Histogram) Within(most time.Duration) uint64 {
	var n float64
	for bin, packets := range h {
		from, to := Bounds(bin)
		switch {
		case to <= most:
			n += float64(packets)
		case from < most:
			n += float64(packets) * float64(most-from) / float64(to-from)
		}
	}
	return uint64(n + 0.5)
}

// Plus returns the packets of both; one that is nil has none, and nil is the sum of two such.
func (h *Histogram) Plus(other *Histogram) *Histogram {
	if h == nil || other == nil {
		return cmp.Or(h, other)
	}
	sum := *h
	for bin := range sum {
		sum[bin] += other[bin]
	}
	return &sum
}

// Since returns what has been counted since an earlier state of the same histogram, whose
// counts are of 32 bits and may have wrapped since; all of h if before is nil, or if h was
// begun anew: then a count has gone back by less than half of what wraps.
func (h *Histogram) Since(before *Histogram) *Histogram {
	if h == nil || before == nil {
		return h
	}
	var d Histogram
	for bin := range h {
		d[bin] = uint64(uint32(h[bin] - before[bin]))
		if d[bin] >= 1<<31 {
			return h
		}
	}
	return &d
}

// MsText returns milliseconds as text with two digits or more: "0.012 ms", "1.2 ms", "47 ms".
func MsText(ms float64) string {
	switch {
	case ms >= 9.95:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 0.995:
		return fmt.Sprintf("%.1f ms", ms)
	case ms >= 0.0995:
		return fmt.Sprintf("%.2f ms", ms)
	}
	return fmt.Sprintf("%.3f ms", ms)
}
