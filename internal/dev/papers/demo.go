// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"weir/internal/dev/figures"
	"weir/internal/lab/cluster"
)

// What README.md and docs/cluster.md show of the two demonstrations.

// readmeDemo says what the picture shows.
func readmeDemo(need func(string) *figures.Run) string {
	r := need("demo/shares-fair")
	var shares [3]string
	for p := range shares {
		var rates []any
		for _, w := range []string{"c1", "c2", "c3"} {
			rates = append(rates, mustWorkload(r, p+1, w).RateBps/1e6)
		}
		shares[p] = fmt.Sprintf("%.1f, %.1f and %.1f", rates...)
	}
	slowest := 0.0
	for p := 2; p <= 3; p++ {
		l := mustLink(r, p)
		slowest = max(slowest, must(r, l.ReactionMs)+must(r, l.ReactionWindowMs))
	}
	return fmt.Sprintf("In the picture: %s Mbit/s by weight; then %s; then %s.\nThe new shares hold within %.0f ms.", shares[0], shares[1], shares[2], slowest)
}

// clusterDemo shows a move and a min that moved, as the cluster's demonstration printed them.
func clusterDemo(need func(string) *figures.Run) string {
	r := need("cluster/demo")
	var b strings.Builder
	b.WriteString("    $ weir migrate web --to a --approach commit   # its image is there already\n")
	output := strings.TrimSpace(commandOutput(r, "migrate web --to a --approach commit"))
	steps := strings.Split(output, "\n")
	for _, line := range steps[:len(steps)-1] {
		for _, step := range []string{"freeze ", "push ", "send checkpoint ", "restore "} {
			if strings.HasPrefix(line, step) {
				fmt.Fprintf(&b, "    %s\n", line)
			}
		}
	}
	said, _, _ := strings.Cut(commandOutput(r, "set camera --min 20mbit"), " (refused here")
	fmt.Fprintf(&b, "    %s\n\n    $ weir set camera --min 20mbit                # a has promised 24 of 30 to db\n    %s\n\n", steps[len(steps)-1], strings.TrimSpace(said))
	fmt.Fprintf(&b, "    %-10s  %12s  %12s\n", "received", "before", "after")
	for _, c := range []string{"camera", "db"} {
		fmt.Fprintf(&b, "    %-10s  %5.1f Mbit/s  %5.1f Mbit/s\n", c, received(r, "before", c)/1e6, received(r, "after", c)/1e6)
	}
	return fmt.Sprintf("%s\n(Commit %s, %s, on %s.)", b.String(), r.Source.Measured(), r.Source.Date, r.Source.Machine)
}

// step is the first event of a run of the cluster lab of which is says so.
func step(r *figures.Run, is func(cluster.Event) bool) cluster.Event {
	for _, line := range r.Lines {
		var e cluster.Event
		if err := json.Unmarshal(line, &e); err != nil {
			panic(missing(r.Name))
		}
		if is(e) {
			return e
		}
	}
	panic(missing(r.Name))
}

// commandOutput returns the output of a weir command line.
func commandOutput(r *figures.Run, command string) string {
	return step(r, func(e cluster.Event) bool { return e.Verb == "weir" && e.Subject == command && e.Err == "" }).Output
}

// received returns the rate of a container's traffic that arrived in a measurement, bit/s.
func received(r *figures.Run, label, container string) float64 {
	e := step(r, func(e cluster.Event) bool { return e.Verb == "measure" && e.Label == label })
	for _, rate := range e.Rates {
		if rate.Container == container {
			return rate.Bps
		}
	}
	panic(missing(r.Name))
}
