// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"math"

	"weir/internal/base/verdict"
	"weir/internal/lab/scenario"
)

// Recorded holds the results of a run, read from its output with --json.
type Recorded struct {
	Scheduler string // of a run with phases
	Lines     [][]byte
}

// Verdicts judges a run with phases anew, but for CPU time, by the expectations as they
// stand in the file now. Those are left out of which the lines do not have all: bounds,
// for which they lack what a workload's min is in the phase, and flows that were left out
// because they say the same as their workload.
func (r Recorded) Verdicts(s *scenario.Scenario) ([]verdict.Verdict, error) {
	result, err := r.result(s)
	if err != nil {
		return nil, err
	}
	var list []verdict.Verdict
	for _, v := range result.check() {
		if v.Holds = len(v.Failures) == 0; v.Figure != "" && v.Check != string(scenario.CheckBounds) {
			list = append(list, v)
		}
	}
	return list, nil
}

// Figures returns the figures that bars are about: of cost, timing or CPU time.
func (r Recorded) Figures(s *scenario.Scenario) ([]Figures, error) {
	switch {
	case s.Cost != nil:
		rows, err := decode[CostRow](r.Lines)
		return (&CostResult{Rows: rows}).Figures(), err
	case s.Timing != nil:
		rows, err := decode[TimingRow](r.Lines)
		return (&TimingResult{Rows: rows}).Figures(), err
	}
	result, err := r.result(s)
	if err != nil {
		return nil, err
	}
	return result.Figures(), nil
}

func decode[T any](lines [][]byte) (list []T, err error) {
	for _, line := range lines {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// result puts the lines of a run with phases together again: each phase's workloads,
// then its link.
func (r Recorded) result(s *scenario.Scenario) (*Result, error) {
	result := &Result{Scenario: s, Scheduler: r.Scheduler}
	var p Phase
	for _, line := range r.Lines {
		var kind struct{ Workload, Link, Problem string }
		if err := json.Unmarshal(line, &kind); err != nil {
			return nil, err
		}
		if kind.Problem != "" {
			continue // of a scheduler that was not measured
		}
		if kind.Link == "" {
			w := Workload{ceiling: math.Inf(1)}
			if err := json.Unmarshal(line, &w); err != nil {
				return nil, err
			}
			p.Workloads = append(p.Workloads, w)
			continue
		}
		if err := json.Unmarshal(line, &p.Link); err != nil {
			return nil, err
		}
		p.Number = p.Link.Phase
		result.Phases, p = append(result.Phases, p), Phase{}
	}
	return result, nil
}
