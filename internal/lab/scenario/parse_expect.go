// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"weir/internal/core/policy"
)

// checksOfLink are conditions on the link as a whole; they take no workload.
var checksOfLink = map[Check]bool{CheckUtilisation: true, CheckReaction: true, CheckDrops: true, CheckBounds: true, CheckSteady: true}

// expect reads the conditions, by what the file measures.
func (r *reader) expect(n ast.Node, s *Scenario) {
	switch {
	case s.Cost != nil:
		r.bars(n, s, costBars(s.Cost))
	case s.Timing != nil:
		r.bars(n, s, timingBars(s.Timing))
	default:
		r.expectations(n, s)
	}
}

func (r *reader) expectations(n ast.Node, s *Scenario) {
	for i, item := range r.items(n, "expect", "a list such as [{phase: 1, workload: c1, rate: 16.7mbit, within: 2%}]") {
		if path := index("expect", i); statesBar(item) {
			r.bar(item, path, s, phaseBars(s))
		} else {
			r.expectation(item, path, s)
		}
	}
}

// expectation reads one entry. An entry may state several conditions; they
// share phase, workload and within.
func (r *reader) expectation(n ast.Node, path string, s *Scenario) {
	common := Expectation{Workload: -1, Line: line(n), Text: n.String()}
	given := map[Check]Expectation{}
	var flow, queue ast.Node // where they are named
	within, before := false, len(r.problems)
	known := map[string]field{
		"phase":     r.count(&common.Phase, 1, len(s.Phases), "a phase's number"),
		"workload":  r.workloadName(&common.Workload, s),
		"flow":      func(n ast.Node, path string) { flow = n; r.str(&common.Flow, "a traffic entry's name")(n, path) },
		"queue":     func(n ast.Node, path string) { queue = n; r.str(&common.Queue, "a queue's name")(n, path) },
		"scheduler": r.scheduler(&common.Scheduler),
		"within":    func(n ast.Node, path string) { within = true; r.margin(&common.Within, s)(n, path) },
	}
	for check, read := range r.checks(s) {
		known[string(check)] = func(n ast.Node, path string) {
			var e Expectation
			read(&e, n, path)
			given[check] = e
		}
	}
	r.fields(n, path, "a mapping such as {phase: 1, workload: c1, rate: 16.7mbit, within: 2%}", known)
	if len(r.problems) > before {
		return
	}
	if !r.inside(n, path, common, flow, queue, s) {
		return
	}
	_, rate := given[CheckRate]
	_, bounds := given[CheckBounds]
	if _, goodput := given[CheckGoodput]; goodput {
		rate = true
	}
	switch {
	case len(given) == 0:
		r.fail(n, path, "", "states no condition; write for example rate: 16.7mbit")
	case (rate || bounds) && !within:
		r.fail(n, path, "", "needs a margin; write within: 2%% or within: 1mbit")
	case within && !rate && !bounds:
		r.fail(n, path, "", "within goes with rate or bounds")
	case rate && !given[CheckRate].Ideal && common.Workload < 0: // also of a goodput
		r.fail(n, path, "", "a rate needs a workload; write workload: %s, or rate: ideal for all", s.Workloads[0].Name)
	}
	for _, check := range names(given) {
		e := given[Check(check)]
		e.Check, e.Line, e.Text, e.Scheduler = Check(check), common.Line, common.Text, common.Scheduler
		e.Phase, e.Workload, e.Within = common.Phase, common.Workload, common.Within
		e.Flow, e.Queue = common.Flow, common.Queue
		if checksOfLink[e.Check] && e.Workload >= 0 {
			r.fail(n, path, "", "%s is a condition on the link; leave the workload out", check)
			return
		}
		s.Expect = append(s.Expect, e)
	}
}

// inside looks whether there are the flow and the queue that an expectation is
// about.
func (r *reader) inside(n ast.Node, path string, e Expectation, flow, queue ast.Node, s *Scenario) bool {
	if e.Flow == "" && e.Queue == "" {
		return true
	}
	if e.Workload < 0 {
		r.fail(n, path, "", "a flow or a queue is one of a workload's; write workload: %s", s.Workloads[0].Name)
		return false
	}
	var flows, queues []string
	for _, entry := range s.Entries() {
		if entry.Workload == e.Workload {
			flows = append(flows, entry.Name)
		}
	}
	for _, policies := range s.Policies() {
		for _, q := range policies[e.Workload].Queues {
			if !slices.Contains(queues, q.Name) {
				queues = append(queues, q.Name)
			}
		}
	}
	before, name := len(r.problems), s.Workloads[e.Workload].Name
	for _, x := range []struct {
		n          ast.Node
		what, name string
		known      []string
	}{{flow, "flow", e.Flow, flows}, {queue, "queue", e.Queue, queues}} {
		switch {
		case x.name == "" || slices.Contains(x.known, x.name):
		case len(x.known) == 0:
			r.fail(x.n, join(path, x.what), x.name, "workload %s has no %ss", name, x.what)
		default:
			r.unknown(x.n, join(path, x.what), x.what, x.name, x.known)
		}
	}
	return len(r.problems) == before
}

