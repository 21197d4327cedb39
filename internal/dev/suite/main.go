// SPDX-License-Identifier: Apache-2.0

// Suite runs the project's tests in steps and judges them: a test failed, or was skipped
// and must not be. Each step's output goes to a log of its own and is printed when the
// step has ended, so that two at once do not mix. A table comes at the end.
//
//	go run ./internal/dev/suite test     # make test, what CI runs: native and vm
//	go run ./internal/dev/suite native   # make test-native: on this machine
//	go run ./internal/dev/suite vm       # make test-vm: in virtual machines
//	go run ./internal/dev/suite full     # make test-full: everything
//	go run ./internal/dev/suite results  # when each step of full ran last, how it ended, whether that stands
//	go run ./internal/dev/suite stands   # the same; fails unless each step has passed and that stands
//
// Names after it choose steps: vm/test/e2e-7.3, or fuzz for all whose name begins with fuzz/,
// or a pattern such as 'lab/qcon/*'. With -list their commands are printed instead.
//
// No step is run again because it failed. full goes on where it was interrupted: a step
// that passed is not run again while all that it runs is as it was then. It keeps its results
// in docs/tests.jsonl, which is committed.
//
// The file scripts/skips has the skips that are right. Any other is a failure, and so is
// a suite in which no test ran.
//
// Exit codes: 0 every step passed, 1 one did not, 2 the command line is wrong, 130 it was
// interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const usage = "Usage: suite [-list] [-fuzztime 1m] test|native|vm|full|results|stands [NAME...]"

// errUsage is a command line that cannot be understood.
var errUsage = errors.New(usage) //nolint:staticcheck // the program prints it as it is

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	passed, err := run(ctx)
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "suite: interrupted")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(1)
	case !passed:
		os.Exit(1)
	}
}

func run(ctx context.Context) (passed bool, err error) {
	list := flag.Bool("list", false, "print the steps and their commands, and run nothing")
	fuzzTime := flag.String("fuzztime", usualFuzz, "how long each fuzz target runs; with 10m the steps are called fuzz-10m/...")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, usage) }
	flag.Parse()
	r := &runner{slots: 2, folder: "out/tests", out: os.Stdout}
	suite := flag.Arg(0)
	if suite == "full" || suite == "results" || suite == "stands" {
		r.folder, suite = "out/test-full", "full"
		if r.kept, err = keptResults(ctx); err != nil {
			return false, err
		}
	}
	steps, err := stepsOf(ctx, suite, r.folder, *fuzzTime)
	if err != nil {
		return false, err
	}
	if steps, err = choose(steps, flag.Args()[1:]); err != nil {
		return false, err
	}
	if ask := flag.Arg(0); ask == "results" || ask == "stands" {
		if r.kept == nil {
			return false, errors.New("results are of committed files; commit or stash the changes")
		}
		missing, red, err := r.kept.table(os.Stdout, steps)
		return ask == "results" || missing+red == 0, err
	}
	if *list {
		for _, s := range steps {
			fmt.Printf("%-44s %s\n", s.Name, strings.Join(s.Command, " "))
		}
		return true, nil
	}
	if r.list, err = openSkips(skipsFile); err != nil {
		return false, err
	}
	begun := time.Now()
	if err := r.prepare(ctx, steps); err != nil {
		return false, err
	}
	outcomes, err := r.run(ctx, steps)
	passed = summary(os.Stdout, steps, outcomes, time.Since(begun))
	return passed, err
}

// keptResults returns the results of the tree in HEAD; nil if a change is not committed.
func keptResults(ctx context.Context) (*results, error) {
	t, err := treeNow(ctx)
	if err != nil || t == nil {
		return nil, err
	}
	return openResults(keptFile, t)
}

// stepsOf returns the steps of a suite.
func stepsOf(ctx context.Context, suite, folder, fuzzTime string) ([]step, error) {
	f := full{machines: machines{folder: folder, timeout: 2400}, seed: rand.Uint32(), fuzzTime: fuzzTime}
	if suite == "vm" {
		return f.machines.ci(), nil
	}
	if !slices.Contains([]string{"test", "native", "full"}, suite) {
		return nil, errUsage
	}
	packages, err := output(ctx, "go", "list", "./...")
	if err != nil {
		return nil, err
	}
	f.packages = strings.Fields(string(packages))
	if suite != "full" {
		steps := append(native("native", f.packages, nil), coverage)
		if suite == "test" {
			f.machines.timeout = 4800 // beside others they have less than a processor each
			steps = append(steps, idle(f.machines.ci())...)
		}
		return steps, nil
	}
	f.machines.timeout = 7200
	if f.runs, err = output(ctx, "go", "run", "./internal/dev/papers", "runs"); err != nil {
		return nil, err
	}
	return f.steps()
}

// choose returns the steps that are named, in their order, or all of them if none is.
func choose(steps []step, names []string) ([]step, error) {
	if len(names) == 0 {
		return steps, nil
	}
	used := map[string]bool{}
	var chosen []step
	for _, s := range steps {
		take := false
		for _, name := range names {
			matched, err := path.Match(name, s.Name)
			if err != nil {
				return nil, fmt.Errorf("step %q: %w", name, err)
			}
			if matched || strings.HasPrefix(s.Name, name+"/") {
				take, used[name] = true, true
			}
		}
		if take {
			chosen = append(chosen, s)
		}
	}
	for _, name := range names {
		if !used[name] {
			return nil, fmt.Errorf("step %q: there is none of that name; -list names them\n%w", name, errUsage)
		}
	}
	return chosen, nil
}

func openSkips(path string) (skipList, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	list, err := readSkips(file)
	if err != nil {
		err = fmt.Errorf("%s: %w", skipsFile, err)
	}
	return list, err
}

// prepare makes the folder, and the test binaries that the steps take into machines.
func (r *runner) prepare(ctx context.Context, steps []step) error {
	if err := os.MkdirAll(r.folder, 0o755); err != nil { // logs
		return err
	}
	var built []string
	for _, s := range steps {
		for _, pkg := range s.Builds {
			file := machines{folder: r.folder, arch: s.Arch}.binary(pkg)
			if slices.Contains(built, file) {
				continue
			}
			built = append(built, file)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				return err
			}
			if _, err := output(ctx, "env", "GOARCH="+s.Arch, "go", "test", "-c", "-o", file, "./internal/"+pkg); err != nil {
				return err
			}
		}
	}
	return nil
}

// output runs a command, whose standard error is this program's.
func output(ctx context.Context, command ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	return out, err
}
