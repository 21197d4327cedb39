// SPDX-License-Identifier: Apache-2.0

// Package goodput measures how much payload workloads have delivered and received:
// no headers, and what TCP sends again counts once.
//
// A Meter attaches two small programs (bpf/goodput.bpf.c) where a workload meets the
// host, one for each direction, and adds up what TCP's own sequence and
// acknowledgement numbers say. They are there only for the workloads that a client
// asks about, and vanish with the process: a measurement needs no memory beyond it.
//
// Example: a flow of 10 Mbit/s of payload that loses one packet in a hundred:
//
//	Sent 1,250,000 bytes a second, Again 12,500, Acked 1,250,000
//
// Why from headers and not from socket statistics: the sockets of a container are in
// its own network namespace and those of a virtual machine nowhere on the host, while
// both directions of their packets pass the host; one way serves all.
//
// Why acknowledgements count for sent bytes: a packet that leaves a workload still waits in
// the link's queue, and may be lost there. The receiver's acknowledgements say what
// arrived. UDP has none; there Datagrams is what came to the queue, and what was
// dropped in it is the caller's to subtract.
//
// It needs tcx, Linux 6.6 or later. What it does not do: steer anything.
package goodput
