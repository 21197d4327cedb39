// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
	"weir/internal/policy"
)

// A full Ethernet frame, in bits, and qcon's period (WEIR_QCON_PERIOD_NS).
const (
	frameBits = 1514 * 8
	period    = 30 * time.Millisecond
)

// want is one run that the page shows.
type want struct{ scenario, scheduler string }

func wanted() []want {
	var list []want
	add := func(scenario string, schedulers ...string) {
		for _, s := range schedulers {
			list = append(list, want{scenario, s})
		}
	}
	add("fig03-drr", "drr", "fair")
	add("fig03-shaped", "drr", "fair", "qcon")
	for _, f := range figures {
		if f.scenario != "fig03-shaped" {
			add(f.scenario, "fair", "qcon")
		}
	}
	add("fig12-none", "none")
	add("fig12", "fair", "qcon", "htb")
	add("table1", "none", "fair", "qcon", "htb")
	return list
}

// writer is the page as it grows, and the plots that it shows.
type writer struct {
	strings.Builder
	*results
	plots []string
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// row of a table.
func (w *writer) row(cells ...string) { w.line("| %s |", strings.Join(cells, " | ")) }

func (w *writer) head(cells ...string) {
	w.row(cells...)
	w.line("|%s", strings.Repeat("---|", len(cells)))
}

// page is the whole text, and the names of the runs whose plots it shows.
func page(r *results) (text string, plots []string) {
	w := &writer{results: r}
	w.line(pageHead, w.kernels())
	if len(w.missing) > 0 {
		w.line("**Missing** (did not run to the end): %s.\n", strings.Join(w.missing, ", "))
	}
	w.summary()
	w.order()
	w.paperText()
	w.unshaped()
	for _, f := range figures {
		w.figure(f)
	}
	w.cpu()
	w.latency()
	return w.String(), w.plots
}

// summary is the table on top.
func (w *writer) summary() {
	w.line("## Summary\n\n%s\n", summaryText)
	w.head("experiment", "scheduler", "worst error", "where", "lowest utilisation", "bar", "held")
	for _, f := range figures {
		for _, scheduler := range []string{"fair", "qcon"} {
			x := w.runs[f.scenario+"-"+scheduler]
			if x == nil {
				w.row(f.link(), scheduler, "not run", "", "", "", "")
				continue
			}
			worst, place := x.worst()
			most, least := bar(x.scenario, scheduler)
			bars := "error " + percent(most)
			if least > 0 {
				bars += ", utilisation " + percent(least)
			}
			w.row(f.link(), scheduler, percent(worst), place, percent(x.utilisation()), bars,
				yes(worst <= most && x.utilisation() >= least))
		}
	}
	if x := w.runs["table1-fair"]; x != nil {
		for _, e := range x.scenario.Expect {
			if got := x.phases[1].workloads[e.Workload].RTT.P99; e.Check == scenario.CheckRTT99 && got != nil {
				w.row("[table 1](#table-1-latency)", "fair", "", "", "", fmt.Sprintf("p99 %.3g ms", e.Value*1000),
					yes(*got <= e.Value*1000)+fmt.Sprintf(" (%.3f ms)", *got))
			}
		}
	}
	w.line("")
}

// order shows why the result of Algorithm 1 depends on who comes first.
func (w *writer) order() {
	equal := []scenario.Policy{{Weight: 1}, {Weight: 1, Max: 10e6}, {Weight: 1}}
	got := algorithm1(100e6, equal)
	w.line(orderText, mbit(got[0]), mbit(got[1]), mbit(got[2]), percent(w.dependence()), mbit(frameBits/period.Seconds()))
}

// dependence is the largest difference between Algorithm 1 and the contract in
// the paper's own cases, as a share of the link.
func (w *writer) dependence() (most float64) {
	for _, f := range figures {
		x := w.runs[f.scenario+"-qcon"]
		if x == nil {
			continue
		}
		for p := range x.phases {
			for i, rate := range x.predicted(p) {
				m := x.phases[p].workloads[i]
				most = max(most, math.Abs(rate-m.IdealBps)/x.phases[p].link.CapacityBps)
			}
		}
	}
	return most
}

// paperText says what the paper's figures count, by the share of goodput in all
// runs of fair that were measured.
func (w *writer) paperText() {
	var total, n float64
	for _, f := range figures {
		if x := w.runs[f.scenario+"-fair"]; x != nil {
			total, n = total+x.goodput(), n+1
		}
	}
	if n > 0 {
		w.line(goodputText, percent(total/n))
	}
}

// unshaped is figure 3's first half: who schedules decides nothing.
func (w *writer) unshaped() {
	w.line("## Figure 3: where the queue stands\n\n%s\n", unshapedText)
	drr, fair, shaped := w.runs["fig03-drr-drr"], w.runs["fig03-drr-fair"], w.runs["fig03-shaped-drr"]
	w.head("workload", "weight", "DRR, link 10 times the line", "fair, the same", "DRR, link shaped")
	for i, c := range w.scenarios["fig03-drr"].Workloads {
		w.row(c.Name, fmt.Sprint(c.Policy.Weight), rateOf(drr, 0, i), rateOf(fair, 0, i), rateOf(shaped, 0, i))
	}
	w.line("")
	w.plot("fig03-drr-drr")
}

// figure is one experiment about shares.
func (w *writer) figure(f figure) {
	fair, qcon := w.runs[f.scenario+"-fair"], w.runs[f.scenario+"-qcon"]
	w.line("## %s\n\n%s\n", f.title, f.did)
	s := w.scenarios[f.scenario]
	w.head("case", "workload", "weight", "min", "max", "paper", "contract", "fair", "error", "qcon", "error")
	for p, policies := range s.Policies() {
		for i, c := range s.Workloads {
			known := cmp.Or(fair, qcon)
			if known == nil || known.phases[p].workloads[i].IdealBps == 0 {
				continue // nothing measured, or it does not send
			}
			m := known.phases[p].workloads[i]
			w.row(fmt.Sprint(p+1), c.Name, fmt.Sprint(policies[i].Weight), limit(policies[i].Min), limit(policies[i].Max),
				paper(m), mbit(m.IdealBps),
				rateOf(fair, p, i), errorOf(fair, p, i), rateOf(qcon, p, i), errorOf(qcon, p, i))
		}
	}
	w.line("\n%s\n", f.why)
	if fair != nil && qcon != nil && fair.reaction() != "" {
		w.line("Slowest [reaction](../scenario.md#what-is-measured-and-how) to a change: fair %s, qcon %s.\n", fair.reaction(), qcon.reaction())
	}
	w.plot(f.scenario + "-fair")
	w.plot(f.scenario + "-qcon")
}

// plot shows a run's plot, if there is one.
func (w *writer) plot(name string) {
	x := w.runs[name]
	if x == nil {
		return
	}
	w.plots = append(w.plots, name)
	w.line("![%s, scheduler %s: rates over time](qcon/%s.svg)\n", x.scenario.Name, x.scheduler, name)
}

// cpu is figure 12.
func (w *writer) cpu() {
	w.line("## Figure 12: CPU time\n\n%s\n", cpuText)
	schedulers := []struct{ title, run string }{
		{"none", "fig12-none-none"}, {"fair", "fig12-fair"}, {"qcon", "fig12-qcon"}, {"htb", "fig12-htb"},
	}
	cells := []string{"containers"}
	for _, s := range schedulers {
		cells = append(cells, s.title, "µs per packet")
	}
	w.head(cells...)
	for p := range w.scenarios["fig12"].Phases {
		cells = []string{fmt.Sprint(p + 1)}
		for _, s := range schedulers {
			x := w.runs[s.run]
			if x == nil || x.phases[p].link.CPU == nil || x.phases[p].link.CPUNsPerPacket == nil {
				cells = append(cells, "-", "-")
				continue
			}
			l := x.phases[p].link
			cells = append(cells, percent(*l.CPU), fmt.Sprintf("%.2f", *l.CPUNsPerPacket/1000))
		}
		w.row(cells...)
	}
	w.line("\n%s\n", cpuWhy)
}

// latency is table 1.
func (w *writer) latency() {
	w.line("## Table 1: latency\n\n%s\n", latencyText)
	w.head("scheduler", "alone, p50", "alone, p99", "under load, p50", "under load, p99", "utilisation under load")
	for _, scheduler := range []string{"none", "fair", "qcon", "htb"} {
		x := w.runs["table1-"+scheduler]
		if x == nil {
			w.row(scheduler, "not run", "", "", "", "")
			continue
		}
		ping := x.scenario.Index("c6")
		alone, loaded := x.phases[0].workloads[ping].RTT, x.phases[1].workloads[ping].RTT
		w.row(scheduler, millis(alone.P50), millis(alone.P99), millis(loaded.P50), millis(loaded.P99),
			percent(x.phases[1].link.Utilisation))
	}
	w.line("\n%s", latencyWhy)
}

func rateOf(x *run, p, i int) string {
	if x == nil {
		return "-"
	}
	return mbit(x.phases[p].workloads[i].RateBps)
}

func errorOf(x *run, p, i int) string {
	if x == nil {
		return "-"
	}
	text := fmt.Sprintf("%+.2f %%", x.phases[p].workloads[i].Error*100)
	return strings.Replace(text, "-0.00", "+0.00", 1)
}

func paper(w report.Workload) string {
	if w.PaperBps == nil {
		return ""
	}
	return fmt.Sprintf("%g", *w.PaperBps/1e6)
}

func limit(r policy.Rate) string {
	if r == 0 {
		return ""
	}
	return fmt.Sprintf("%g", float64(r)/1e6)
}

func millis(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f ms", *v)
}

func mbit(bps float64) string      { return fmt.Sprintf("%.2f", bps/1e6) }
func percent(share float64) string { return fmt.Sprintf("%.2f %%", share*100) }

func yes(held bool) string {
	if held {
		return "yes"
	}
	return "**no**"
}
