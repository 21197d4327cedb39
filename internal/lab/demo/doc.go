// SPDX-License-Identifier: Apache-2.0

// Package demo shows Weir at work: three workloads share a link, are promised
// something, and get it.
//
//	weir demo                 # with Docker containers, if dockerd is installed
//	weir demo --no-docker     # with network namespaces
//
// Nothing is simulated: the agent is "weir agent" with a configuration file, the
// workloads send TCP as fast as it goes, "weir set" changes the promises, and the demo
// judges the bytes that arrived at the receiver. Only the host is made up, so that no
// real network is touched (package sandbox):
//
//	camera ──veth──┐                         namespace receiver
//	web ─────veth──┼─ bridge ── route ── up0 ──veth── eth0, one TCP port
//	backup ──veth──┘            100 Mbit/s steered           per workload
//
// The promises are a scenario (script.go) in the lab's own terms, whose ideals come from
// the contract. With weights 1, 2 and 3 they are 16.7, 33.3 and 50 Mbit/s; with a min of
// 30 for camera 30, 28 and 42; with a max of 15 for backup as well 30, 55 and 15.
//
// The package has three layers: script.go, series.go and verdict.go are functions of
// values; network.go, receiver.go, cast.go, agent.go and screen.go each look after one
// thing; stage.go has them play together on the private host. Run, in demo.go, stays
// outside of that host and removes all of it at the end.
//
// What it does not do: measure latency, loss or cost, or compare with other
// schedulers. That is the lab's (package lab).
package demo
