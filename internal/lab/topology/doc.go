// SPDX-License-Identifier: Apache-2.0

// Package topology builds the lab's network out of network namespaces:
//
//	ns w1: eth0 10.77.1.1 ──veth── w1 ─┐
//	ns w2: eth0 10.77.1.2 ──veth── w2 ─┼─ br0 ── up0 ──veth── [ns line: in0 ─ brl ─ out0 ──veth──] eth0: ns srv
//	ns w3: eth0 10.77.1.3 ──veth── w3 ─┘                        line rate, delay, loss             10.77.2.1, .2, .3
//
// The namespace in which the process runs is the "host": br0, the host's ends of
// the workloads' veths, and the uplink up0, whose root qdisc is the scheduler
// under test. The line is a hop of its own behind it, so that it never touches
// up0's qdisc; without a line rate, delay or loss up0 leads straight to srv. The
// receiver has one address per workload, so that ports are free for each.
//
// Everything that could send a packet of its own accord is off: IPv6, multicast
// snooping, neighbour discovery (all neighbours are permanent), the bridge's
// flooding (the receiver's place is known).
//
// The process has to be alone in its network namespace (see package lab);
// nothing here is taken down, it dies with the namespaces.
package topology
