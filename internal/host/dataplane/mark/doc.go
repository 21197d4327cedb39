// SPDX-License-Identifier: Apache-2.0

// Package mark makes every packet of a workload carry the number of its class
// and of its queue: it attaches bpf/marking/mark.bpf.c, or bpf/marking/classify.bpf.c where the
// workload has rules, to the devices by which the packets come in.
//
// Example: container web is class 3 and its packets come in by veth1a2b. Attach
// loads the marking program with the constant 3 and attaches it to the ingress
// of veth1a2b; from then on the class bits of skb->mark are 3, through
// bridge, routing and masquerading, until a qdisc on the uplink reads them.
// Where another program overwrites the mark on the way, the class is known by the seal in
// skb->tc_index (bpf/marking/seal.h). When web is given class 5, the program is replaced in one
// step: no packet passes without a mark.
//
// With a Marking, the program has the rules of the workload's queues as constants,
// too, and writes a DSCP if it is to. There are two more places: a cgroup of
// version 2, for processes without a device of their own (attachCgroup), and the
// link itself (AttachLink). The program there gives packets of local sockets the class
// of the socket's cgroup, whatever mark they carry, looks at the rules of class 0, and
// writes the DSCP of cgroups: their programs may not change packets. The BPF qdisc checks
// the sockets itself (Sockets); then the link has a program only for the rest
// (AttachLinkRules). While a workload is known by its cgroup, a program at lo and at the devices
// above links seals what its sockets send (seal.go). At an IFB a program refuses what sockets
// send there.
//
// There are two ways to attach to a device, chosen by what the kernel has:
//
//   - tcx (Linux 6.6 and later): a BPF link, pinned as BPFFS/ports/<ifindex>, at
//     the link as BPFFS/egress/<ifindex>, above it as BPFFS/seals/<ifindex>.
//     The pin keeps it alive without the agent. It goes first in the chain, so
//     that no redirecting program of another owner hides the packets.
//   - clsact with a cls_bpf filter of fixed priority and handle, which stays
//     without the agent anyway. Clsact is added where it is missing, and what was
//     added is removed again (a file in StateDir remembers).
//
// A cgroup's link is pinned as BPFFS/cgroups/<id>.
//
// Nothing is remembered about classes and rules: List reads from the kernel which
// program each port has, and the class from that program's constants; among them
// is a digest, by which Attach knows whether the rules are the wanted ones.
//
// What it does not do: mark packets by cgroups of version 1.
package mark
