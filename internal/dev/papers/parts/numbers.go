// SPDX-License-Identifier: Apache-2.0

package parts

import (
	"fmt"
	"strings"
	"text/template"

	"weir/internal/dev/figures"
	"weir/internal/lab/report"
)

// Unmeasured stands where a run that a part quotes is not there.
const Unmeasured = "not measured"

// Text returns what Weir has of a part, with the numbers of the runs. The template's functions
// take a run, a phase and a workload:
//
//	rate, goodput  Mbit/s
//	p50, p99       of a ping, ms
//	jitter, loss   of datagrams: ms, percent
//	cpu, full      percent, of a phase: CPU time of the host, utilisation of the link
//	over, settle   how a reservation was reached: overshoot in percent, seconds until it stayed
func (p PaperPart) Text(data *figures.Runs) (string, error) {
	t, err := template.New("ours").Funcs(numbers(data)).Parse(p.Ours)
	if err != nil {
		return "", fmt.Errorf("%q: %w", p.Part, err)
	}
	var b strings.Builder
	if err := t.Execute(&b, nil); err != nil {
		return "", fmt.Errorf("%q: %w", p.Part, err)
	}
	return b.String(), nil
}

func numbers(data *figures.Runs) template.FuncMap {
	funcs := template.FuncMap{}
	for name, c := range map[string]struct {
		format string
		scale  float64
		of     func(w report.Workload) *float64
	}{
		"rate":    {"%.2f", 1e-6, func(w report.Workload) *float64 { return &w.RateBps }},
		"goodput": {"%.3f", 1e-6, func(w report.Workload) *float64 { return w.GoodputBps }},
		"p50":     {"%.3f", 1, func(w report.Workload) *float64 { return w.RTT.P50 }},
		"p99":     {"%.3f", 1, func(w report.Workload) *float64 { return w.RTT.P99 }},
		"jitter":  {"%.3f", 1, func(w report.Workload) *float64 { return w.JitterMs }},
		"loss":    {"%.1f", 100, func(w report.Workload) *float64 { return w.Loss }},
		"over":    {"%.1f", 100, func(w report.Workload) *float64 { return w.Overshoot }},
		"settle":  {"%.0f", 1, func(w report.Workload) *float64 { return w.SettleS }},
	} {
		funcs[name] = func(run string, phase int, workload string) (string, error) {
			r := data.Run(run)
			if r == nil {
				return Unmeasured, nil
			}
			w, found := r.Workload(phase, workload)
			if !found {
				return "", fmt.Errorf("%s has no workload %s in phase %d", run, workload, phase)
			}
			return written(c.format, c.of(w), c.scale), nil
		}
	}
	for name, of := range map[string]func(l report.Link) *float64{
		"cpu":  func(l report.Link) *float64 { return l.CPU },
		"full": func(l report.Link) *float64 { return &l.Utilisation },
	} {
		funcs[name] = func(run string, phase int) (string, error) {
			r := data.Run(run)
			if r == nil {
				return Unmeasured, nil
			}
			l, found := r.Link(phase)
			if !found {
				return "", fmt.Errorf("%s has no phase %d", run, phase)
			}
			return written("%.2f", of(l), 100), nil
		}
	}
	return funcs
}

func written(format string, v *float64, scale float64) string {
	if v == nil {
		return "never"
	}
	return fmt.Sprintf(format, *v*scale)
}
