// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weir/internal/dev/figures"
)

const (
	defaultSeconds = 3
	defaultRuns    = 3
	// around is the time of a run beside its seconds: the programs' setup and end.
	around = 400 * time.Millisecond
	// patience is for a run that does not end.
	patience = 2 * time.Minute
)

// together runs everyone alone and in all pairs that the mixes beside the file lead
// to, and writes what they achieved: how fast each was in each run.
func together(args []string) error {
	flags := flag.NewFlagSet("together", flag.ContinueOnError)
	seconds := flags.Int("seconds", defaultSeconds, "how long a run takes")
	runs := flags.Int("runs", defaultRuns, "how often each is run; the median counts")
	only := flags.String("only", "", "for a trial: run only these, such as rgb,rgb+cache")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 0 || *seconds < 1 || *runs < 1 {
		return errors.New("usage: balancer together [-seconds N] [-runs N] [-only A+B,...]")
	}
	list, err := chosen(*only, scenarios)
	if err != nil {
		return err
	}
	t := trial{seconds: *seconds, runs: *runs, list: list, got: map[company][][]outcome{}}
	before := load()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := t.measure(ctx); err != nil {
		return err
	}
	var kept []any
	if *only != "" { // the others stay as they are
		if kept, err = others(".", list); err != nil {
			return err
		}
	}
	machine := fmt.Sprintf("%v; load (1, 5 and 15 minutes) before: %s, after: %s", machine(), before, load())
	if err := writeRun(".", togetherRun, machine, "go run ./internal/dev/papers balancer together", append(kept, t.lines()...)); err != nil {
		return err
	}
	return errors.Join(t.failed...)
}

// others are the lines of the data that are of other companies.
func others(root string, list []company) (kept []any, err error) {
	data, err := figures.Load(os.DirFS(filepath.Join(root, figures.Folder)))
	if err != nil || data.Run(togetherRun) == nil {
		return nil, err
	}
	lines, err := readLines[shared](data.Run(togetherRun))
	for _, l := range lines {
		if !slices.Contains(list, companyOf(l.Programs...)) {
			kept = append(kept, l)
		}
	}
	return kept, err
}

// chosen returns the companies to run: only names them, or the mixes of the folder need them.
func chosen(only, folder string) ([]company, error) {
	if only == "" {
		mixes, err := readMixes(folder)
		if err != nil {
			return nil, err
		}
		return toRun(mixes)
	}
	var list []company
	for one := range strings.SplitSeq(only, ",") {
		c := companyOf(company(one).members()...)
		if n := len(c.members()); n > seats {
			return nil, fmt.Errorf("%s: %d programs; give one or two", c, n)
		}
		for _, name := range c.members() {
			if _, err := programNamed(name); err != nil {
				return nil, err
			}
		}
		list = append(list, c)
	}
	return list, nil
}

// load returns the load of the machine, over 1, 5 and 15 minutes.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "not known"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

// seats is the largest number of programs that run at once: as many as there are CPUs.
const seats = 2

// trial holds the runs of all companies, round by round, so that a change of the machine's
// load meets all of them.
type trial struct {
	seconds, runs int
	list          []company
	beds          [seats]*bed
	got           map[company][][]outcome // for each run that came to an end, in the order of members
	failed        []error
}

// step is one run.
type step struct {
	round int
	company
	guests []program
	once   bool // it takes one operation of a program
	takes  time.Duration
}

// steps are all runs in their order.
func (t *trial) steps() ([]step, error) {
	var list []step
	for round := range t.runs {
		for _, c := range t.list {
			s := step{round: round, company: c, takes: time.Duration(t.seconds)*time.Second + around}
			for _, name := range c.members() {
				p, err := programNamed(name)
				if err != nil {
					return nil, err
				}
				s.guests = append(s.guests, p)
				if p.once != "" {
					s.once, s.takes = true, p.settle
				}
				if p.paced {
					s.takes = max(s.takes, time.Duration(t.seconds)*time.Second+around+sample)
				}
			}
			if !s.once || round == 0 {
				list = append(list, s)
			}
		}
	}
	return list, nil
}

func programNamed(name string) (program, error) {
	i := slices.IndexFunc(programs, func(p program) bool { return p.name == name })
	if i < 0 {
		return program{}, fmt.Errorf("program %q is not one of table II", name)
	}
	return programs[i], nil
}

