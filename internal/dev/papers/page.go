// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/dev/markdown"
	"weir/internal/dev/papers/algorithm1"
	"weir/internal/dev/papers/cases"
	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
)

// frameBits is a full Ethernet frame.
const frameBits = policy.FullFrame * 8

// section is a part of a page, and what it is made of.
type section interface {
	runs(own string) []want // own is the paper's scheduler
	write(w *writer)
}

// text is a section without runs of its own.
type text func(w *writer)

func (text) runs(string) []want { return nil }
func (t text) write(w *writer)  { t(w) }

// want is one run that a page shows.
type want struct {
	scenario, scheduler string // "": the file's own, all of them
	cpu                 bool   // measured with --cpu
	folder              string // of the scenario below lab; "" = the paper's
}

// name of the run's data and plot, within the paper's folder.
func (w want) name() string {
	if w.scheduler == "" {
		return w.scenario
	}
	return w.scenario + "-" + w.scheduler
}

// options of weir lab run.
func (w want) options() (list []string) {
	if w.scheduler != "" {
		list = append(list, "--scheduler", w.scheduler)
	}
	if w.cpu {
		list = append(list, "--cpu")
	}
	return list
}

// folder of a run's scenario below lab.
func (p *paper) folder(w want) string { return cmp.Or(w.folder, p.lab, p.name) }

// file of a run's scenario, from the module's root.
func (p *paper) file(w want) string { return "lab/" + p.folder(w) + "/" + w.scenario + ".yaml" }

// command that repeats a run.
func (p *paper) command(w want) string {
	if p.real {
		return "weir lab cluster --json " + p.file(w)
	}
	machine := "vm/run"
	if p.arch != "" {
		machine += " --arch " + p.arch
	}
	words := append([]string{machine + " --virtual-time -- weir lab run --json"}, w.options()...)
	return strings.Join(append(words, p.file(w)), " ")
}

func wants(scenario string, schedulers ...string) (list []want) {
	for _, s := range schedulers {
		list = append(list, want{scenario: scenario, scheduler: s})
	}
	return list
}

func (p *paper) wanted() (list []want) {
	for _, s := range p.sections {
		list = append(list, s.runs(p.own)...)
	}
	for _, f := range p.figures() {
		list = append(list, wants(f.scenario, p.beside...)...)
	}
	return list
}

// writer is the page as it grows, and the plots that it shows.
type writer struct {
	markdown.Writer
	*results
	plots    []string
	pictures map[string][]byte // that the page draws itself, by name
}

// figures are the paper's experiments about shares.
func (p *paper) figures() (list []figure) {
	for _, s := range p.sections {
		switch s := s.(type) {
		case figure:
			list = append(list, s)
		case technique:
			list = append(list, s.figure)
		}
	}
	return list
}

// page is the whole text, the names of the runs whose plots it shows, and the pictures that it
// draws.
func page(r *results) (text string, plots []string, pictures map[string][]byte) {
	w := &writer{results: r, pictures: map[string][]byte{}}
	kernels, commits, days := w.sources()
	w.Line(r.paper.head+"\n", kernels, commits, days)
	if len(w.missing) > 0 {
		w.Line("**Not measured yet**: %s. `scripts/papers` does it.\n", strings.Join(w.missing, ", "))
	}
	if r.paper.summary != "" {
		w.summary()
	}
	for _, s := range r.paper.sections {
		s.write(w)
	}
	w.failures()
	return w.String(), w.plots, w.pictures
}

// failures are the expectations that the runs themselves found not to hold.
func (w *writer) failures() {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(w.runs)) {
		for _, f := range w.runs[name].source.Failures {
			list = append(list, fmt.Sprintf("* %s: %s", name, f))
		}
	}
	if len(list) > 0 {
		w.Line("## What does not hold\n\nExpectations of the scenario files, and generators' problems, as the runs reported them:\n\n%s", strings.Join(list, "\n"))
	}
}

