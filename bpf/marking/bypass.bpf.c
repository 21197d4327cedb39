// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * No way past the qdisc, or around its classes, for workloads without a port of their own:
 * those with the host's network, units of systemd, containers on a macvlan or ipvlan.
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
 * A third kind of packets has no socket: which groups of multicast a socket is in, and whom it
 * hears there, the kernel reports to routers by packets of its own, which count as the host's. A
 * process needs no capability to change that without end: 150 Mbit/s of reports were seen by one
 * thread. So a workload may change its groups REPORTS_AT_ONCE times, and then once in REPORT_NS;
 * what is beyond gets EPERM.
 *
 * Refused are processes in a workload's cgroup, and sockets that were made in one: a socket
 * that is passed to another workload, and back, cannot be changed on the way either.
 *
 * A container asks as soon as it runs, some 20 ms before the agent knows that it has the host's
 * network. So a cgroup that an engine makes for a container, which has 64 hexadecimal digits in its
 * name (docker-ID.scope, libpod-ID, cri-containerd-ID.scope), is in the table before a process is
 * in it: weir_born puts it there. Until the agent knows its workload, the options are refused to
 * sockets of the host's network namespace alone: in one of its own a container may use them.
 *
 * Users may have cgroups of their own to make (systemd's Delegate=), with such names, too, and
 * would fill the table: only those that root makes count. An engine that is not root's gives its
 * containers no CAP_NET_RAW over the host's network. The root of a container with writable cgroups
 * makes them in a cgroup namespace of its own, and engines in the kernel's first: only these count.
 * (On a host that is a container itself the options are refused once the agent knows the workload.)
 * One that was given that namespace fills the table all the same; then what the agent knows takes
 * the place of what is only born (Bind in internal/host/dataplane/mark/bypass/bypass.go).
 *
 * What it does not do: say anything about a socket that had the option before the program was
 * there, or, of a unit, before the unit was known.
 *
 * Cost: some 20 instructions for each setsockopt of the host, one pass over the name of each new
 * cgroup, and none for its packets.
 */
#include "../core/kernel.h"
#include "netns.h"
#include "owner.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define SOL_PACKET 263
#define PACKET_QDISC_BYPASS 20
#define SOL_XDP 283
#define XDP_TX_RING 3
#define EPERM 1
#define SOL_IP 0
#define IP_ADD_MEMBERSHIP 35 /* the first of many: linux/in.h */
#define SOL_IPV6 41
#define IPV6_JOIN_GROUP 20
#define IPV6_LEAVE_GROUP 21
#define IPV6_JOIN_ANYCAST 27
#define IPV6_LEAVE_ANYCAST 28
#define MCAST_JOIN_GROUP 42 /* the first of those that both families have */
#define MCAST_MSFILTER 48 /* and the last */
#define REPORT_NS 200000000ULL
#define REPORTS_AT_ONCE 500
#define TRIES 8
#define FIRST_CGROUPNS 0xEFFFFFFB /* PROC_CGROUP_INIT_INO of linux/proc_ns.h: its inode */

struct socket {
	struct sock *sk;
} __attribute__((preserve_access_index));

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node___name {
	const char *name;
};

struct cgroup_namespace {
	struct ns_common ns;
};

struct nsproxy {
	struct cgroup_namespace *cgroup_ns;
};

struct task_struct___nsproxy {
	struct nsproxy *nsproxy;
};

#pragma clang attribute pop

/* Of an element of weir_bound. */
#define WEIR_KNOWN 1 /* a workload without a port */
#define WEIR_BORN 2 /* a container of which the agent does not know more yet */

/* The cgroups of workloads without a port, and of containers, by id. */
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

/* Up to when a workload has used up its changes of groups; its cgroup's id is the key. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u64);
} weir_reported SEC(".maps");

static __always_inline bool reports(int level, int option)
{
	if (level == SOL_IP)
		return option >= IP_ADD_MEMBERSHIP && option <= MCAST_MSFILTER;
	return level == SOL_IPV6 && (option == IPV6_JOIN_GROUP || option == IPV6_LEAVE_GROUP ||
				     option == IPV6_JOIN_ANYCAST || option == IPV6_LEAVE_ANYCAST ||
				     (option >= MCAST_JOIN_GROUP && option <= MCAST_MSFILTER));
}

/* May a socket of this workload change its groups once more (GCRA)? */
static __always_inline bool report_allowed(__u64 id)
{
	__u64 now = bpf_ktime_get_ns(), zero = 0;
	__u64 *used = bpf_map_lookup_elem(&weir_reported, &id);

	if (!used) {
		bpf_map_update_elem(&weir_reported, &id, &zero, BPF_NOEXIST);
		used = bpf_map_lookup_elem(&weir_reported, &id);
	}
	if (!used)
		return false;
	for (int i = 0; i < TRIES; i++) { /* others of it ask at the same time */
		__u64 from = *(volatile __u64 *)used, at = from > now ? from : now;

		if (at - now > (REPORTS_AT_ONCE - 1) * REPORT_NS)
			return false;
		if (__sync_val_compare_and_swap(used, from, at + REPORT_NS) == from)
			return true;
	}
	return false;
}

static __always_inline bool bound(__u64 id, struct sock *sk)
{
	__u8 *how = id ? bpf_map_lookup_elem(&weir_bound, &id) : NULL;

	if (!how)
		return false;
	return *how != WEIR_BORN || weir_socket_here(sk);
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
	bool past = bypasses(level, option);
	struct cgroup *group;

	if (before || (!past && !reports(level, option)))
		return before;
	group = sock->sk->sk_cgrp_data.cgroup;
	for (int i = 0; i < WEIR_MAX_LEVELS; i++) {
		__u64 id = bpf_get_current_ancestor_cgroup_id(i);

		if (!bound(id, sock->sk))
			id = ancestor_of(group, i);
		if (bound(id, sock->sk))
			return !past && report_allowed(id) ? 0 : -EPERM;
	}
	return 0;
}

#define ID_DIGITS 64 /* of a container */
#define NAME_SIZE 128 /* names are looked at so far */

struct name {
	char text[NAME_SIZE];
	__u32 digits; /* hexadecimal, in a row, up to ID_DIGITS */
};

static __always_inline bool hexadecimal(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* One letter of a name. The loop is the kernel's: the verifier looks at it once. */
static long next_letter(__u32 i, struct name *name)
{
	if (name->digits == ID_DIGITS)
		return 1;
	name->digits = hexadecimal(name->text[i & (NAME_SIZE - 1)]) ? name->digits + 1 : 0;
	return 0;
}

SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(weir_born, struct cgroup *group, const char *path)
{
	struct kernfs_node___name *node = (void *)group->kn;
	__u64 id = cgroup_id(group);
	struct name name = {};
	__u8 how = WEIR_BORN;
	struct task_struct___nsproxy *maker = (void *)bpf_get_current_task();

	if ((__u32)bpf_get_current_uid_gid()) /* a user's own engine opens no such sockets here */
		return 0;
	if (BPF_CORE_READ(maker, nsproxy, cgroup_ns, ns.inum) != FIRST_CGROUPNS)
		return 0;
	bpf_probe_read_kernel_str(name.text, sizeof(name.text), BPF_CORE_READ(node, name));
	bpf_loop(NAME_SIZE, next_letter, &name, 0);
	if (name.digits == ID_DIGITS)
		bpf_map_update_elem(&weir_bound, &id, &how, BPF_NOEXIST);
	return 0;
}
