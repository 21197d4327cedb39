// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"sort"
	"time"

	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
)

// sample holds the bytes that had arrived of each workload at an instant, wire bytes.
type sample struct {
	at    time.Duration
	bytes []uint64
}

// series are samples in the order of time.
type series []sample

// bytesAt returns the bytes of workload w that had arrived at an instant, on a straight
// line between the samples around it.
func (s series) bytesAt(w int, at time.Duration) float64 {
	i := sort.Search(len(s), func(i int) bool { return s[i].at >= at })
	switch {
	case len(s) == 0:
		return 0
	case i == 0:
		return float64(s[0].bytes[w])
	case i == len(s):
		return float64(s[i-1].bytes[w])
	}
	before, after := s[i-1], s[i]
	part := float64(at-before.at) / float64(after.at-before.at)
	return float64(before.bytes[w]) + part*float64(after.bytes[w]-before.bytes[w])
}

// rate of workload w in a window, in bits per second.
func (s series) rate(w int, from, to time.Duration) float64 {
	if to <= from {
		return 0
	}
	return (s.bytesAt(w, to) - s.bytesAt(w, from)) * 8 / (to - from).Seconds()
}

// since moves the beginning of time to an instant.
func (s series) since(zero time.Duration) series {
	moved := make(series, len(s))
	for i, x := range s {
		moved[i] = sample{x.at - zero, x.bytes}
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
