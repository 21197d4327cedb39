// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
)

// tolerance returns how far a measured rate may be from the promised one, as a share of
// the link. The tc fallback follows changes later and less exactly.
func tolerance(backend string) float64 {
	if backend == plan.BackendBPF {
		return 0.02
	}
	return 0.05
}

// finding is one workload in one phase.
type finding struct {
	phase, workload    int
	promised, measured float64 // bits per second
}

// err returns how far the measured rate is off, as a share of the link.
func (f finding) err() float64 { return (f.measured - f.promised) / float64(capacity) }

// kept says whether the promise was kept within a share of the link.
func (f finding) kept(within float64) bool { return math.Abs(f.err()) <= within }

// judge compares the measured with the promised rates. Time in the series counts from the
// beginning of the script.
func judge(s *scenario.Scenario, arrived series) []finding {
	var list []finding
	for p, span := range s.Spans() {
		for w, bps := range promised(s, p) {
			list = append(list, finding{p, w, bps, arrived.rate(w, span.Measured, span.To)})
		}
	}
	return list
}

// broken returns a line for each promise that was not kept.
func broken(s *scenario.Scenario, findings []finding, within float64) []string {
	var lines []string
	for _, f := range findings {
		if !f.kept(within) {
			lines = append(lines, fmt.Sprintf("%s in phase %d was promised %s and got %s: off by %.1f %% of the link, more than %.0f %%",
				s.Workloads[f.workload].Name, f.phase+1, policy.Approx(f.promised), policy.Approx(f.measured), math.Abs(f.err())*100, within*100))
		}
	}
	return lines
}

// reasons returns a line for each phase with a promise that was not kept: how much other
// work may have kept the senders from sending. None where the kernel does not count it.
func reasons(s *scenario.Scenario, arrived series, findings []finding, within float64) []string {
	var lines []string
	for p, span := range s.Spans() {
		part := arrived.waited(span.Measured, span.To)
		if part > 0 && slices.ContainsFunc(findings, func(f finding) bool { return f.phase == p && !f.kept(within) }) {
			lines = append(lines, fmt.Sprintf("In %.0f %% of phase %d some process waited for a CPU. A sender that waits sends nothing, and the others get its share: if that is much, run the demo when the machine does less.", 100*part, p+1))
		}
	}
	return lines
}

// table sums the findings up.
func table(s *scenario.Scenario, findings []finding) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "PHASE\tWORKLOAD\tPOLICY\tPROMISED\tMEASURED\tERROR\n")
	for _, f := range findings {
		title := ""
		if f.workload == 0 {
			title = fmt.Sprintf("%d  %s", f.phase+1, acts[f.phase].title)
		}
		percent := math.Round(f.err()*1e4)/100 + 0 // which makes 0 of -0
		fmt.Fprintf(t, "%s\t%s\t%s\t%5.1f Mbit/s\t%5.1f Mbit/s\t%+5.2f %%\n", title, s.Workloads[f.workload].Name,
			terms(s.Policies()[f.phase][f.workload]), f.promised/1e6, f.measured/1e6, percent)
	}
	_ = t.Flush() // into memory
	return b.String()
}

// result returns the run as the lab's plot takes it.
func result(s *scenario.Scenario, arrived series, backend string) *report.Result {
	r := &report.Result{
		Scenario: s, Scheduler: backend, Backend: backend,
		Rates: arrived.rates(len(s.Workloads), s.Spans()), Stretch: s.Ideals(nil),
	}
	for _, a := range acts {
		r.Captions = append(r.Captions, a.title)
	}
	return r
}
