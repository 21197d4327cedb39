// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/internal/lab/peers"
	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
)

// Exit statuses of Run.
const (
	ExitOK      = 0
	ExitFailed  = 1 // an expectation does not hold
	ExitInvalid = 2 // a scenario or an option is wrong; nothing was run
	ExitBroken  = 3 // a scenario could not be run here
)

// Options of Run.
type Options struct {
	Files     []string // scenario files; a folder stands for its *.yaml
	JSON      bool     // JSON lines instead of tables
	PlotDir   string   // "" = no plots
	Scheduler string   // instead of the files'; several with commas run one after the other
	Backend   string   // BackendAuto, BackendBPF or BackendTC; "" = auto
	CPU       bool     // measure CPU time exactly, with a soaker
	Stdout    io.Writer
	Stderr    io.Writer
	Log       *slog.Logger
}

// Run runs scenario files one after the other and reports each when it is done.
// All files are checked before the first is run. The error says why Run ended
// early or what was wrong with the files; failed expectations are in the report.
func Run(ctx context.Context, o Options) (exit int, err error) {
	if err := o.check(); err != nil {
		return ExitInvalid, err
	}
	scenarios, err := load(o.Files)
	if err != nil {
		return ExitInvalid, err
	}
	for _, l := range scenarios {
		status, err := o.one(ctx, l)
		if err != nil {
			return ExitBroken, fmt.Errorf("%s: %w", l.File, err)
		}
		exit = max(exit, status)
	}
	return exit, nil
}

func (o *Options) check() error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if len(o.Files) == 0 {
		return errors.New("no scenario file given; try lab/demo/shares.yaml")
	}
	if !slices.Contains([]string{"", BackendAuto, BackendBPF, BackendTC}, o.Backend) {
		return fmt.Errorf("backend %q: there are %s, %s and %s", o.Backend, BackendAuto, BackendBPF, BackendTC)
	}
	for _, name := range o.schedulers("fair") {
		if !slices.Contains(scenario.Schedulers, name) {
			return fmt.Errorf("scheduler %q: there are %s", name, strings.Join(scenario.Schedulers, ", "))
		}
	}
	return nil
}

// schedulers that a scenario is run with.
func (o *Options) schedulers(own string) []string {
	if o.Scheduler == "" {
		return []string{own}
	}
	return strings.Split(o.Scheduler, ",")
}

// loaded is a checked scenario with its text, which the child reads again.
type loaded struct {
	*scenario.Scenario
	data []byte
}

// load reads and checks all files; the error has a line for each mistake in each.
func load(files []string) ([]loaded, error) {
	var list []loaded
	var problems []error
	for _, file := range files {
		names, err := expand(file)
		problems = append(problems, err)
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			s, err := scenario.Parse(name, data)
			problems = append(problems, err)
			list = append(list, loaded{s, data})
		}
	}
	return list, errors.Join(problems...)
}

// expand turns a folder into the scenario files in it.
func expand(file string) ([]string, error) {
	info, err := os.Stat(file)
	if err != nil || !info.IsDir() {
		return []string{file}, nil // a missing file is told when it is read
	}
	names, err := filepath.Glob(filepath.Join(file, "*.yaml"))
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("%s: a folder without scenario files (*.yaml)", file)
	}
	return names, err
}

// one runs a scenario with each of its schedulers.
func (o *Options) one(ctx context.Context, l loaded) (exit int, err error) {
	if l.Cost != nil {
		return o.cost(ctx, l)
	}
	if l.Timing != nil {
		return o.timing(ctx, l)
	}
	for _, scheduler := range o.schedulers(l.Scheduler) {
		result, err := o.measure(ctx, l, scheduler)
		if err != nil {
			return ExitBroken, err
		}
		if err := o.show(result); err != nil {
			return ExitBroken, err
		}
		if len(result.Failures) > 0 {
			exit = ExitFailed
		}
	}
	return exit, nil
}

func (o *Options) measure(ctx context.Context, l loaded, scheduler string) (*report.Result, error) {
	o.Log.Info("run scenario", "file", l.File, "scheduler", scheduler, "takes", l.Duration().Round(time.Second))
	var m report.Measurement
	ask := request{File: l.File, Data: l.data, Scheduler: scheduler, Backend: o.Backend, CPU: o.CPU}
	if err := inSandbox(ctx, partRun, ask, &m, o.Stderr); err != nil {
		return nil, err
	}
	return report.Evaluate(l.Scenario, m), nil
}

// show writes the report; with JSON lines on standard output, failures go to
// standard error.
func (o *Options) show(r *report.Result) error {
	if o.PlotDir != "" {
		base, err := report.Plot(o.PlotDir, r)
		if err != nil {
			return err
		}
		o.Log.Info("drew the timeline", "files", base+".svg, "+base+".png")
	}
	if !o.JSON {
		return report.Table(o.Stdout, r)
	}
	for _, f := range r.Failures {
		fmt.Fprintln(o.Stderr, "expectation does not hold:", f)
	}
	for _, p := range r.Problems {
		fmt.Fprintln(o.Stderr, "problem:", p)
	}
	return report.JSON(o.Stdout, r)
}

// ExplainPeers prints how each of the kernel's own schedulers is set up.
func ExplainPeers(w io.Writer) { peers.Explain(w) }