// summary is the table on top.
func (w *writer) summary() {
	w.Line("## Summary\n\n%s\n", w.paper.summary)
	w.Head("experiment", "scheduler", "worst error", "where", "lowest utilisation", "bar", "held")
	for _, f := range w.paper.figures() {
		for _, scheduler := range append([]string{"fair", w.paper.own}, w.paper.beside...) {
			x := w.runs[f.scenario+"-"+scheduler]
			if x == nil {
				w.Row(f.link(), scheduler, "not run", "", "", "", "")
				continue
			}
			worst, place := x.worst()
			most, least := bar(x.scenario, scheduler)
			if most == 0 {
				w.Row(f.link(), scheduler, percent(worst), place, percent(x.utilisation()), "", "")
				continue
			}
			bars := "error " + percent(most)
			if least > 0 {
				bars += ", utilisation " + percent(least)
			}
			w.Row(f.link(), scheduler, percent(worst), place, percent(x.utilisation()), bars,
				yes(worst <= most && x.utilisation() >= least))
		}
	}
	if x := w.runs["table1-fair"]; x != nil {
		for _, e := range x.scenario.Expect {
			if e.Check != scenario.CheckRTT99 {
				continue
			}
			if got := x.phases[1].workloads[e.Workload].RTT.P99; got != nil {
				w.Row("[table 1](#table-1-latency)", "fair", "", "", "", fmt.Sprintf("p99 %.3g ms", e.Value*1000),
					yes(*got <= e.Value*1000)+fmt.Sprintf(" (%.3f ms)", *got))
			}
		}
	}
	w.Line("")
}

// orderSection shows why the result of Algorithm 1 depends on who comes first.
func orderSection(w *writer) {
	equal := []scenario.Policy{{Weight: 1}, {Weight: 1, Max: 10e6}, {Weight: 1}}
	got := algorithm1.Rates(100e6, equal)
	w.Line(prose("qcon-order")+"\n", mbit(got[0]), mbit(got[1]), mbit(got[2]), percent(w.dependence()), mbit(frameBits/report.CreditPeriod.Seconds()))
}