// measure runs everything. A run that fails is named and left out; when ctx ends, it
// leaves nothing behind.
func (t *trial) measure(ctx context.Context) error {
	for i := range t.beds {
		b, err := newBed(i)
		if err != nil {
			return err
		}
		defer b.close()
		t.beds[i] = b
	}
	steps, err := t.steps()
	if err != nil {
		return err
	}
	var planned, past time.Duration
	for _, s := range steps {
		planned += s.takes
	}
	fmt.Printf("%d runs, about %v\n", len(steps), planned.Round(time.Second))
	began := time.Now()
	for i, s := range steps {
		got, err := t.run(ctx, s)
		if ctx.Err() != nil {
			return errors.New("interrupted; nothing is written")
		}
		if err != nil {
			t.failed = append(t.failed, fmt.Errorf("%s, run %d: %w", s.company, s.round+1, err))
			fmt.Println(t.failed[len(t.failed)-1])
		} else {
			t.got[s.company] = append(t.got[s.company], got)
		}
		past += s.takes
		left := time.Duration(float64(time.Since(began)) * float64(planned-past) / float64(past))
		fmt.Printf("%d of %d, %v left: %s %.6g\n", i+1, len(steps), left.Round(time.Second), s.company, got)
	}
	return nil
}

// run has the programs of a company run at once, each in its bed.
func (t *trial) run(ctx context.Context, s step) ([]outcome, error) {
	guests, err := t.seat(s)
	defer func() {
		for _, g := range guests {
			g.kill()
			g.wait()
		}
	}()
	if err != nil {
		return nil, err
	}
	for i, p := range s.guests {
		if err := guests[i].start(t.command(p, s.once)); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.takes+patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		for _, g := range guests {
			g.kill()
		}
	})()
	for i, p := range s.guests {
		if p.once != "" {
			guests[i].wait()
		}
	}
	if s.once { // enough for the others as well; those that have ended do not mind
		for _, g := range guests {
			_ = g.command.Process.Signal(syscall.SIGINT)
		}
	}
	var got []outcome
	for i, p := range s.guests {
		guests[i].wait()
		f, err := guests[i].outcome(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		got = append(got, f)
	}
	return got, nil
}

// seat prepares the beds for a run; on an error the guests of now have to be killed.
func (t *trial) seat(s step) (guests []*guest, err error) {
	var wait time.Duration
	for i, p := range s.guests {
		g, ready, err := t.beds[i].serve(p)
		guests, wait = append(guests, g), max(wait, ready)
		if err != nil {
			return guests, err
		}
	}
	time.Sleep(wait)
	return guests, nil
}

// command is a program's with an end, and with figures to print; in a run that takes
// one operation the others are told when it ends.
func (t *trial) command(p program, once bool) string {
	seconds := t.seconds
	if once {
		seconds = int((p.settle + patience).Seconds())
	}
	if p.paced {
		return fmt.Sprintf("%s --time %d", p.command, seconds)
	}
	return strings.TrimSpace(fmt.Sprintf("%s --timeout %ds --metrics-brief %s", p.command, seconds, p.once))
}

// outcome is read from what a guest printed, or its server.
func (g *guest) outcome(p program) (outcome, error) {
	if p.paced {
		return parseIperf(g.served.Bytes())
	}
	return parseStress(g.printed.String())
}

// lines are the data.
func (t *trial) lines() (list []any) {
	for _, c := range t.list {
		if len(t.got[c]) == 0 {
			continue
		}
		line := shared{Programs: c.members()}
		some := false
		for i, name := range c.members() {
			rate, span := median(t.got[c], i, func(f outcome) float64 { return f.rate })
			missed, _ := median(t.got[c], i, func(f outcome) float64 { return f.lost })
			var runs []float64
			for _, run := range t.got[c] {
				runs = append(runs, digits(run[i].rate))
			}
			line.Rates, line.Range = append(line.Rates, digits(rate)), append(line.Range, math.Round(span/rate*1000)/10)
			line.Lost, line.Runs = append(line.Lost, math.Round(missed*1000)/1000), append(line.Runs, runs)
			some = some || strings.HasPrefix(name, "iperf")
		}
		if !some {
			line.Lost = nil
		}
		list = append(list, line)
	}
	return list
}

// digits is a number with five digits that count.
func digits(v float64) float64 {
	short, _ := strconv.ParseFloat(fmt.Sprintf("%.5g", v), 64)
	return short
}

// median of the runs of a company's i-th program, and how far the lowest and the
// highest are apart. Of an even number it is the mean of the two in the middle.
func median(runs [][]outcome, i int, of func(outcome) float64) (middle, span float64) {
	var list []float64
	for _, run := range runs {
		list = append(list, of(run[i]))
	}
	slices.SortFunc(list, cmp.Compare[float64])
	n := len(list)
	return (list[(n-1)/2] + list[n/2]) / 2, list[n-1] - list[0]
}
