// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// Bar is a condition on a figure of one scheduler: alone, or as a part of another
// scheduler's figure in the same run.
type Bar struct {
	Line      int    // in the file, for messages
	Text      string // the entry as the file has it
	Scheduler string // whose figure it is, as the report names it
	Of        string // whose figure Limit is a part of; "" = Limit stands alone
	Figure    Figure
	Limit     float64           // at most, or at least (Figure.AtLeast); a share, nanoseconds, or requests per second
	Where     map[string]string // Key -> value of the rows that the bar is about; without a key: every row
}

// Figure is a number that a run yields for each scheduler.
type Figure string

// The figures that a bar can be about.
const (
	FigureAdded     Figure = "added"          // cost: time per packet over no scheduler, ns
	FigureFlat      Figure = "flat"           // cost: the largest added of all numbers of workloads over the smallest
	FigureCPU       Figure = "cpu"            // phases: share of CPU time
	FigurePerPacket Figure = "cpu_per_packet" // phases: CPU time per delivered packet, ns
	FigureRequests  Figure = "requests"       // phases, of a flow or a workload: netperf's transactions per second
	FigureRTT50     Figure = "rtt_p50"        // phases, as the next three: round trips of a flow or a workload, ns
	FigureRTT99     Figure = "rtt_p99"
	FigureRTTMean   Figure = "rtt_mean"
	FigureRTTMost   Figure = "rtt_most"
	FigureLate50    Figure = "late_p50" // timing, as the next four: ns
	FigureLate99    Figure = "late_p99"
	FigureLateMax   Figure = "late_max"
	FigureGap50     Figure = "gap_p50"
	FigureGap99     Figure = "gap_p99"
	FigureRate      Figure = "rate_error" // timing: of the rate, either way, a share
)

// The keys of Bar.Where.
const (
	KeyCase      = "case"      // cost
	KeyWorkloads = "workloads" // cost: how many
	KeyCPUs      = "cpus"      // timing: idle or busy
	KeyPhase     = "phase"     // phases: its number
	KeyWorkload  = "workload"  // phases
	KeyFlow      = "flow"      // phases: a traffic entry of that workload
)

// isShare says whether a figure's limit is a share even where it stands alone.
func (f Figure) isShare() bool { return f == FigureFlat || f == FigureCPU || f == FigureRate }

// AtLeast says whether a bar on the figure is a lower limit.
func (f Figure) AtLeast() bool { return f == FigureRequests }

// barForm lists the figures that bars of one kind of measurement can state.
type barForm struct {
	example    string
	figures    []Figure
	where      map[string]func(r *reader, dst *string) field
	schedulers []string // that are measured
	inside     bool     // SCHEDULER+INSIDE is a scheduler too
}

func oneOf(what string, known ...string) func(*reader, *string) field {
	return func(r *reader, dst *string) field { return r.word(dst, what, known) }
}

// wholeNumber reads a number as the rows have it.
func wholeNumber(most int, what string) func(*reader, *string) field {
	return func(r *reader, dst *string) field {
		return func(n ast.Node, path string) {
			v := 0
			r.count(&v, 1, most, what)(n, path)
			*dst = strconv.Itoa(v)
		}
	}
}

func costBars(c *CostRun) barForm {
	return barForm{
		example: "{case: veths, scheduler: fair, added: 75%, of: htb}",
		figures: []Figure{FigureAdded, FigureFlat},
		where: map[string]func(*reader, *string) field{
			KeyCase:      oneOf("case", CostCases...),
			KeyWorkloads: wholeNumber(maxCostWorkloads, "a number of workloads"),
		},
		schedulers: c.Schedulers, inside: true,
	}
}

func timingBars(t *Timing) barForm {
	return barForm{
		example:    "{scheduler: fair, late_p99: 20us}",
		figures:    []Figure{FigureLate50, FigureLate99, FigureLateMax, FigureGap50, FigureGap99, FigureRate},
		where:      map[string]func(*reader, *string) field{KeyCPUs: oneOf("state of the CPUs", "idle", "busy")},
		schedulers: t.Schedulers,
	}
}

// cpuFigures are those of a scenario with phases.
var cpuFigures = []Figure{FigureCPU, FigurePerPacket}

// flowFigures are figures of a flow or a workload.
var flowFigures = []Figure{FigureRequests, FigureRTT50, FigureRTT99, FigureRTTMean, FigureRTTMost}

// barOnly are the keys that only a bar has; rtt_p50 and rtt_p99 without a scheduler to
// compare with are expectations.
var barOnly = []string{"of", string(FigureCPU), string(FigurePerPacket), string(FigureRequests), string(FigureRTTMean), string(FigureRTTMost)}

