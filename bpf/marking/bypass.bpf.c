// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * No way past the qdisc for workloads without a port of their own: those with the host's
 * network, units of systemd, containers on a macvlan or ipvlan.
 *
 * Two kinds of sockets hand their packets to the device itself. A packet socket does with
 * PACKET_QDISC_BYPASS, a socket of AF_XDP by its ring XDP_TX_RING. Neither a qdisc nor a
 * program at the device's egress sees such a packet. CAP_NET_RAW is enough for both, and
 * Docker gives it to every container. So both options are refused where they are asked for:
 *
 *     setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, ...)  ->  EPERM
 *
 * It stands before the kernel's own question of security modules, which each way to
 * setsockopt asks: the system call, that of 32-bit programs (which passes over programs at
 * cgroup/setsockopt: there are none for it), and io_uring. It does not need the kernel to run
 * security modules by BPF.
 *
 * Example: a container with the host's network, in cgroup 2697, asks for it. The cgroup is in
 * weir_bound: EPERM. A DHCP client in a cgroup of no workload does: the kernel goes on.
 *
 * Refused are processes in a workload's cgroup, and sockets that were made in one: a socket
 * that is passed to another workload, and back, cannot be changed on the way either.
 *
 * What it does not do: say anything about a socket that had the option before its workload
 * was known.
 *
 * Cost: some 20 instructions for each setsockopt of the host, and for none of its packets.
 */
#include "../core/kernel.h"
#include "owner.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define SOL_PACKET 263
#define PACKET_QDISC_BYPASS 20
#define SOL_XDP 283
#define XDP_TX_RING 3
#define EPERM 1

struct socket {
	struct sock *sk;
} __attribute__((preserve_access_index));

/* The cgroups of workloads without a port, by id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096); /* WEIR_OWNERS of weir.h */
	__type(key, __u64);
	__type(value, __u8);
} weir_bound SEC(".maps");

static __always_inline bool bypasses(int level, int option)
{
	return (level == SOL_PACKET && option == PACKET_QDISC_BYPASS) ||
	       (level == SOL_XDP && option == XDP_TX_RING);
}

static __always_inline bool bound(__u64 id)
{
	return id && bpf_map_lookup_elem(&weir_bound, &id);
}

/* The id of the cgroup `level` below the top that this one is in, or is. */
static __always_inline __u64 ancestor_of(struct cgroup *group, int level)
{
	struct cgroup *at = NULL;

	if (level > group->level)
		return 0;
	bpf_probe_read_kernel(&at, sizeof(at),
			      (void *)((__u64)&group->ancestors + level * sizeof(at)));
	return BPF_CORE_READ(at, kn, id);
}

SEC("fmod_ret/security_socket_setsockopt")
int BPF_PROG(weir_refuse_bypass, struct socket *sock, int level, int option, int before)
{
	struct cgroup *group;

	if (before || !bypasses(level, option))
		return before;
	group = sock->sk->sk_cgrp_data.cgroup;
	for (int i = 0; i < WEIR_MAX_LEVELS; i++)
		if (bound(bpf_get_current_ancestor_cgroup_id(i)) || bound(ancestor_of(group, i)))
			return -EPERM;
	return 0;
}
