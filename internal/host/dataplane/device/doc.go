// SPDX-License-Identifier: Apache-2.0

// Package device is what both backends need to know about a network device:
// which one it is, which qdisc sits at its root, whether Weir may replace that
// qdisc, and how to put it back.
//
// The rule is "leave the host as found". A qdisc with handle 0: was made by the
// kernel when the device came up (noqueue, pfifo_fast, mq, or whatever
// net.core.default_qdisc says) and comes back by itself when another one is
// deleted. A qdisc with any other handle was made by a person or a tool, and is
// replaced only on demand. Weir's own qdiscs are recognised by the handle 77e1:
// or by a kind that begins with "weir".
//
// Example: eth0 has "tbf 8001:". Take refuses and names the remedy. With Force
// it writes the kind, the handle and the raw options of the tbf to
// StateDir/qdisc-eth0-2.json, and the backend may put its own qdisc in place.
// GiveBack later replaces Weir's qdisc by that very tbf and removes the file.
//
// The trap: only a root qdisc itself can be put back. The classes, inner qdiscs
// and filters of a classful one (htb, prio, ...) are lost when it is replaced;
// Take says so in the log, and how many there were.
//
// The package also bounds the size of segmentation-offload packets (see gso.go),
// because one packet of 64 KB blocks a slow link for milliseconds whatever the
// scheduler does.
//
// What it does not do: build a scheduler. Package tc and package bpf do.
package device
