/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets of local sockets. A process with CAP_NET_RAW may mark its packets as it
 * likes (SO_MARK) or send them past the program at its cgroup (AF_PACKET). So Weir
 * does not believe their mark: they belong to the cgroup that the socket was made in.
 * Two places check that, and share this header: the qdisc (core/sockets.h), and the program at
 * a link (classify.bpf.c), where the qdisc is HTB or the link has rules or codepoints.
 *
 * Each has a map from the id of a workload's cgroup to the workload's mark, with the
 * queue for packets that no rule has seen. The same map has an entry by weir_choice
 * for each class that the agent's own sockets may choose: workloads without ports and
 * cgroups, such as migrations.
 */
#ifndef WEIR_OWNER_H
#define WEIR_OWNER_H

#include "seal.h"

#define WEIR_MAX_LEVELS 16 /* cgroups further below the top are not told apart */
#define WEIR_LOOPBACK 1 /* index of lo in every network namespace */

/*
 * Is the mark one that a local socket chose? What came in by a device has its mark
 * from a program there, or none, and by a port it has the seal, too: a tunnel forgets
 * the device that a packet came by, but not its socket. But what a packet socket sends
 * into lo comes back with the mark and without the socket.
 */
static __always_inline bool weir_socket_chose(__u32 iif, __u32 tc_index, bool socket)
{
	if (iif > WEIR_LOOPBACK || weir_sealed(tc_index))
		return false;
	return iif == WEIR_LOOPBACK || socket;
}

/* By what the agent's own choice of a class is found: no cgroup has such an id. */
static __always_inline __u64 weir_choice(__u32 mark, __u32 classes)
{
	return ~(__u64)(mark & classes);
}

#endif /* WEIR_OWNER_H */
