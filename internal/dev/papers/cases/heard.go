// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"math"
	"time"

	"weir/internal/lab/report"
)

// MeanJitter is a flow's jitter on average over the cases in which it sends, in ms, and in how
// many of these it arrived so that there is a jitter.
type MeanJitter struct {
	Mean        float64
	Cases, With int
}

// Hear returns that of a flow that begins at start, in cases that end at those times.
func Hear(phases [][]report.Workload, ends []time.Duration, flow int, start time.Duration) *MeanJitter {
	h := &MeanJitter{}
	for n, list := range phases {
		if start >= ends[n] {
			continue
		}
		h.Cases++
		if v := list[flow].JitterMs; v != nil && !math.IsNaN(*v) {
			h.Mean += *v
			h.With++
		}
	}
	if h.With > 0 {
		h.Mean /= float64(h.With)
	}
	return h
}

// Text is the mean, or why there is none: a flow that is starved in one of its cases has
// no average over its cases.
func (h *MeanJitter) Text() string {
	switch {
	case h == nil:
		return "-"
	case h.With < h.Cases:
		return fmt.Sprintf("none in %d of %d cases", h.Cases-h.With, h.Cases)
	}
	return fmt.Sprintf("%.3f ms", h.Mean)
}
