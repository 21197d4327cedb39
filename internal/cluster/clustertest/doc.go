// SPDX-License-Identifier: Apache-2.0

// Package clustertest runs a cluster on one machine, for tests and the lab: each node
// is a network namespace with a dockerd of its own, all are connected by a switch in a
// namespace of its own, and a registry listens there.
//
//	             10.77.0.1 registry
//	   ┌──────────── br0 ────────────┐        (namespace of the switch)
//	  p1             p2             p3
//	   │              │              │
//	eth0 .11       eth0 .12       eth0 .13
//	node a         node b         node c      (namespaces, each with its dockerd)
//
//	c := clustertest.ForTest(t, clustertest.Options{Nodes: []string{"a", "b", "c"}})
//	docker := c.Node("a").Docker() // a client of its engine, which has CounterImage
//
// A node may also be a machine of its own (Options.Machine), whose cable is a tap.
//
// A link can be cut (Cut, Join) and shaped (Shape), an engine stopped. The engines
// come from package dockertest: private, with nothing of the host's touched, and gone
// with this process. It needs root, dockerd and CRIU (scripts/deps cluster).
//
// What it does not do: iptables, so no published ports; and the calls of the nodes'
// engines by this process do not cross the switch, only what the engines send.
package clustertest
