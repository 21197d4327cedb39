// SPDX-License-Identifier: Apache-2.0

// Package mark makes every packet of a workload carry the number of its class:
// it attaches bpf/mark.bpf.c to the devices by which the packets come in.
//
// Example: container web is class 3 and its packets come in by veth1a2b. Attach
// loads the marking program with the constant 3 and attaches it to the ingress
// of veth1a2b; from then on the upper 16 bits of skb->mark are 3, through
// bridge, routing and masquerading, until a qdisc on the uplink reads them.
// When web is given class 5, the program is replaced in one step: no packet
// passes without a mark.
//
// There are two ways to attach, chosen by what the kernel has:
//
//   - tcx (Linux 6.6 and later): a BPF link, pinned as BPFFS/ports/<ifindex>.
//     The pin keeps it alive without the agent. It goes first in the chain, so
//     that no redirecting program of somebody else hides the packets.
//   - clsact with a cls_bpf filter of fixed priority and handle, which stays
//     without the agent anyway. Clsact is added where it is missing, and what was
//     added is removed again (a file in StateDir remembers).
//
// Nothing is remembered about classes: List reads from the kernel which program
// each port has, and the class from that program's constants.
//
// What it does not do: mark traffic of processes that use the host's own
// network; they are class 0.
package mark
