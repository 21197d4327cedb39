// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"weir/internal/core/policy"
	"weir/internal/lab/scenario"
)

// column of a table; one in which no row has anything is left out.
type column[T any] struct {
	head string
	cell func(T) string
}

var flowColumns = []column[Flow]{
	{"workload", func(f Flow) string { return f.Workload }},
	{"queue", func(f Flow) string { return f.Queue }},
	{"flow", func(f Flow) string { return f.Flow }},
	{"measured", func(f Flow) string { return optional(f.RateBps, policy.Approx) }},
	{"ideal", func(f Flow) string { return optional(f.IdealBps, policy.Approx) }},
	{"goodput", func(f Flow) string { return optional(f.GoodputBps, policy.Approx) }},
	{"p50 ms", func(f Flow) string { return optional(f.RTT.P50, number(3)) }},
	{"p99 ms", func(f Flow) string { return optional(f.RTT.P99, number(3)) }},
	{"jitter ms", func(f Flow) string { return optional(f.JitterMs, number(3)) }},
	{"loss", func(f Flow) string { return optional(f.Loss, percent) }},
	{"retransmits", func(f Flow) string { return optional(float(f.Retransmits), whole) }},
	{"trans/s", func(f Flow) string { return optional(f.Transactions, number(0)) }},
}

var columns = []column[Workload]{
	{"workload", func(w Workload) string { return w.Workload }},
	{"measured", func(w Workload) string { return policy.Approx(w.RateBps) }},
	{"ideal", func(w Workload) string { return policy.Approx(w.IdealBps) }},
	{"error", func(w Workload) string { return fmt.Sprintf("%+.2f %%", w.Error*100) }},
	{"paper", func(w Workload) string { return optional(w.PaperBps, policy.Approx) }},
	{"goodput", func(w Workload) string { return optional(w.GoodputBps, policy.Approx) }},
	{"reserve", func(w Workload) string {
		if w.ReserveBps == 0 {
			return ""
		}
		return policy.Approx(w.ReserveBps)
	}},
	{"rise s", func(w Workload) string { return optional(w.RiseS, number(2)) }},
	{"overshoot", func(w Workload) string { return optional(w.Overshoot, percent) }},
	{"settle s", func(w Workload) string { return optional(w.SettleS, number(2)) }},
	{"steady", func(w Workload) string { return optional(w.SteadyError, signed) }},
	{"disturbed", func(w Workload) string { return optional(w.Disturbance, percent) }},
	{"recovery s", func(w Workload) string { return optional(w.RecoveryS, number(0)) }},
	{"p50 ms", func(w Workload) string { return optional(w.RTT.P50, number(3)) }},
	{"p99 ms", func(w Workload) string { return optional(w.RTT.P99, number(3)) }},
	{"jitter ms", func(w Workload) string { return optional(w.JitterMs, number(3)) }},
	{"loss", func(w Workload) string { return optional(w.Loss, percent) }},
	{"retransmits", func(w Workload) string { return optional(float(w.Retransmits), whole) }},
	{"trans/s", func(w Workload) string { return optional(w.Transactions, number(0)) }},
}

func optional(v *float64, write func(float64) string) string {
	if v == nil {
		return ""
	}
	return write(*v)
}

func signed(v float64) string { return fmt.Sprintf("%+.3f %%", v*100) }

func number(digits int) func(float64) string {
	return func(v float64) string { return fmt.Sprintf("%.*f", digits, v) }
}

// Table writes a result for people. Errors are in percent of the link.
func Table(out io.Writer, r *Result) error {
	var b strings.Builder
	s := r.Scenario
	fmt.Fprintf(&b, "%s\n", s.Name)
	fmt.Fprintf(&b, "scheduler %s (%s), link %s%s\n", r.scheduled(), r.Backend, s.Link.Bandwidth, behind(r))
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	for i, p := range r.Phases {
		span := s.Spans()[i]
		fmt.Fprintf(&b, "\nphase %d, measured from %v to %v\n", p.Number, span.Measured, span.To)
		tabulate(&b, columns, p.Workloads)
		if flows := p.severalFlows(); len(flows) > 0 {
			b.WriteString("\n")
			tabulate(&b, flowColumns, flows)
		}
		fmt.Fprintf(&b, "  link   %s\n", p.Link.line())
	}
	r.verdict(&b)
	_, err := io.WriteString(out, b.String()+"\n")
	return err
}

