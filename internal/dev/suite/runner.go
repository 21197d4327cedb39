// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// skipsFile lists the allowed skips.
const skipsFile = "scripts/skips"

// runner runs steps, as many at once as it has slots, and prints a step's output when the
// step ends.
type runner struct {
	slots  int
	folder string   // of logs
	kept   *results // what passed before by these is not run again; nil = nothing is kept
	list   skipList
	out    io.Writer
}

// outcome is a step's result, or that it passed in an earlier run.
type outcome struct {
	result
	earlier bool
}

// run runs the steps in their order and returns their outcomes, in the same order. Steps that
// are idle begin at once, as many at a time as there are slots; where the machine has no way to run
// them beside others (idleGroup), when the others have ended. The error says why a run could not go
// on: then the outcomes of the steps that had not ended are zero.
func (r *runner) run(ctx context.Context, steps []step) ([]outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	in := &running{runner: r, ctx: ctx, cancel: cancel, outcomes: make([]outcome, len(steps))}
	if !slices.ContainsFunc(steps, func(s step) bool { return s.Idle }) {
		in.ordinary(steps)
		return in.outcomes, context.Cause(ctx)
	}
	group, err := newIdleGroup()
	if err != nil {
		fmt.Fprintln(r.out, "what could run beside other steps runs after them:", err)
		in.ordinary(steps)
		in.idle(steps, func(s step) step { return s })
		return in.outcomes, context.Cause(ctx)
	}
	var both sync.WaitGroup
	both.Go(func() { in.idle(steps, group.within) })
	in.ordinary(steps)
	both.Wait()
	return in.outcomes, cmp.Or(context.Cause(ctx), group.remove())
}

// running is a run of steps.
type running struct {
	*runner
	ctx      context.Context
	cancel   context.CancelCauseFunc
	outcomes []outcome

	printing sync.Mutex
}

// idle runs the steps that are idle.
func (in *running) idle(steps []step, place func(step) step) {
	next := make(chan int, len(steps))
	for i, s := range steps {
		if s.Idle {
			next <- i
		}
	}
	close(next)
	var lanes sync.WaitGroup
	defer lanes.Wait()
	for range in.slots {
		lanes.Go(func() {
			for i := range next {
				if in.wanted(i, steps[i]) {
					in.one(i, place(steps[i]))
				}
			}
		})
	}
}

// ordinary runs the steps that are not idle.
func (in *running) ordinary(steps []step) {
	var running sync.WaitGroup
	defer running.Wait()
	free := make(chan struct{}, in.slots)
	for i, s := range steps {
		if s.Idle || !in.wanted(i, s) {
			continue
		}
		need := 1
		if s.Alone {
			need = in.slots
		}
		for range need {
			free <- struct{}{}
		}
		running.Go(func() {
			in.one(i, s)
			for range need {
				<-free
			}
		})
	}
}

// wanted says whether a step is to be run: the run goes on, and no result of it stands.
func (in *running) wanted(i int, s step) bool {
	if in.ctx.Err() != nil {
		return false
	}
	kept, stands, err := in.kept.passed(s)
	if err != nil {
		in.cancel(fmt.Errorf("%s: %w", s.Name, err))
		return false
	}
	if stands {
		in.printing.Lock()
		defer in.printing.Unlock()
		in.outcomes[i] = outcome{kept, true}
		fmt.Fprintf(in.out, "-- %s passed %s, with all that it runs as it is\n", s.Name, kept.At.Format(time.DateTime))
	}
	return !stands
}

// one runs a step, unless the run was ended meanwhile, and shows what came of it.
func (in *running) one(i int, s step) {
	if in.ctx.Err() != nil {
		return
	}
	res, err := in.logged(in.ctx, s)
	if err != nil {
		in.cancel(fmt.Errorf("%s: %w", s.Name, err))
		return
	}
	in.printing.Lock()
	defer in.printing.Unlock()
	in.outcomes[i] = outcome{result: res}
	in.show(s, res)
}

func (r *runner) file(s step, suffix string) string {
	return filepath.Join(r.folder, strings.NewReplacer("/", "-", " ", "-").Replace(s.Name)+suffix)
}

