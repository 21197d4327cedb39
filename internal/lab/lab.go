// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/internal/base/verdict"
	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/backends"
	"weir/internal/lab/peers"
	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
)

// Exit statuses of Run.
const (
	ExitOK      = 0
	ExitFailed  = 1 // an expectation does not hold, a generator failed, or one of several schedulers was not measured
	ExitInvalid = 2 // a scenario or an option is wrong; nothing was run
	ExitBroken  = 3 // a scenario could not be run here
)

// Options of Run.
type Options struct {
	Files     []string // scenario files; a folder stands for its *.yaml
	Verdicts  string   // file that a JSON line for each expectation is added to, "" = none
	JSON      bool     // JSON lines instead of tables
	PlotDir   string   // "" = no plots
	Scheduler string   // instead of the files'; several with commas run one after the other
	Backend   string   // one of plan.Backends; "" = plan.BackendAuto
	CPU       bool     // measure CPU time exactly, with a soaker
	Stdout    io.Writer
	Stderr    io.Writer
	Log       *slog.Logger
}

// Run runs scenario files one after the other and reports each when it is done.
// All files are checked before the first is run. The error says why Run ended
// early or what was wrong with the files; expectations that do not hold, generators that
// failed and schedulers that were not measured beside others are in the report.
func Run(ctx context.Context, o Options) (exit int, err error) {
	if err := o.check(); err != nil {
		return ExitInvalid, err
	}
	scenarios, err := load(o.Files)
	if err != nil {
		return ExitInvalid, err
	}
	if err := o.demanded(); err != nil {
		return ExitBroken, err
	}
	var broken []error
	for _, l := range scenarios {
		status, err := o.one(ctx, l)
		exit = max(exit, status)
		if err == nil {
			continue
		}
		exit = ExitBroken
		broken = append(broken, fmt.Errorf("%s: %w", l.File, err))
		if ends(ctx, err) {
			break
		}
	}
	return exit, errors.Join(broken...)
}

func (o *Options) check() error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if len(o.Files) == 0 {
		return errors.New("no scenario file given; try lab/demo/shares.yaml")
	}
	if o.Backend != "" && !slices.Contains(plan.Backends, o.Backend) {
		return fmt.Errorf("backend %q: there are %s", o.Backend, strings.Join(plan.Backends, ", "))
	}
	for _, name := range o.schedulers() {
		if !scenario.IsScheduler(name) {
			return fmt.Errorf("scheduler %q: there are %s", name, strings.Join(scenario.Schedulers, ", "))
		}
	}
	if o.PlotDir != "" {
		return report.CheckPlotDir(o.PlotDir)
	}
	return nil
}

// demanded returns why the backend that was asked for by name cannot run here.
func (o *Options) demanded() error {
	if o.Backend == plan.BackendBPF {
		return backends.Demand()
	}
	return nil
}

// schedulers that scenarios are run with: the options', or else their own.
func (o *Options) schedulers(own ...string) []string {
	if o.Scheduler == "" {
		return own
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
				problems = append(problems, fmt.Errorf("FILE: %w; name a scenario file, or a folder of them", err))
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

// one runs a scenario with each of its schedulers. A scheduler that cannot be measured
// fails the run, and takes nothing from the others: their results are shown, kept and
// judged. The error is about a scenario of which nothing was measured.
func (o *Options) one(ctx context.Context, l loaded) (exit int, err error) {
	if l.Cost != nil {
		return o.cost(ctx, l)
	}
	if l.Timing != nil {
		return o.timing(ctx, l)
	}
	var broken []error
	var unmeasured []report.Unmeasured
	var figures []report.Figures
	run := o.schedulers(l.AllSchedulers()...)
	for _, scheduler := range run {
		result, err := o.measure(ctx, l, scheduler)
		if err != nil {
			unmeasured = append(unmeasured, report.Unmeasured{Scenario: l.Name, Scheduler: scheduler, Problem: err.Error()})
			broken = append(broken, fmt.Errorf("scheduler %s: %w", scheduler, err))
			if ends(ctx, err) {
				return ExitBroken, errors.Join(broken...)
			}
			continue
		}
		if err := o.show(result); err != nil {
			return ExitBroken, err
		}
		if err := verdict.Add(o.Verdicts, result.Verdicts); err != nil {
			return ExitBroken, err
		}
		if result.Failed() {
			exit = ExitFailed
		}
		figures = append(figures, result.Figures()...)
	}
	if len(broken) == len(run) {
		return ExitBroken, errors.Join(broken...)
	}
	problems, err := o.showUnmeasured(unmeasured)
	if err != nil {
		return ExitBroken, err
	}
	status, err := o.judge(l, report.JudgeBars(l.Scenario, run, figures), problems)
	return max(exit, status), err
}

// showUnmeasured writes the schedulers that were not measured, and returns a line for each.
func (o *Options) showUnmeasured(list []report.Unmeasured) (problems []string, err error) {
	for _, u := range list {
		problems = append(problems, u.String())
		if o.JSON {
			err = errors.Join(err, json.NewEncoder(o.Stdout).Encode(u))
			continue
		}
		_, failed := fmt.Fprintf(o.Stdout, "%s\n%s\n\n", u.Scenario, u)
		err = errors.Join(err, failed)
	}
	return problems, err
}

// ends says whether all that comes after an error would fail in the same way.
func ends(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, dataplane.ErrPrivilege)
}

// judge shows what became of a scenario's bars, and which measurements there are not.
func (o *Options) judge(l loaded, verdicts []verdict.Verdict, problems []string) (exit int, err error) {
	if err := verdict.Add(o.Verdicts, verdicts); err != nil {
		return ExitBroken, err
	}
	if left := len(l.Bars) - len(verdicts); left > 0 {
		fmt.Fprintf(o.Stderr, "%s: %d expectations are about schedulers that were not run; leave --scheduler out to have them judged\n", l.File, left)
	}
	failures := verdict.Failures(verdicts)
	if len(failures)+len(problems) > 0 {
		exit = ExitFailed
	}
	if !o.JSON {
		_, err := io.WriteString(o.Stdout, report.VerdictTable(verdicts))
		return exit, err
	}
	for _, p := range problems {
		fmt.Fprintf(o.Stderr, "problem: %s: %s\n", l.File, p)
	}
	for _, f := range failures {
		fmt.Fprintln(o.Stderr, "expectation does not hold:", f)
	}
	return exit, nil
}

func (o *Options) measure(ctx context.Context, l loaded, scheduler string) (*report.Result, error) {
	o.Log.Info("run scenario", "file", l.File, "scheduler", scheduler, "takes", l.Duration().Round(time.Second))
	var m report.Measurement
	ask := request{File: l.File, Data: l.data, Scheduler: scheduler, Backend: o.Backend, CPU: o.CPU || l.CountsCPU()}
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
