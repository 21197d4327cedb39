// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"

	"weir/internal/dev/figures"
	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
)

// fromRuns are the figures of the runs below docs/papers/data, which make figures keeps,
// of a scenario file as it stands; a run of a file that has changed since counts as none.
func fromRuns(root string, data *figures.Runs, file string) (list []figure, err error) {
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return nil, err
	}
	var s *scenario.Scenario
	var rows []report.Figures
	var ran []string
	var last origin
	for _, name := range data.Names() {
		run := data.Run(name)
		if run.Source.Scenario != file || run.Source.Digest != figures.Digest(text) {
			continue
		}
		if s == nil {
			if s, err = scenario.Parse(file, text); err != nil {
				return nil, err
			}
		}
		last = origin{Date: run.Source.Date, Commit: run.Source.Commit[:min(12, len(run.Source.Commit))], Kernel: run.Source.Kernel}
		r := report.Recorded{Scheduler: run.Source.Scheduler, Lines: run.Lines}
		more, err := r.Figures(s)
		if err != nil {
			return nil, err
		}
		rows, ran = append(rows, more...), append(ran, run.Source.Scheduler)
		if s.Cost != nil || s.Timing != nil {
			continue
		}
		verdicts, err := r.Verdicts(s)
		if err != nil {
			return nil, err
		}
		for _, v := range verdicts {
			list = append(list, figure{v, last})
		}
	}
	if s == nil {
		return nil, nil
	}
	switch {
	case s.Cost != nil:
		ran = s.Cost.Schedulers
	case s.Timing != nil:
		ran = s.Timing.Schedulers
	}
	for _, v := range report.JudgeBars(s, ran, rows) {
		v.Holds = len(v.Failures) == 0
		list = append(list, figure{v, last})
	}
	return list, nil
}