// verdict says what makes the run fail, or that all expectations hold and what they are
// not about.
func (r *Result) verdict(b *strings.Builder) {
	if len(r.Problems) > 0 {
		fmt.Fprintf(b, "\ngenerators that failed, with which the run fails:\n  %s\n", strings.Join(r.Problems, "\n  "))
	}
	b.WriteString(VerdictTable(r.Verdicts))
	if never := r.neverSettled(); len(never) > 0 && !r.expects(scenario.CheckReaction) {
		fmt.Fprintf(b, "\nreaction is never in phase %s, and no expectation is about it\n", strings.Join(never, ", "))
	}
}

// neverSettled are the numbers of the phases in which the new shares never held.
func (r *Result) neverSettled() (list []string) {
	for _, p := range r.Phases {
		if p.Link.ReactionWindowMs != nil && p.Link.ReactionMs == nil {
			list = append(list, fmt.Sprint(p.Number))
		}
	}
	return list
}

func behind(r *Result) string {
	l, text := r.Scenario.Link, ""
	if l.Line != 0 {
		text += fmt.Sprintf(", a line of %s behind it", l.Line)
	}
	if l.Delay != 0 {
		text += fmt.Sprintf(", %v of delay", l.Delay)
	}
	if l.Jitter != 0 {
		text += fmt.Sprintf(" give or take %v", l.Jitter)
	}
	if l.Loss != 0 {
		text += fmt.Sprintf(", %.3g %% of loss", l.Loss*100)
	}
	if l.Offload {
		text += ", offload on"
	}
	return text
}

// severalFlows are the phase's flows, if some workload has queues or more than
// one flow; else they would say the same again.
func (p Phase) severalFlows() []Flow {
	var all []Flow
	several := false
	for _, w := range p.Workloads {
		all = append(all, w.Flows...)
		several = several || len(w.Flows) > 1 || slices.ContainsFunc(w.Flows, func(f Flow) bool { return f.Queue != "" })
	}
	if !several {
		return nil
	}
	return all
}

// tabulate writes the columns in which something stands.
func tabulate[T any](b *strings.Builder, columns []column[T], rows []T) {
	var used []column[T]
	for _, c := range columns {
		for _, w := range rows {
			if c.cell(w) != "" {
				used = append(used, c)
				break
			}
		}
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, c := range used {
		fmt.Fprintf(t, "%s\t", c.head)
	}
	fmt.Fprintln(t)
	for _, w := range rows {
		for _, c := range used {
			fmt.Fprintf(t, "%s\t", c.cell(w))
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush() // into memory
}

// reaction to a change that there was.
func (l Link) reaction() string {
	if l.ReactionMs == nil {
		return "never"
	}
	return fmt.Sprintf("%.0f ms", *l.ReactionMs)
}

func (l Link) line() string {
	parts := []string{policy.Approx(l.RateBps), fmt.Sprintf("utilisation %.2f %%", l.Utilisation*100)}
	add := func(format string, v *float64, scale float64) {
		if v != nil {
			parts = append(parts, fmt.Sprintf(format, *v*scale))
		}
	}
	add("Jain %.4f", l.Jain, 1)
	add("drops %.0f", float(l.Drops), 1)
	if l.ReactionWindowMs != nil {
		parts = append(parts, fmt.Sprintf("reaction %s (windows of %.0f ms)", l.reaction(), *l.ReactionWindowMs))
	}
	about := ""
	if !l.CPUExact {
		about = "about "
	}
	add("cpu "+about+"%.1f %%", l.CPU, 100)
	add(about+"%.0f ns per packet", l.CPUNsPerPacket, 1)
	add(about+"%.2f s per GB", l.CPUSPerGbyte, 1)
	return strings.Join(parts, ", ")
}
