// SPDX-License-Identifier: Apache-2.0

// Bars writes docs/bars.md, the table of all that Weir has to hold: each expectation
// of a scenario file below lab/, and each promise that a test holds (tests.yaml), with
// the command that fails when it does not hold and what was measured last.
//
//	go run ./internal/dev/bars                      # the page, from the recorded results
//	go run ./internal/dev/bars record FILE KERNEL [COMMIT]
//	                                                # first take over what weir lab run --verdicts FILE wrote
//	go run ./internal/dev/bars command SCENARIO     # where the file is judged, "vm" or "here", and weir's command line;
//	                                                # fails if something that is measured is not committed
//
// Figures come from docs/bars.jsonl, into which runs are recorded (scripts/bars), and
// nowhere else: what no run has measured is "not measured".
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"weir/internal/dev/figures"
)

const (
	pageFile = "docs/bars.md"
	dataFile = "docs/bars.jsonl"
	testFile = "internal/dev/bars/tests.yaml"
	labDir   = "lab"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bars:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 0:
	case len(args) == 2 && args[0] == "command":
		s, err := readScenario(".", args[1])
		if err == nil {
			err = figures.Committed(".")
		}
		if err == nil {
			fmt.Println(map[bool]string{true: "vm", false: "here"}[s.machine], strings.Join(s.words, " "))
		}
		return err
	case (len(args) == 3 || len(args) == 4) && args[0] == "record":
		commit, err := exec.Command("git", "rev-parse", "--short=12", append(args[3:], "HEAD")[0]).Output()
		if err != nil {
			return fmt.Errorf("git rev-parse: %w", err)
		}
		how := origin{Date: time.Now().UTC().Format(time.DateOnly), Commit: strings.TrimSpace(string(commit)), Kernel: args[2]}
		if err := record(dataFile, args[1], how); err != nil {
			return err
		}
	default:
		return fmt.Errorf("usage: bars [record FILE KERNEL [COMMIT] | command SCENARIO]")
	}
	text, err := page(".")
	if err != nil {
		return err
	}
	return os.WriteFile(pageFile, []byte(text), 0o644)
}
