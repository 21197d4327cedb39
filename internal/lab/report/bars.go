// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"weir/internal/base/verdict"
	"weir/internal/lab/scenario"
)

// Figures are the numbers of one scheduler in one row of a report, which bars are
// about: shares, or nanoseconds.
type Figures struct {
	Scheduler string
	Where     map[string]string // scenario.KeyCase and the like
	Values    map[scenario.Figure]float64
}

// Figures are the rows of a cost measurement.
func (c *CostResult) Figures() []Figures {
	var list []Figures
	for _, r := range c.Rows {
		if r.Problem != "" {
			continue
		}
		list = append(list, Figures{
			Scheduler: r.Scheduler,
			Where:     map[string]string{scenario.KeyCase: r.Case, scenario.KeyWorkloads: strconv.Itoa(r.Workloads)},
			Values:    map[scenario.Figure]float64{scenario.FigureAdded: r.Added()},
		})
	}
	return list
}

// Figures are the rows of a measurement of schedules.
func (r *TimingResult) Figures() []Figures {
	var list []Figures
	for _, row := range r.Rows {
		if row.Packets == 0 {
			continue // not measured
		}
		list = append(list, Figures{
			Scheduler: row.Scheduler,
			Where:     map[string]string{scenario.KeyCPUs: row.cpus()},
			Values: map[scenario.Figure]float64{
				scenario.FigureLate50: row.LateP50 * 1e3, scenario.FigureLate99: row.LateP99 * 1e3, scenario.FigureLateMax: row.LateMax * 1e3,
				scenario.FigureGap50: row.GapP50 * 1e3, scenario.FigureGap99: row.GapP99 * 1e3,
				scenario.FigureRate: math.Abs(row.RateError),
			},
		})
	}
	return list
}

// Figures are the CPU times of a run's phases, where they were measured exactly, and the
// round trips and transactions of its workloads and flows.
func (r *Result) Figures() []Figures {
	var list []Figures
	for _, p := range r.Phases {
		list = append(list, r.flowFigures(p)...)
		if p.Link.CPU == nil || p.Link.CPUNsPerPacket == nil || !p.Link.CPUExact {
			continue
		}
		list = append(list, Figures{
			Scheduler: r.Scheduler,
			Where:     map[string]string{scenario.KeyPhase: strconv.Itoa(p.Number)},
			Values: map[scenario.Figure]float64{
				scenario.FigureCPU: *p.Link.CPU, scenario.FigurePerPacket: *p.Link.CPUNsPerPacket,
			},
		})
	}
	return list
}

// flowFigures returns the round trips and transactions of a phase's workloads and flows.
func (r *Result) flowFigures(p Phase) (list []Figures) {
	add := func(workload, flow string, rtt RTT, transactions *float64) {
		f := Figures{Scheduler: r.Scheduler, Where: map[string]string{scenario.KeyPhase: strconv.Itoa(p.Number), scenario.KeyWorkload: workload}, Values: map[scenario.Figure]float64{}}
		if flow != "" {
			f.Where[scenario.KeyFlow] = flow
		}
		for figure, ms := range map[scenario.Figure]*float64{
			scenario.FigureRTT50: rtt.P50, scenario.FigureRTT99: rtt.P99, scenario.FigureRTTMean: rtt.Mean, scenario.FigureRTTMost: rtt.Most,
		} {
			if ms != nil {
				f.Values[figure] = *ms * 1e6
			}
		}
		if transactions != nil {
			f.Values[scenario.FigureRequests] = *transactions
		}
		if len(f.Values) > 0 {
			list = append(list, f)
		}
	}
	for _, w := range p.Workloads {
		add(w.Workload, "", w.RTT, w.Transactions)
		for _, f := range w.Flows {
			add(w.Workload, f.Flow, f.RTT, f.Transactions)
		}
	}
	return list
}

// JudgeBars holds a scenario's bars against what was measured. run are the
// schedulers that the run was to measure: a bar on a scheduler that is not among them
// is not judged and not in the list.
func JudgeBars(s *scenario.Scenario, run []string, rows []Figures) []verdict.Verdict {
	var list []verdict.Verdict
	for _, b := range s.Bars {
		if !ran(s, b.Scheduler, run) || b.Of != "" && !ran(s, b.Of, run) {
			continue
		}
		v := verdict.Verdict{Scenario: s.Name, File: s.File, Line: b.Line, Expect: b.Text, Scheduler: b.Scheduler, Check: string(b.Figure)}
		judge := judgeEach
		if b.Figure == scenario.FigureFlat {
			judge = judgeFlat
		}
		judge(&v, b, rows)
		list = append(list, v)
	}
	return list
}

// ran says whether a scheduler, or what a cost measurement makes of it (fair+sfq),
// is one of those of the run.
func ran(s *scenario.Scenario, name string, run []string) bool {
	base, _, _ := strings.Cut(name, "+")
	return slices.Contains(run, name) || s.Cost != nil && slices.Contains(run, base)
}

