// SPDX-License-Identifier: Apache-2.0

// Balancer repeats what the C-Balancer paper says about its optimizer: the trade-off
// of figure 5, and the gains and the stability metric S of figure 10, for the workload
// mixes W1 to W10 of its table II. The mixes are files of `weir simulate` in lab/c-balancer.
//
//	go run ./internal/lab/balancer page lab/c-balancer docs/papers    # docs/papers/c-balancer-optimizer.md
//	go run ./internal/lab/balancer record lab/c-balancer/programs.yaml # as root, with stress-ng and iperf3
//	go run ./internal/lab/balancer together lab/c-balancer/together.yaml # the same, eleven minutes
//
// The page is calculated anew each time, from the files and from seeds, and comes out
// the same on every machine but for the times. What the programs of the mixes demand
// was measured on real cgroups by the sampler of the agents (package profile); record
// measures it again, for which the machine should have a CPU to spare. What they
// achieve beside each other on a node was measured by together, which should have the
// machine, of two CPUs, to itself.
package main

import (
	"fmt"
	"os"
)

func main() {
	err := fmt.Errorf("usage: balancer page SCENARIOS PAGES, such as lab/c-balancer docs/papers; balancer record FILE; or balancer together [-seconds N] [-runs N] [-only A+B,...] FILE")
	switch {
	case len(os.Args) == 4 && os.Args[1] == "page":
		err = writePage(os.Args[2], os.Args[3])
	case len(os.Args) == 3 && os.Args[1] == "record":
		err = record(os.Args[2])
	case len(os.Args) > 2 && os.Args[1] == "together":
		err = together(os.Args[2:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "balancer:", err)
		os.Exit(1)
	}
}
