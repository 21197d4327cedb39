// SPDX-License-Identifier: Apache-2.0

// Package balancer repeats what the C-Balancer paper says about its optimizer: the trade-off
// of figure 5, and the gains and the stability metric S of figure 10, for the workload
// mixes W1 to W10 of its table II. The mixes are files of `weir simulate` in lab/c-balancer.
//
//	go run ./internal/dev/papers balancer plan                         # docs/papers/data/c-balancer-optimizer, a minute
//	go run ./internal/dev/papers balancer mutation                     # the same with other mutations, a minute
//	go run ./internal/dev/papers balancer together [-seconds N] [-runs N] [-only A+B,...] # docs/papers/data/c-balancer-together, eleven minutes
//	go run ./internal/dev/papers balancer record lab/c-balancer/programs.yaml # as root, with stress-ng and iperf3
//
// plan has the algorithms plan for all mixes, from the files and from seeds; it comes out
// the same on every machine. What the programs of the mixes demand was measured on real
// cgroups by the sampler of the agents (package profile); record measures it again, for
// which the machine should have a CPU to spare. What they achieve beside each other on a
// node is measured by together, which should have the machine, of two CPUs, to itself. The
// page is made from what these have left (Page), by make figures.
package balancer

import "errors"

// Command runs plan, mutation, together or record, from the module's root.
func Command(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "plan":
		return writePlans(".")
	case len(args) == 1 && args[0] == "mutation":
		return writeMutations(".")
	case len(args) == 2 && args[0] == "record":
		return record(args[1])
	case len(args) > 0 && args[0] == "together":
		return together(args[1:])
	}
	return errors.New("usage: balancer plan, balancer mutation, balancer record FILE, or balancer together [-seconds N] [-runs N] [-only A+B,...]")
}
