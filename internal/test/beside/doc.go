// SPDX-License-Identifier: Apache-2.0

// Package beside holds tests of Weir on hosts whose network another program manages:
// NetworkManager, systemd-networkd, netplan, ifupdown, dhcpcd, OpenVPN, Open vSwitch, Docker,
// firewalld, and an nft that flushes every table. The package has only tests.
//
// They run in a virtual machine with Debian and systemd that has all these programs, and is the
// host:
//
//	ns three: 10.9.3.2 ──veth── up-three ─┐             ┌─ counts what arrives
//	ns one:   10.9.1.2 ──veth── up-one  ──┴─ up0 ── eth0┤  (and answers DHCP)
//	                               the manager's :  ns far
//
// Three and one send twice what the link carries, by weights of 3 and 1. The manager gives up0 its
// address. Where it has a guest of its own (Docker), that sends as well, by a weight of 1. Where
// Weir is on a tunnel, three and one send through it. The manager does each of its works, restarts
// and new configurations, once without Weir, and then ten of them beside Weir's agent, which runs
// as its unit. After each of these:
//
//   - Weir's qdisc was away from the link for at most 2 s, ports are marked as before, and weir
//     status has no problem;
//   - the far end receives three times as much from three as from one;
//   - what the manager says of the link, its addresses, routes and rules are what they are without
//     Weir, and none of its units has failed or was started again;
//   - the agent has said at most once what it had to mend, and nothing where nothing was changed (of
//     an engine that is restarted it says that, too).
//
// After weir cleanup the link has the qdisc that the manager gave it.
//
//	scripts/test-managers [--kernel SERIES] [MANAGER]...
//
// What it does not test: libvirt, what the managers do to ports of workloads (package e2e disturbs
// those), and moves of containers.
package beside
