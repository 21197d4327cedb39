// SPDX-License-Identifier: Apache-2.0

// Package e2e holds tests of the whole: the real weir program as a process of its own, on
// the host's kernel, between network namespaces that send real packets. The package has
// only tests.
//
// Each test builds a bed: a network namespace that plays the host, workloads
// behind its bridge, and a server behind the uplink that is steered:
//
//	ns w1: eth0 10.88.0.1 ──veth── w1 ─┐                       ┌─ counts what
//	ns w2: eth0 10.88.0.2 ──veth── w2 ─┼─ br0 ── up0 ── eth0 ──┤  arrives, and
//	ns w3: eth0 10.88.0.3 ──veth── w3 ─┘        :host     :srv └─ what is missing
//
// The tests check the results that a user has: shares as the server counts them, lost
// packets, the program's answers and exit codes, and the state left on the machine.
// Example, of the test that kills the agent: w1 to w3 send all they can; the shares of
// three seconds before the SIGKILL, three seconds without an agent and three seconds
// after a new one has started differ by less than 3 % of the link, the qdisc is the same
// one, and every packet that was sent has arrived.
//
// The tests run on either backend. Where the kernel has no BPF qdiscs, they test the tc
// fallback, and do not ask it for the settings in its Gaps:
//
//	go test ./internal/test/e2e
//	CGO_ENABLED=0 go test -c -o e2e.test ./internal/test/e2e
//	vm/run --virtual-time --copy e2e.test -- ./e2e.test -test.v
//
// An emulated machine runs them in virtual time, because it cannot send 100 Mbit/s in
// real time beside other work.
//
// With -long the churn has its full size (200 namespaces in a minute), disciplines
// and groups are changed 1,000 times, and 128 bulk streams run beside requests. The test
// binary runs itself again in namespaces of its own (network, mounts, processes),
// so that nothing of it is left on the machine, however it ends.
//
// What it does not test: rates and latencies in detail (the lab does), Docker
// (package discover does).
package e2e