// dependence is the largest difference between Algorithm 1 and the contract in
// the paper's own cases, as a share of the link.
func (w *writer) dependence() (most float64) {
	for _, f := range w.paper.figures() {
		x := w.runs[f.scenario+"-"+w.paper.own]
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

// goodputSection says what the paper's figures count, by the share of goodput in all
// runs of fair that were measured.
func goodputSection(w *writer) {
	var total, n float64
	for _, f := range w.paper.figures() {
		if x := w.runs[f.scenario+"-fair"]; x != nil {
			total, n = total+x.goodput(), n+1
		}
	}
	if n > 0 {
		w.Line(prose("goodput")+"\n", w.paper.tool, percent(total/n))
	}
}

// unshaped is the qCon paper's figure 3, first half: who schedules decides nothing.
type unshaped struct{}

func (unshaped) runs(string) []want {
	return slices.Concat(wants("fig03-drr", "drr", "fair"), wants("fig03-shaped", "drr"), wants("fig03-udp", "drr"), wants("fig03-weak", "drr"))
}

func (unshaped) write(w *writer) {
	w.Line("## Figure 3: where the queue stands\n\n%s\n", prose("qcon-unshaped"))
	drr, fair, shaped := w.runs["fig03-drr-drr"], w.runs["fig03-drr-fair"], w.runs["fig03-shaped-drr"]
	w.Head("workload", "weight", "DRR, link 10 times the line", "fair, the same", "DRR, link shaped", "DRR, UDP", "DRR, a weak CPU")
	for i, c := range w.scenarios["fig03-drr"].Workloads {
		w.Row(c.Name, fmt.Sprint(c.Policy.Weight), rateOf(drr, 0, i), rateOf(fair, 0, i), rateOf(shaped, 0, i),
			rateOf(w.runs["fig03-udp-drr"], 0, i), rateOf(w.runs["fig03-weak-drr"], 0, i))
	}
	w.Line("")
	w.claims(unshapedClaims)
	w.plot("fig03-drr-drr")
}

func (f figure) runs(own string) []want { return wants(f.scenario, "fair", own) }

func (f figure) write(w *writer) {
	fair, own := w.runs[f.scenario+"-fair"], w.runs[f.scenario+"-"+w.paper.own]
	w.Line("## %s\n\n%s\n", f.title, f.did)
	s := w.scenarios[f.scenario]
	w.Head("case", "workload", "weight", "min", "max", "paper", "contract", "fair", "error", w.paper.own, "error")
	for p, policies := range s.Policies() {
		for i, c := range s.Workloads {
			known := cmp.Or(fair, own)
			if known == nil || known.phases[p].workloads[i].IdealBps == 0 {
				continue // nothing measured, or it does not send
			}
			m := known.phases[p].workloads[i]
			w.Row(fmt.Sprint(p+1), c.Name, fmt.Sprint(policies[i].Weight), limit(policies[i].Min), limit(policies[i].Max),
				printed(m), mbit(m.IdealBps),
				rateOf(fair, p, i), errorOf(fair, p, i), rateOf(own, p, i), errorOf(own, p, i))
		}
	}
	w.Line("\n%s\n", f.why)
	w.claims(f.claims)
	if fair != nil && own != nil && fair.reaction() != "" {
		w.Line("Slowest [reaction](../scenario.md#what-is-measured-and-how) to a change: fair %s, %s %s (windows of %d and %d ms).\n",
			fair.reaction(), w.paper.own, own.reaction(), report.ReactionWindow(plan.SchedulerFair).Milliseconds(), report.ReactionWindow(w.paper.own).Milliseconds())
	}
	w.bars(own, "rates", "rates", "Mbit/s on the wire", cases.Rate, 0)
	w.plot(f.scenario + "-fair")
	w.plot(f.scenario + "-" + w.paper.own)
}

// bars draws a number of a run's workloads in each case, as the papers' bars have it.
func (w *writer) bars(x *run, name, what, unit string, of cases.Number, low float64) {
	if x == nil || w.paper.arch != "" {
		return
	}
	title := x.scenario.Name + ": " + what + " in each case (" + x.scheduler + ")"
	w.draw(x.name+"-"+name, title, cases.Bars(title, unit, x.loads(), of, low))
}

// loads are the workloads of each phase, links what the link did.
func (x *run) loads() (list [][]report.Workload) {
	for _, p := range x.phases {
		list = append(list, p.workloads)
	}
	return list
}

func (x *run) links() (list []report.Link) {
	for _, p := range x.phases {
		list = append(list, p.link)
	}
	return list
}

// plot shows a run's plot, if there is one.
func (w *writer) plot(name string) {
	x := w.runs[name]
	if x == nil {
		return
	}
	if x.source.Plot == "" {
		return
	}
	w.plots = append(w.plots, name)
	w.Line("![%s, scheduler %s: rates over time](%s/%s.svg)\n", x.scenario.Name, x.scheduler, w.paper.name, name)
}

// cpu is an experiment about CPU time: a column for each run.
type cpu struct {
	title, did, why string
	who             string // whose number grows from phase to phase
	scenario        string
	none            string // the scenario of the run without a scheduler
	others          []string
	claims          []claim
}

// columns are the runs from left to right.
func (c cpu) columns() []want {
	list := []want{{scenario: c.none, scheduler: "none", cpu: true}}
	for _, s := range c.others {
		list = append(list, want{scenario: c.scenario, scheduler: s, cpu: true})
	}
	return list
}

func (c cpu) runs(string) []want { return c.columns() }

func (c cpu) write(w *writer) {
	w.Line("## %s\n\n%s\n", c.title, c.did)
	cells := []string{c.who}
	for _, s := range c.columns() {
		cells = append(cells, s.scheduler, "µs per packet")
	}
	w.Head(cells...)
	for p := range w.scenarios[c.scenario].Phases {
		cells = []string{fmt.Sprint(p + 1)}
		for _, s := range c.columns() {
			x := w.runs[s.name()]
			if x == nil || x.phases[p].link.CPU == nil || x.phases[p].link.CPUNsPerPacket == nil {
				cells = append(cells, "-", "-")
				continue
			}
			l := x.phases[p].link
			cells = append(cells, percent(*l.CPU), fmt.Sprintf("%.2f", *l.CPUNsPerPacket/1000))
		}
		w.Row(cells...)
	}
	w.Line("\n%s\n", c.why)
	w.claims(c.claims)
	w.compared(c.scenario+"-cpu", w.scenarios[c.scenario].Name, "CPU time of the host, %", c.who, cases.CPU, c.columns()...)
}

// compared draws a number of the link in each case for several runs, if all are there.
func (w *writer) compared(name, title, unit, across string, of func(report.Link) *float64, list ...want) {
	var names []string
	var links [][]report.Link
	for _, s := range list {
		x := w.runs[s.name()]
		if x == nil {
			continue // not measured
		}
		names, links = append(names, s.scheduler), append(links, x.links())
	}
	if len(links) == 0 || w.paper.arch != "" {
		return
	}
	w.draw(name, title, cases.Compared(title, unit, across, names, links, of))
}

// quiet is the qCon paper's table 1: one that pings, alone and beside others.
type quiet struct {
	title, did, why    string
	scenario, workload string
	schedulers         []string
	claims             []claim
}

func (q quiet) runs(string) []want { return wants(q.scenario, q.schedulers...) }

func (q quiet) write(w *writer) {
	w.Line("## %s\n\n%s\n", q.title, q.did)
	w.Head("scheduler", "alone, p50", "alone, p99", "under load, p50", "under load, p99", "utilisation under load")
	for _, scheduler := range q.schedulers {
		x := w.runs[q.scenario+"-"+scheduler]
		if x == nil {
			w.Row(scheduler, "not run", "", "", "", "")
			continue
		}
		ping := x.scenario.Index(q.workload)
		alone, loaded := x.phases[0].workloads[ping].RTT, x.phases[1].workloads[ping].RTT
		w.Row(scheduler, millis(alone.P50), millis(alone.P99), millis(loaded.P50), millis(loaded.P99),
			percent(x.phases[1].link.Utilisation))
	}
	w.Line("\n%s\n", q.why)
	w.claims(q.claims)
}

// joining is a table of the ANCS paper: VMs that measure their latency, one more
// in each phase; in the last phase another workload fills the link.
type joining struct {
	title, did, why string
	scenario        string
	printed         map[string]string // by scheduler, the paper's row
	schedulers      []string
	claims          []claim
}

func (j joining) runs(string) []want { return wants(j.scenario, j.schedulers...) }

func (j joining) write(w *writer) {
	w.Line("## %s\n\n%s\n", j.title, j.did)
	phases := len(w.scenarios[j.scenario].Phases)
	cells := []string{"scheduler", "the paper, 1 to 5"}
	for p := range phases - 1 {
		cells = append(cells, fmt.Sprint(p+1))
	}
	w.Head(append(cells, "beside a load", "the worst p99")...)
	for _, scheduler := range j.schedulers {
		x := w.runs[j.scenario+"-"+scheduler]
		if x == nil {
			w.Row(append([]string{scheduler, j.printed[scheduler], "not run"}, make([]string, phases)...)...)
			continue
		}
		cells := []string{scheduler, j.printed[scheduler]}
		for p := range phases {
			p50, _ := x.latency(p)
			cells = append(cells, millis(p50))
		}
		_, p99 := x.latency(phases - 1)
		w.Row(append(cells, millis(p99))...)
	}
	w.Line("\n%s\n", j.why)
	w.claims(j.claims)
}

// unscheduled is an experiment without policies: the rates only.
type unscheduled struct {
	title, did, why, scenario, scheduler string
	claims                               []claim
}

func (u unscheduled) runs(string) []want { return wants(u.scenario, u.scheduler) }

func (u unscheduled) write(w *writer) {
	w.Line("## %s\n\n%s\n", u.title, u.did)
	x, s := w.runs[u.scenario+"-"+u.scheduler], w.scenarios[u.scenario]
	cells := []string{"case"}
	for _, c := range s.Workloads {
		cells = append(cells, c.Name)
	}
	w.Head(append(cells, "all")...)
	for p := range s.Phases {
		cells := []string{fmt.Sprint(p + 1)}
		for i := range s.Workloads {
			cells = append(cells, rateOf(x, p, i))
		}
		all := "-"
		if x != nil {
			all = mbit(x.phases[p].link.RateBps)
		}
		w.Row(append(cells, all)...)
	}
	w.Line("\n%s\n", u.why)
	w.claims(u.claims)
	w.plot(u.scenario + "-" + u.scheduler)
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

func printed(w report.Workload) string {
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
