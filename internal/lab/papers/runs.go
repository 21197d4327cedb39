// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
)

// run is one scenario with one scheduler, as `weir lab run --json` printed it.
type run struct {
	scenario  *scenario.Scenario
	name      string // fig07-qcon: of its JSON, its folder and its plot
	scheduler string
	kernel    string
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

// name of the run's JSON, folder and plot.
func (w want) name() string { return w.scenario + "-" + w.scheduler }

// read all runs that the page shows from the folder that scripts/papers filled.
func read(p *paper, raw, scenarios fs.FS) (*results, error) {
	r := &results{paper: p, runs: map[string]*run{}, scenarios: map[string]*scenario.Scenario{}}
	for _, w := range p.wanted() {
		s, err := r.scenario(scenarios, w.scenario)
		if err != nil {
			return nil, err
		}
		x := &run{scenario: s, scheduler: w.scheduler, name: w.name()}
		data, err := fs.ReadFile(raw, x.name+".json")
		if errors.Is(err, fs.ErrNotExist) {
			r.missing = append(r.missing, x.name)
			continue
		}
		if err != nil {
			return nil, err
		}
		decode := x.decode
		if s.Timing != nil {
			decode = x.decodeTiming
		}
		if err := decode(data); err != nil {
			return nil, fmt.Errorf("%s.json: %w", x.name, err)
		}
		kernel, err := fs.ReadFile(raw, x.name+"/kernel")
		if err != nil {
			return nil, err
		}
		x.kernel = strings.TrimSpace(string(kernel))
		r.runs[x.name] = x
	}
	return r, nil
}

func (r *results) scenario(folder fs.FS, name string) (*scenario.Scenario, error) {
	if s := r.scenarios[name]; s != nil {
		return s, nil
	}
	data, err := fs.ReadFile(folder, name+".yaml")
	if err != nil {
		return nil, err
	}
	s, err := scenario.Parse(name+".yaml", data)
	r.scenarios[name] = s
	return s, err
}

// decode one object per line: each phase's workloads, then its link.
func (x *run) decode(data []byte) error {
	var p phase
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		if bytes.Contains(lines.Bytes(), []byte(`"workload":`)) {
			var w report.Workload
			if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
				return err
			}
			p.workloads = append(p.workloads, w)
			continue
		}
		if err := json.Unmarshal(lines.Bytes(), &p.link); err != nil {
			return err
		}
		if len(p.workloads) != len(x.scenario.Workloads) {
			return fmt.Errorf("phase %d has %d workloads, the scenario has %d; remove it and run scripts/papers again",
				p.link.Phase, len(p.workloads), len(x.scenario.Workloads))
		}
		x.phases, p = append(x.phases, p), phase{}
	}
	if len(x.phases) != len(x.scenario.Phases) {
		return fmt.Errorf("%d phases, the scenario has %d; remove it and run scripts/papers again",
			len(x.phases), len(x.scenario.Phases))
	}
	return lines.Err()
}

// decodeTiming reads one object per row.
func (x *run) decodeTiming(data []byte) error {
	for line := range bytes.Lines(data) {
		var row report.TimingRow
		if err := json.Unmarshal(line, &row); err != nil {
			return err
		}
		x.timing = append(x.timing, row)
	}
	if want := 2 * len(x.scenario.Timing.Schedulers); len(x.timing) != want {
		return fmt.Errorf("%d rows, the scenario asks for %d; remove it and run scripts/papers again", len(x.timing), want)
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
// milliseconds; nil if nobody measured any.
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

// bar is what the scenario file expects of a scheduler: the largest error of a
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
	rates := algorithm1(float64(x.scenario.Link.Capacity()), senders)
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

// kernels that the runs were on, each once.
func (r *results) kernels() string {
	var list []string
	for _, x := range r.runs {
		if !slices.Contains(list, x.kernel) {
			list = append(list, x.kernel)
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
