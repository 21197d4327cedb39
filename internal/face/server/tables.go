// SPDX-License-Identifier: Apache-2.0

package server

import "slices"

// Metric describes a metric for those who show it, see package monitoring.
type Metric struct {
	Name, Help string
	Unit       string // in words, "" = none
	Counter    bool   // else a gauge
	Labels     []string
}

// Metrics returns the table of metrics.
func Metrics() []Metric {
	list := make([]Metric, len(metrics))
	for i, m := range metrics {
		list[i] = Metric{Name: m.name, Help: m.help, Unit: m.unit, Counter: m.kind == counter, Labels: slices.Clone(m.labels)}
	}
	for _, h := range histograms {
		list = append(list, Metric{Name: h.name + "_bucket", Help: h.help, Unit: h.unit, Counter: true, Labels: append(slices.Clone(h.labels), "le")})
	}
	return list
}
