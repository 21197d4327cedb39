// SPDX-License-Identifier: Apache-2.0

// Package meter measures: what the receiver got of each workload in each 10 ms,
// and how busy the host was meanwhile.
//
// The counting is done by a BPF program at the receiver's device
// (bpf/lab/meter.bpf.c), which holds a whole scenario, so that nothing of the lab
// runs while traffic does:
//
//	m, err := meter.New(meter.Config{FirstAddress: 0x0a4d0101, Workloads: 3, Length: time.Minute})
//	m.Attach(ns, "eth0")
//	...traffic...
//	timeline, err := m.Read()
//	timeline.Bytes[2][150]   // what workload 2 received from 1.50 s to 1.51 s, wire bytes
//	timeline.Payload[2][150] // what its programs could read of that, bytes
//
// CPU time is measured by a Soaker: a loop at idle priority that counts
// its rounds. The time that it did not get went to other programs. In a virtual
// machine with virtual time that is exact, where /proc/stat is off by half.
//
// It does not judge: ideals, errors and percentiles are package report's.
package meter