// judgeEach holds every row that the bar is about against its limit. The figure of
// the verdict is the worst.
func judgeEach(v *verdict.Verdict, b scenario.Bar, rows []Figures) {
	bound, worse := "at most", func(a, b float64) bool { return a > b }
	worst := math.Inf(-1)
	if b.Figure.AtLeast() {
		bound, worse = "at least", func(a, b float64) bool { return a < b }
		worst = math.Inf(1)
	}
	for _, r := range rows {
		got, ok := r.Values[b.Figure]
		if !ok || !about(b, r) {
			continue
		}
		value, beside, ok := compared(b, r, got, rows)
		if !ok {
			v.Fail("%s: %s of %s was not measured, of which %s is to be %s %s", place(r), b.Figure, b.Of, b.Scheduler, bound, limit(b))
			continue
		}
		if worse(value, worst) {
			worst, v.Figure = value, figureText(b, value)
		}
		if worse(value, b.Limit) {
			v.Fail("%s: %s of %s is %s, %sexpected %s %s", place(r), b.Figure, b.Scheduler, amount(b.Figure, got), beside, bound, limit(b))
		}
	}
	if v.Figure == "" && len(v.Failures) == 0 {
		v.Fail("%s of %s was not measured", b.Figure, b.Scheduler)
	}
}

// compared is the value that the limit is about, and what to say of the other
// scheduler; ok is false if that one has no figure there.
func compared(b scenario.Bar, r Figures, got float64, rows []Figures) (value float64, beside string, ok bool) {
	if b.Of == "" {
		return got, "", true
	}
	for _, other := range rows {
		base := other.Values[b.Figure]
		if other.Scheduler == b.Of && maps.Equal(other.Where, r.Where) && base > 0 {
			part := got / base
			return part, fmt.Sprintf("%s of %s's %s, ", part100(part), b.Of, amount(b.Figure, base)), true
		}
	}
	return 0, "", false
}

// judgeFlat compares the largest figure of all numbers of workloads with the
// smallest, case by case.
func judgeFlat(v *verdict.Verdict, b scenario.Bar, rows []Figures) {
	type extremes struct{ least, most Figures }
	const figure = scenario.FigureAdded
	cases, order := map[string]*extremes{}, []string{}
	sizes := map[string]int{}
	for _, r := range rows {
		if !about(b, r) {
			continue
		}
		name := r.Where[scenario.KeyCase]
		x := cases[name]
		if x == nil {
			x = &extremes{r, r}
			cases[name], order = x, append(order, name)
		}
		sizes[name]++
		if r.Values[figure] < x.least.Values[figure] {
			x.least = r
		}
		if r.Values[figure] > x.most.Values[figure] {
			x.most = r
		}
	}
	worst := math.Inf(-1)
	for _, name := range order {
		least, most := cases[name].least, cases[name].most
		low, high := least.Values[figure], most.Values[figure]
		if sizes[name] < 2 || low <= 0 {
			if b.Where[scenario.KeyCase] != "" {
				v.Fail("%s: there are no two numbers of workloads to compare", name)
			}
			continue
		}
		over := high/low - 1
		if over > worst {
			worst, v.Figure = over, fmt.Sprintf("%.1f %% (%s to %s)", over*100, amount(figure, low), amount(figure, high))
		}
		if over > b.Limit {
			v.Fail("%s: added of %s is %s with %s workloads and %s with %s, %.1f %% more, expected at most %s", name, b.Scheduler,
				amount(figure, low), least.Where[scenario.KeyWorkloads], amount(figure, high), most.Where[scenario.KeyWorkloads], over*100, part100(b.Limit))
		}
	}
	if v.Figure == "" && len(v.Failures) == 0 {
		v.Fail("added of %s was not measured with two numbers of workloads", b.Scheduler)
	}
}

// about says whether a bar is about a row.
func about(b scenario.Bar, r Figures) bool {
	if r.Where[scenario.KeyFlow] != "" && b.Where[scenario.KeyFlow] == "" {
		return false // of the workload, not of each of its flows
	}
	for key, want := range b.Where {
		if r.Where[key] != want {
			return false
		}
	}
	return r.Scheduler == b.Scheduler
}

// place says which row it is: "case veths, workloads 5".
func place(r Figures) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(r.Where)) {
		parts = append(parts, key+" "+r.Where[key])
	}
	return strings.Join(parts, ", ")
}

// figureText is a bar's figure for the table of bars.
func figureText(b scenario.Bar, value float64) string {
	if b.Of != "" {
		return part100(value) + " of " + b.Of + "'s"
	}
	return amount(b.Figure, value)
}

func limit(b scenario.Bar) string {
	if b.Of != "" {
		return part100(b.Limit)
	}
	return amount(b.Figure, b.Limit)
}

// amount writes a figure with its unit.
func amount(f scenario.Figure, v float64) string {
	switch {
	case f == scenario.FigureRate:
		return percent(v)
	case f == scenario.FigureRequests:
		return fmt.Sprintf("%.0f/s", v)
	case f == scenario.FigureCPU:
		return fmt.Sprintf("%.2f %%", v*100)
	case math.Abs(v) < 100e3:
		return fmt.Sprintf("%.0f ns", v)
	}
	return fmt.Sprintf("%.0f us", v/1e3)
}

func part100(v float64) string { return fmt.Sprintf("%.2f %%", v*100) }
