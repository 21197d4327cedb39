// SPDX-License-Identifier: Apache-2.0

// Papers makes every page and every table that quotes a run of the lab: docs/papers, and
// the blocks between <!-- figures: NAME --> and <!-- /figures --> in README.md and docs.
// It reads docs/papers/data (package figures) and the scenario files in lab, and runs
// nothing itself:
//
//	go run ./internal/dev/papers write               # all of it, from the module's root: make figures
//	go run ./internal/dev/papers check               # fails if a page differs from its data, or does not say that it is stale
//	go run ./internal/dev/papers fresh               # fails if data is stale: make release
//	go run ./internal/dev/papers runs [NAME...]      # which runs it is made of
//	go run ./internal/dev/papers arch NAME           # the processor that a run's machine has
//	go run ./internal/dev/papers due [NAME...]       # those of them whose data is older than the code in HEAD
//	go run ./internal/dev/papers verdict NAME        # fails if an expectation about the run did not hold
//	go run ./internal/dev/papers record RAW COMMIT STATUS NAME # what scripts/papers calls after a run
//	go run ./internal/dev/papers balancer plan|together|record # package balancer: the C-Balancer paper's optimizer
//
// Every figure comes from the data, and so does every conclusion: claims (claim.go) are
// held against the data and are printed with yes or no. A run that is missing is named on
// the page. A paper is data: text.go has qcon's, ancs.go that of ANCS, page.go the kinds of
// sections; blocks.go has the blocks of other pages.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"weir/internal/dev/balancer"
	"weir/internal/dev/figures"
)

var papers = []*paper{&qcon, &ancs, &sdn, &cps, &bars, &ingress, &demo, &migrations, &demoHosts, &arm64}

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "papers:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	usage := errors.New("usage: papers write, papers check, papers fresh, papers runs [NAME...], papers arch NAME, papers due [NAME...], papers verdict NAME, papers record RAW COMMIT STATUS NAME or papers balancer COMMAND, from the module's root")
	if len(args) == 0 {
		return usage
	}
	switch verb, args := args[0], args[1:]; {
	case verb == "write" && len(args) == 0:
		return write(".")
	case verb == "check" && len(args) == 0:
		return check(".")
	case verb == "fresh" && len(args) == 0:
		return fresh(".")
	case verb == "runs":
		return list(args, func(*figures.Run) bool { return true })
	case verb == "arch" && len(args) == 1:
		p, _, err := find(args[0])
		if err != nil {
			return err
		}
		fmt.Println(cmp.Or(p.arch, "amd64"))
		return nil
	case verb == "due":
		return due(args)
	case verb == "verdict" && len(args) == 1:
		return verdict(args[0])
	case verb == "balancer":
		return balancer.Command(args)
	case verb == "record" && len(args) == 4:
		return record(".", args[0], args[1], args[2], args[3])
	}
	return usage
}

// due prints the runs without data of the measured code as HEAD has it. None of that code
// may have uncommitted changes.
func due(names []string) error {
	if err := figures.Committed("."); err != nil {
		return err
	}
	return list(names, func(r *figures.Run) bool { return r == nil || !r.Current(".") })
}

// verdict prints the failures of a run's data and fails if there are any, or no data.
func verdict(name string) error {
	data, err := load(".")
	if err != nil {
		return err
	}
	r := data.Run(name)
	if r == nil {
		return fmt.Errorf("%s is not measured", name)
	}
	for _, line := range r.Lines {
		fmt.Println(string(line))
	}
	if r.Source.Status != 0 {
		return fmt.Errorf("%s: %s", name, strings.Join(r.Source.Failures, "; "))
	}
	return nil
}

// list prints NAME FILE [OPTION]..., a line for each run of which wanted says so: of all, or
// of those that one of the names begins.
func list(names []string, wanted func(r *figures.Run) bool) error {
	data, err := load(".")
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, p := range papers {
		for _, w := range p.wanted() {
			name := p.name + "/" + w.name()
			if known[name] || p.real || !asked(name, names) {
				continue
			}
			known[name] = true
			if wanted(data.Run(name)) {
				fmt.Println(strings.Join(append([]string{name, p.file(w)}, w.options()...), " "))
			}
		}
	}
	if len(known) == 0 {
		return fmt.Errorf("no run is called %s; papers runs lists all", strings.Join(names, " or "))
	}
	return nil
}

// asked says whether a run is one of those named: by its name, or by its paper's.
func asked(name string, names []string) bool {
	for _, n := range names {
		if name == n || strings.HasPrefix(name, n+"/") {
			return true
		}
	}
	return len(names) == 0
}