// logged runs a step with a log of its own, and keeps its result.
func (r *runner) logged(ctx context.Context, s step) (result, error) {
	log, err := os.Create(r.file(s, ".log"))
	if err != nil {
		return result{}, err
	}
	defer log.Close()
	res, err := s.run(ctx, r.list, log)
	if err != nil {
		return res, err
	}
	return res, r.kept.keep(s, res)
}

// show prints what there is to know of a step that has ended: of tests what failed, of
// other commands all that they printed.
func (r *runner) show(s step, res result) {
	fmt.Fprintf(r.out, "== %s: %s in %.0f s%s\n", s.Name, word(res.Passed), res.Seconds, counts(res))
	if s.Place == "" {
		r.copyLog(s)
	}
	for _, p := range res.Problems {
		fmt.Fprintln(r.out, strings.TrimRight(p, "\n"))
	}
	if !res.Passed {
		fmt.Fprintf(r.out, "== %s failed; all that it printed is in %s\n", s.Name, r.file(s, ".log"))
	}
}

// logShown bounds how much of a step's log is printed, in bytes: its end.
const logShown = 64 << 10

func (r *runner) copyLog(s step) {
	data, err := os.ReadFile(r.file(s, ".log"))
	if err != nil {
		fmt.Fprintln(r.out, err)
		return
	}
	if len(data) > logShown {
		fmt.Fprintf(r.out, "(the last %d KB of %s)\n", logShown>>10, r.file(s, ".log"))
		data = data[len(data)-logShown:]
		data = data[bytes.IndexByte(data, '\n')+1:]
	}
	_, _ = r.out.Write(data)
}

func word(passed bool) string {
	if passed {
		return "ok"
	}
	return "FAILED"
}

func counts(r result) string {
	if r.Ran == 0 && len(r.Skips) == 0 {
		return ""
	}
	return fmt.Sprintf(", %d tests passed, %d skipped", r.Ran, len(r.Skips))
}

// summary prints a table of all steps, each skip with its reason, and at the end, where a
// shortened log still has it, each problem's first line. It says whether everything passed.
func summary(out io.Writer, steps []step, outcomes []outcome, took time.Duration) bool {
	fmt.Fprintf(out, "\n%-44s %-9s %7s %7s %7s\n", "step", "result", "seconds", "passed", "skipped")
	all := true
	failed, skipped := 0, 0
	for i, s := range steps {
		o := outcomes[i]
		how := word(o.Passed)
		switch {
		case o.Name == "":
			how = "not run"
		case o.earlier:
			how = "ok before"
		}
		if !o.Passed {
			failed++
			all = false
		}
		skipped += len(o.Skips)
		fmt.Fprintf(out, "%-44s %-9s %7.0f %7d %7d\n", s.Name, how, o.Seconds, o.Ran, len(o.Skips))
	}
	for _, o := range outcomes {
		o.explain(out)
	}
	for _, o := range outcomes {
		for _, p := range o.Problems {
			first, _, _ := strings.Cut(p, "\n")
			fmt.Fprintf(out, "failed   %s: %s\n", o.Name, first)
		}
	}
	fmt.Fprintf(out, "%d of %d steps passed, %d tests skipped, in %.0f min\n", len(steps)-failed, len(steps), skipped, took.Minutes())
	return all
}

// explain prints a step's skips, with one line for each package and reason, and the outdated
// entries of the list of skips.
func (o outcome) explain(out io.Writer) {
	type kind struct{ pkg, reason string }
	var kinds []kind
	names := map[kind][]string{}
	for _, s := range o.Skips {
		k := kind{short(s.Package), s.Reason}
		if names[k] == nil {
			kinds = append(kinds, k)
		}
		names[k] = append(names[k], cmp.Or(s.Test, "the whole package"))
	}
	for _, k := range kinds {
		fmt.Fprintf(out, "skipped  %s: %d of %s (%s): %s\n", o.Name, len(names[k]), k.pkg, few(names[k]), k.reason)
	}
	if o.Note != "" {
		fmt.Fprintf(out, "note     %s: %s\n", o.Name, o.Note)
	}
	for _, remark := range o.Remarks {
		fmt.Fprintf(out, "outdated %s\n", remark)
	}
}

// few returns the first names of a list.
func few(names []string) string {
	if len(names) > 3 {
		return strings.Join(names[:3], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}
