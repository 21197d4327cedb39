// SPDX-License-Identifier: Apache-2.0

// Package lab runs scenario files: it builds a link with workloads out of
// network namespaces on this kernel, sends real traffic through a scheduler,
// measures at the receiver and reports.
//
// It is at once the demo, the tests against the papers, the benchmark against
// the kernel's own schedulers, and how a user tries a policy before using it:
//
//	weir lab run lab/demo/shares.yaml --scheduler fair,htb --plot /tmp
//
// Run re-executes the program as the first process of new network, mount and
// process namespaces (see sandbox.go). What happens there touches nothing of the
// machine and leaves nothing behind, however it ends; several labs may run at
// once.
//
// One run, from file to report, passes through the sub-packages in this order:
//
//	scenario   the file, checked; its timeline and ideals. Pure
//	topology   namespaces, veths, bridge, line
//	peers      the kernel's own schedulers, set up for the same policy
//	traffic    iperf3, netperf, ping
//	meter      bytes received per 10 ms, CPU time
//	report     figures, judgement, table, JSON, plot. Pure
//
// Here are the parts that join them: steer.go chooses what schedules the link,
// experiment.go runs the timeline, cost.go counts the time per packet.
//
// What it does not do: test the agent or discovery. The scheduler gets its
// policies straight from the scenario.
package lab
