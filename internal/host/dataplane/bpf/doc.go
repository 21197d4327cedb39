// SPDX-License-Identifier: Apache-2.0

// Package bpf is the data plane for kernels that have BPF qdiscs (Linux 6.16
// and later with CONFIG_NET_SCH_BPF): it loads bpf/qdisc.bpf.c once per link and
// steers it through maps.
//
// What happens to a link eth0 with ifindex 2:
//
//	load     the object gets a name of its own ("weir0", the first that is
//	         free on this host) and its constants; the kernel verifies it
//	pin      maps and the registration go to /sys/fs/bpf/weir, in a folder of
//	         the link's own, so that they outlive the agent
//	attach   the qdisc becomes the root of eth0; what was there is remembered
//	steer    a change of policy is written to the configuration maps and
//	         announced in a ring; the qdisc takes it over between two packets
//
// The next agent finds the pins, sees that the qdisc of eth0 is the one that
// was pinned and that it is the same build, and adopts it: nothing in the kernel
// changes. If the build differs, it loads the new one under a new name and
// replaces the qdisc; packets that wait at that moment are dropped by the
// kernel.
//
// Pure parts (costs.go: what rates become in the kernel's units) are kept apart
// from the object in the kernel (object.go) and the backend (backend.go).
package bpf