func phaseBars(s *Scenario) barForm {
	var flows []string
	for _, e := range s.Entries() {
		flows = append(flows, e.Name)
	}
	return barForm{
		example: "{scheduler: fair, cpu_per_packet: 60%, of: htb}",
		figures: slices.Concat(cpuFigures, flowFigures),
		where: map[string]func(*reader, *string) field{
			KeyPhase:    wholeNumber(len(s.Phases), "a phase's number"),
			KeyWorkload: oneOf("workload", workloadNames(s)...),
			KeyFlow:     oneOf("flow", flows...),
		},
		schedulers: s.AllSchedulers(),
	}
}

// statesBar says whether an entry of expect is a bar, on a figure that a scheduler has
// once for a phase.
func statesBar(n ast.Node) bool {
	var list []*ast.MappingValueNode
	switch v := n.(type) {
	case *ast.MappingNode:
		list = v.Values
	case *ast.MappingValueNode:
		list = []*ast.MappingValueNode{v}
	}
	return slices.ContainsFunc(list, func(e *ast.MappingValueNode) bool {
		return slices.Contains(barOnly, keyText(e.Key))
	})
}

// CountsCPU says whether a condition needs CPU time to be measured exactly.
func (s *Scenario) CountsCPU() bool {
	return slices.ContainsFunc(s.Bars, func(b Bar) bool { return slices.Contains(cpuFigures, b.Figure) })
}

func (r *reader) bars(n ast.Node, s *Scenario, f barForm) {
	for i, item := range r.items(n, "expect", "a list such as ["+f.example+"]") {
		r.bar(item, index("expect", i), s, f)
	}
}

// bar reads one entry, which may state several conditions.
func (r *reader) bar(n ast.Node, path string, s *Scenario, f barForm) {
	b := Bar{Line: line(n), Text: n.String(), Where: map[string]string{}}
	limits, before := map[Figure]ast.Node{}, len(r.problems)
	known := map[string]field{"scheduler": r.measured(&b.Scheduler, f), "of": r.measured(&b.Of, f)}
	for key, read := range f.where {
		known[key] = func(n ast.Node, path string) {
			v := ""
			read(r, &v)(n, path)
			b.Where[key] = v
		}
	}
	for _, figure := range f.figures {
		known[string(figure)] = func(n ast.Node, _ string) { limits[figure] = n }
	}
	r.fields(n, path, "a mapping such as "+f.example, known)
	_, flat := limits[FigureFlat]
	_, flow := b.Where[KeyFlow]
	_, workload := b.Where[KeyWorkload]
	_, sized := b.Where[KeyWorkloads]
	switch {
	case len(r.problems) > before:
	case b.Scheduler == "":
		r.fail(n, path, "", "needs a scheduler; write such as %s", f.example)
	case len(limits) == 0:
		r.fail(n, path, "", "states no condition; write such as %s", f.example)
	case b.Of == b.Scheduler:
		r.fail(n, path, "", "compares %s with itself; leave of out, or name another scheduler", b.Of)
	case flat && (b.Of != "" || sized):
		r.fail(n, path, "", "flat is over all numbers of workloads of one scheduler; leave of and workloads out")
	case flow && !workload:
		r.fail(n, path, "", "a flow is one of a workload's; write workload: NAME")
	default:
		for _, name := range names(limits) {
			b.Figure = Figure(name)
			r.barLimit(&b, limits[b.Figure], join(path, name))
			s.Bars = append(s.Bars, b)
		}
	}
}

// measured reads the name of a scheduler of which there are figures.
func (r *reader) measured(dst *string, f barForm) field {
	return func(n ast.Node, path string) {
		name, ok := r.scalar(n, path, "a scheduler's name")
		if !ok {
			return
		}
		base, _, _ := strings.Cut(name, "+")
		if slices.Contains(f.schedulers, name) || f.inside && slices.Contains(f.schedulers, base) {
			*dst = name
			return
		}
		r.fail(n, path, name, "is not measured by this file; there are %s", strings.Join(f.schedulers, ", "))
	}
}

// mostOf is the largest part of another scheduler's figure that a bar can allow.
const mostOf = 1000

func (r *reader) barLimit(b *Bar, n ast.Node, path string) {
	if b.Of != "" || b.Figure.isShare() {
		r.share(&b.Limit, mostOf)(n, path)
		return
	}
	if b.Figure == FigureRequests {
		count := 0
		r.count(&count, 1, 1<<30, "requests per second")(n, path)
		b.Limit = float64(count)
		return
	}
	var d time.Duration
	r.duration(&d, 0)(n, path)
	b.Limit = float64(d)
}
