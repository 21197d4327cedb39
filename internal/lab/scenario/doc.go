// SPDX-License-Identifier: Apache-2.0

// Package scenario reads the lab's scenario files and turns them into things
// that can be run and judged: a timeline of flows and policies, and the rates
// that the contract promises at each moment of it.
//
// A scenario file describes a link, the workloads that share it, what each of
// them was promised and what it sends, and a timeline of phases. Example:
//
//	name: three containers, 1 to 3
//	link: {bandwidth: 100mbit}
//	workloads:
//	  c1: {weight: 1, traffic: [{tcp: {}}]}
//	  c2: {weight: 2, traffic: [{tcp: {streams: 4, start: 5s}}]}
//	phases:
//	  - {for: 10s}
//	  - {for: 10s, set: {c1: {min: 40mbit}}}
//
// Parse refuses whatever it does not understand, and says where: file, line,
// column, the field, its value, and what to write instead. Ideals says that in
// the second phase c1 should get 40 Mbit/s and c2 60; Flows says that c2's iperf3
// runs from second 5 to second 20.
//
// The format is a public interface (docs/scenario.md): keys are added, never
// renamed. The package is pure: no clock, no I/O; files are read by the caller.
package scenario
