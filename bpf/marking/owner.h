/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose packet is it? One rule, for all places that ask:
 *
 *   1. What came by a device is of the class that a program at its port wrote into the seal
 *      (seal.h), and with mark_mask into the mark.
 *   2. What came by none, made on this host, is of the class of its socket's cgroup, or of
 *      the nearest cgroup above that is a workload's, whatever mark and seal it carries.
 *   3. Where no such cgroup is a workload's, the seal counts: most tunnels forget the device
 *      that a packet came by, but not the seal. WireGuard forgets both, so 4. holds.
 *   4. Without a seal it is the host's, class 0.
 *
 * Nothing that a workload writes is evidence. A process with CAP_NET_RAW sets the mark of its
 * packets (SO_MARK), or sends them past the program at its cgroup (AF_PACKET). The root of a
 * container on a macvlan with CAP_NET_ADMIN in its own namespace writes the seal, by a filter
 * of tc, and the macvlan keeps it. Example: such a container, class 6 by its cgroup, sends
 * with the seal 0x80e0, which is class 7's. By 2. the packet is of class 6.
 *
 * What comes back from lo has lost its socket, and so have copies that a device above the link
 * makes (a bridge that floods, macsec). So while a workload is known by its cgroup, a program
 * at lo and at each device above the link (weir_rules_seal) seals what the workload's sockets
 * send there, before they lose it: 3. holds then. The root of no workload reaches these devices. A
 * workload on a macvlan has a lo of its own, where the agent puts the same program: its root cannot
 * take it off.
 *
 *     socket of class 6 ──► br0 [seal of class 6] ──► copy without a socket ──► link: class 6
 *
 * What has no device, no socket and no seal is the host's, whatever mark it carries: the
 * kernel's own packets (ARP, the last ACK of a connection that is over), and what netfilter
 * duplicates before a packet comes to its first device. The kernel's ICMP and RST have a
 * socket of the kernel's, which is the host's too. A SYN-ACK has that of its listener. What of
 * these the kernel answers to a workload is the workload's (asked.h).
 *
 * A container with a port whose cgroup is inside of a workload's is inside of both: what it
 * sends through a bridge into a tunnel is of the outer one where the kernel leaves the packet
 * its socket, else of its port's.
 *
 * 2. holds for containers with ports, too: one with CAP_NET_ADMIN and without a user namespace
 * of its own can make a macvlan on the host's link, whose packets come by no port. And it holds
 * for as long as a socket of the cgroup is open, also after the cgroup was removed
 * (internal/host/dataplane/mark/remains.go).
 *
 * Not held: a container with CAP_NET_ADMIN and such a macvlan or ipvlan also forwards packets from
 * devices of its own, which have no socket and came by a device.
 *
 * Two places check it, and share this header: the qdisc (core/sockets.h), and the programs at
 * a link (classify.bpf.c), where the qdisc is HTB, or the link has rules, codepoints or zones.
 *
 * Each, and the programs that seal, has a map from the id of a workload's cgroup to the
 * workload's class, with the queue for packets that no rule has seen.
 */
#ifndef WEIR_OWNER_H
#define WEIR_OWNER_H

#include "seal.h"

#define WEIR_MAX_LEVELS 16 /* no workload is further below the top (cgroup.MaxDepth) */
#define WEIR_LOOPBACK 1 /* index of lo in every network namespace */
#define WEIR_HANDLE 0x77e1 /* major number of Weir's qdiscs and of HTB's classes */

/*
 * Does skb->priority name a class of Weir's HTB? HTB reads it before every filter, and its
 * minor number 0 means "at once, unshaped". A process with CAP_NET_RAW sets it by
 * SO_PRIORITY, and a netfilter rule of its own namespace on a macvlan does. Other numbers are
 * left to those who use them.
 */
static __always_inline bool weir_names_class(__u32 priority)
{
	return priority >> 16 == WEIR_HANDLE;
}

#endif /* WEIR_OWNER_H */
