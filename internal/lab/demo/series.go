// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"sort"
	"time"

	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
)

// sample is what had happened by an instant.
type sample struct {
	at     time.Duration
	bytes  []uint64      // that had arrived of each workload, wire bytes
	waited time.Duration // for which some process of the machine had waited for a CPU
}

// series are samples in the order of time.
type series []sample

// reads returns what a count had come to at an instant, on a straight line between the
// samples around it.
func (s series) reads(at time.Duration, count func(sample) float64) float64 {
	i := sort.Search(len(s), func(i int) bool { return s[i].at >= at })
	switch {
	case len(s) == 0:
		return 0
	case i == 0:
		return count(s[0])
	case i == len(s):
		return count(s[i-1])
	}
	before, after := s[i-1], s[i]
	part := float64(at-before.at) / float64(after.at-before.at)
	return count(before) + part*(count(after)-count(before))
}

// growth returns by how much a count grew in a window, in a second; 0 in an empty window.
func (s series) growth(from, to time.Duration, count func(sample) float64) float64 {
	if to <= from {
		return 0
	}
	return (s.reads(to, count) - s.reads(from, count)) / (to - from).Seconds()
}

// rate of workload w in a window, in bits per second.
func (s series) rate(w int, from, to time.Duration) float64 {
	return 8 * s.growth(from, to, func(x sample) float64 { return float64(x.bytes[w]) })
}

// waited returns the part of a window in which some process of the machine waited for a
// CPU, 0 to 1; 0 too where the kernel does not count it.
func (s series) waited(from, to time.Duration) float64 {
	return s.growth(from, to, func(x sample) float64 { return x.waited.Seconds() })
}

// since moves the beginning of time to an instant.
func (s series) since(zero time.Duration) series {
	moved := make(series, len(s))
	for i, x := range s {
		moved[i] = x
		moved[i].at -= zero
	}
	return moved
}

// smooth is the time over which a point of the plot is averaged.
const smooth = 400 * time.Millisecond

// rates returns the points of a plot, one in each report.Step. No average reaches from
// one span into another, or a change would show before it was made.
func (s series) rates(workloads int, spans []scenario.Span) [][]float64 {
	rows := make([][]float64, workloads)
	for w := range rows {
		for _, span := range spans {
			for at := span.From + report.Step/2; at < span.To; at += report.Step {
				rows[w] = append(rows[w], s.rate(w, max(span.From, at-smooth/2), min(span.To, at+smooth/2)))
			}
		}
	}
	return rows
}
