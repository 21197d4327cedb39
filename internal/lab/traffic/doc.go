// SPDX-License-Identifier: Apache-2.0

// Package traffic runs the generators of a scenario (iperf3, netperf, ping) in
// their network namespaces and reads what they print.
//
// Each tcp or udp flow has an iperf3 server of its own on the receiver, started
// beforehand; its client is started when the flow begins and stopped when it ends. What
// iperf3 says about each half second (retransmits, loss, jitter) and each of ping's round
// trips comes back with its time since the beginning of the scenario, so that a
// phase can be cut out of it:
//
//	g, err := traffic.Prepare(ctx, net, flows)
//	g.Begin(zero, clock)        // the instant at which the scenario begins
//	g.Start(3)                  // when flow 3 is due
//	reports := g.Collect(grace) // after the last phase
//
// Neither wire rates nor goodputs are measured here but by package meter: iperf3 knows
// only payload, and that in blocks of 128 KiB.
package traffic