// checks are the readers of each condition's value.
func (r *reader) checks(s *Scenario) map[Check]func(*Expectation, ast.Node, string) {
	seconds := func(e *Expectation, n ast.Node, path string) {
		var d time.Duration
		r.duration(&d, 0)(n, path)
		e.Value = d.Seconds()
	}
	share := func(e *Expectation, n ast.Node, path string) { r.share(&e.Value, 1)(n, path) }
	return map[Check]func(*Expectation, ast.Node, string){
		CheckRate: func(e *Expectation, n ast.Node, path string) {
			if text(n) == "ideal" {
				e.Ideal = true
				return
			}
			var v policy.Rate
			r.rate(&v, s.Link.Bandwidth)(n, path)
			e.Value = float64(v)
		},
		CheckBounds: func(e *Expectation, n ast.Node, path string) {
			if v := text(n); v != "held" {
				r.fail(n, path, v, "needs the word held")
			}
		},
		CheckDrops: func(e *Expectation, n ast.Node, path string) {
			v := 0
			r.count(&v, 0, 1<<30, "a number of packets")(n, path)
			e.Value = float64(v)
		},
		CheckGoodput: func(e *Expectation, n ast.Node, path string) {
			if text(n) == "wire" {
				e.Ideal = true
				return
			}
			var v policy.Rate
			r.rate(&v, s.Link.Bandwidth)(n, path)
			e.Value = float64(v)
		},
		CheckSettle:      seconds,
		CheckOvershoot:   share,
		CheckDisturbance: share,
		CheckRecovery:    seconds,
		CheckUtilisation: share,
		CheckLoss:        share,
		CheckReaction:    seconds,
		CheckSteady:      share,
		CheckRTT50:       seconds,
		CheckRTT99:       seconds,
		CheckJitter:      seconds,
	}
}

func (r *reader) workloadName(dst *int, s *Scenario) field {
	return func(n ast.Node, path string) {
		name, ok := r.scalar(n, path, "a workload's name")
		if !ok {
			return
		}
		if *dst = s.Index(name); *dst < 0 {
			r.unknown(n, path, "workload", name, workloadNames(s))
		}
	}
}

// margin reads 2% (of the expected rate) or 1mbit.
func (r *reader) margin(dst *Margin, s *Scenario) field {
	return func(n ast.Node, path string) {
		v, ok := r.scalar(n, path, "a margin such as 2% or 1mbit")
		if !ok {
			return
		}
		if strings.HasSuffix(v, "%") {
			r.share(&dst.Share, 1)(n, path)
			return
		}
		r.positiveRate(&dst.Rate, 0)(n, path)
	}
}

// paper reads published figures; a number alone is in Mbit/s, as papers print it.
func (r *reader) paper(n ast.Node, s *Scenario) {
	r.fields(n, "paper", "a mapping such as {source: ..., rates: [{c1: 33}]}", map[string]field{
		"source": r.str(&s.Paper.Source, "where the figures come from"),
		"note":   r.str(&s.Paper.Note, "a remark"),
		"rates": func(n ast.Node, path string) {
			items := r.items(n, path, "a list with one mapping per phase, such as [{c1: 33}]")
			if len(items) > len(s.Phases) {
				r.fail(n, path, "", "%d entries for %d phases", len(items), len(s.Phases))
				return
			}
			for i, item := range items {
				s.Paper.Rates = append(s.Paper.Rates, r.paperRates(item, index(path, i), s))
			}
		},
	})
}

func (r *reader) paperRates(n ast.Node, path string, s *Scenario) map[string]policy.Rate {
	rates := map[string]policy.Rate{}
	known := map[string]field{}
	for _, name := range workloadNames(s) {
		known[name] = func(n ast.Node, path string) {
			v, err := strconv.ParseFloat(text(n), 64)
			if err != nil || v < 0 || v > 1e6 {
				r.fail(n, path, text(n), "needs a number of Mbit/s, as the paper prints it")
				return
			}
			rates[name] = policy.Rate(v * 1e6)
		}
	}
	r.fields(n, path, "a mapping such as {c1: 33}", known)
	return rates
}

func line(n ast.Node) int {
	if t := first(n).GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 1
}
