// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"math"

	"weir/internal/dev/charts"
	"weir/internal/lab/report"
)

// Number is one of a workload in a case; nil is none.
type Number func(w report.Workload) *float64

// Rate is a workload's rate on the wire in Mbit/s; none of one that is to have nothing.
func Rate(w report.Workload) *float64 {
	if w.IdealBps == 0 {
		return nil
	}
	v := w.RateBps / 1e6
	return &v
}

// Jitter is a workload's jitter in ms.
func Jitter(w report.Workload) *float64 { return w.JitterMs }

// Loss is the part of a workload's datagrams that were lost, in percent.
func Loss(w report.Workload) *float64 {
	if w.Loss == nil {
		return nil
	}
	v := *w.Loss * 100
	return &v
}

// Bars draws a group for each case, with a bar for each workload. low above 0 makes the scale
// logarithmic, from there.
func Bars(title, unit string, phases [][]report.Workload, of Number, low float64) []byte {
	b := charts.Bars{Title: title, Unit: unit, Across: "case", Low: low, Log: low > 0}
	for _, w := range phases[0] {
		b.Kinds = append(b.Kinds, w.Workload)
	}
	for p, list := range phases {
		b.Groups = append(b.Groups, fmt.Sprint(p+1))
		var values []float64
		for _, w := range list {
			values = append(values, orNone(of(w)))
		}
		b.Values = append(b.Values, values)
	}
	return b.SVG()
}

// Compared draws a group for each case, with a bar for each run.
func Compared(title, unit, across string, names []string, runs [][]report.Link, of func(report.Link) *float64) []byte {
	b := charts.Bars{Title: title, Unit: unit, Across: across, Kinds: names}
	for p := range runs[0] {
		b.Groups = append(b.Groups, fmt.Sprint(p+1))
		var values []float64
		for _, links := range runs {
			values = append(values, orNone(of(links[p])))
		}
		b.Values = append(b.Values, values)
	}
	return b.SVG()
}

// CPU is the host's CPU time in percent.
func CPU(l report.Link) *float64 {
	if l.CPU == nil {
		return nil
	}
	v := *l.CPU * 100
	return &v
}

// Aggregate is what the link carries in Mbit/s.
func Aggregate(l report.Link) *float64 {
	v := l.RateBps / 1e6
	return &v
}

func orNone(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}
