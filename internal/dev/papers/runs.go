// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"weir/internal/dev/figures"
	"weir/internal/dev/papers/algorithm1"
	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
)

// run is one scenario with one scheduler, as `weir lab run --json` printed it.
type run struct {
	scenario  *scenario.Scenario
	name      string // fig07-qcon: of its JSON, its folder and its plot
	scheduler string
	source    figures.Origin
	phases    []phase
	timing    []report.TimingRow // of a scenario that measures that
}

type phase struct {
	workloads []report.Workload
	link      report.Link
}

// results are all runs that there are, by name, and the names of those that are
// missing.
type results struct {
	paper     *paper
	runs      map[string]*run
	scenarios map[string]*scenario.Scenario
	missing   []string
}

// read all runs that the page shows from the data, and their scenarios from the folder lab.
func read(p *paper, data *figures.Runs, lab fs.FS) (*results, error) {
	r := &results{paper: p, runs: map[string]*run{}, scenarios: map[string]*scenario.Scenario{}}
	for _, w := range p.wanted() {
		s, err := r.scenario(lab, p.folder(w), w.scenario)
		if err != nil {
			return nil, err
		}
		x := &run{scenario: s, scheduler: w.scheduler, name: w.name()}
		d := data.Run(p.name + "/" + x.name)
		if d == nil {
			r.missing = append(r.missing, x.name)
			continue
		}
		x.source = d.Source
		if err := x.take(d); err != nil {
			return nil, fmt.Errorf("%s/%s.jsonl: %w", figures.Folder, d.Name, err)
		}
		r.runs[x.name] = x
	}
	return r, nil
}

func (r *results) scenario(lab fs.FS, folder, name string) (*scenario.Scenario, error) {
	if s := r.scenarios[name]; s != nil {
		return s, nil
	}
	data, err := fs.ReadFile(lab, folder+"/"+name+".yaml")
	if err != nil {
		return nil, err
	}
	s, err := scenario.Parse(name+".yaml", data)
	r.scenarios[name] = s
	return s, err
}

// take what the page needs of a run's data.
func (x *run) take(d *figures.Run) error {
	again := func(format string, args ...any) error {
		return fmt.Errorf(format+"; measure again: scripts/papers %s", append(args, d.Name)...)
	}
	if t := x.scenario.Timing; t != nil {
		x.timing = d.Timings()
		if want := 2 * len(t.Schedulers); len(x.timing) != want {
			return again("%d rows, the scenario asks for %d", len(x.timing), want)
		}
		return nil
	}
	for n := range x.scenario.Phases {
		link, found := d.Link(n + 1)
		p := phase{workloads: d.Workloads(n + 1), link: link}
		if !found {
			return again("no phase %d, the scenario has %d", n+1, len(x.scenario.Phases))
		}
		if len(p.workloads) != len(x.scenario.Workloads) {
			return again("phase %d has %d workloads, the scenario has %d", n+1, len(p.workloads), len(x.scenario.Workloads))
		}
		x.phases = append(x.phases, p)
	}
	return nil
}

// worst is the largest error of a rate, as a share of the link, and its place.
func (x *run) worst() (share float64, place string) {
	for _, p := range x.phases {
		for _, w := range p.workloads {
			if e := math.Abs(w.Error); e >= share {
				share, place = e, fmt.Sprintf("case %d, %s", w.Phase, w.Workload)
			}
		}
	}
	return share, place
}

// utilisation is the lowest of all phases.
func (x *run) utilisation() float64 {
	least := math.Inf(1)
	for _, p := range x.phases {
		least = min(least, p.link.Utilisation)
	}
	return least
}

// latency of a phase: the mean of the workloads' p50 and the worst p99, in
// milliseconds; nil if no workload has a latency.
func (x *run) latency(p int) (p50, p99 *float64) {
	var total, worst float64
	n := 0
	for _, w := range x.phases[p].workloads {
		if w.RTT.P50 != nil && w.RTT.P99 != nil {
			total, worst, n = total+*w.RTT.P50, max(worst, *w.RTT.P99), n+1
		}
	}
	if n == 0 {
		return nil, nil
	}
	total /= float64(n)
	return &total, &worst
}

// bar returns the bars of a scenario file for a scheduler: the largest error of a
// rate, as a share of the link, and the lowest utilisation, in all phases; 0 =
// nothing.
func bar(s *scenario.Scenario, scheduler string) (err, utilisation float64) {
	for _, e := range s.Expect {
		switch {
		case e.Scheduler != "" && e.Scheduler != scheduler, e.Phase != 0:
		case e.Check == scenario.CheckRate && e.Ideal:
			err = max(float64(e.Within.Rate)/float64(s.Link.Capacity()), e.Within.Share)
		case e.Check == scenario.CheckUtilisation:
			utilisation = e.Value
		}
	}
	return err, utilisation
}

// predicted is algorithm1 for all that send in a phase, 0 for the others.
func (x *run) predicted(p int) []float64 {
	var senders []scenario.Policy
	policies := x.scenario.Policies()[p]
	for w := range policies {
		if x.phases[p].workloads[w].IdealBps > 0 {
			senders = append(senders, policies[w])
		}
	}
	rates := algorithm1.Rates(float64(x.scenario.Link.Capacity()), senders)
	list := make([]float64, len(policies))
	for w := range policies {
		if x.phases[p].workloads[w].IdealBps > 0 {
			list[w], rates = rates[0], rates[1:]
		}
	}
	return list
}

// reaction is the slowest to a change of the shares, or "" if nothing changed.
func (x *run) reaction() string {
	slowest, changed := 0.0, false
	for p := range x.phases {
		l := x.phases[p].link
		if l.ReactionWindowMs == nil {
			continue
		}
		changed = true
		ms := l.ReactionMs
		if ms == nil {
			return fmt.Sprintf("never in case %d", p+1)
		}
		slowest = max(slowest, *ms)
	}
	if !changed {
		return ""
	}
	return fmt.Sprintf("%.0f ms", slowest)
}

// goodput is the share of the wire's bits that the receivers' programs saw.
func (x *run) goodput() float64 {
	var good, wire float64
	for _, p := range x.phases {
		for _, w := range p.workloads {
			if w.GoodputBps != nil {
				good, wire = good+*w.GoodputBps, wire+w.RateBps
			}
		}
	}
	return good / wire
}

// sources are the kernels that the runs were on, the commits that they were of, and their
// days, each once.
func (r *results) sources() (kernels, commits, days string) {
	return r.each(func(s figures.Origin) string { return s.Kernel }),
		r.each(func(s figures.Origin) string { return s.Measured() }),
		r.each(func(s figures.Origin) string { return s.Date })
}

func (r *results) each(of func(figures.Origin) string) string {
	var list []string
	for _, x := range r.runs {
		if v := of(x.source); !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
