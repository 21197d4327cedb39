/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets of local sockets count for the cgroup of their socket, whatever mark and seal they
 * carry (marking/owner.h). The qdisc checks that itself: a program at the link costs each
 * packet of every container some 180 instructions, most of them the kernel's way to
 * it. Here a packet that came by a device costs one comparison.
 *
 * Example: a container with the host's network (class 6) sends by a packet socket with
 * the seal of class 7. Its socket's cgroup is among `owners` with 6: class 6.
 */
#ifndef WEIR_SOCKETS_H
#define WEIR_SOCKETS_H

#include "kernel.h"
#include "../weir.h"

#define weir_packet struct sk_buff
#define WEIR_LOAD_IP packet_load_ip
#include "../marking/asked.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, WEIR_OWNERS);
	__type(key, __u64);
	__type(value, __u32);
} owners SEC(".maps");

/* The only element says where to look. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_sockets);
} sockets SEC(".maps");

/*
 * The lane (marking/seal.h) of a cgroup, or of the nearest one above that is a workload's; 0 for
 * the host's.
 */
static __always_inline __u32 owner_of(struct cgroup *group, __u32 levels)
{
	for (int level = WEIR_MAX_LEVELS - 1; level >= 0; level--) {
		__u32 *lane;
		__u64 id;

		if (!(levels & 1 << level))
			continue;
		id = ancestor_id(group, level);
		lane = id ? bpf_map_lookup_elem(&owners, &id) : NULL;
		if (lane)
			return *lane;
	}
	return 0;
}

/* owner_of for a program at the link, which sees the packet before the qdisc. */
static __noinline __u32 owner_at_link(struct __sk_buff *skb)
{
	__u32 none = 0;
	struct weir_sockets *s = bpf_map_lookup_elem(&sockets, &none);

	if (!s || !s->steered)
		return 0;
	for (int level = WEIR_MAX_LEVELS - 1; level >= 0; level--) {
		__u32 *lane;
		__u64 id;

		if (!(s->levels & 1 << level))
			continue;
		id = bpf_skb_ancestor_cgroup_id(skb, level);
		lane = id ? bpf_map_lookup_elem(&owners, &id) : NULL;
		if (lane)
			return *lane;
	}
	return 0;
}

/*
 * The lane of the question, where this packet is the kernel's answer; 0 = it is the host's. With
 * WEIR_LANE_REFUSED where too much of the kernel's own socket waits.
 */
static __always_inline __u32 lane_of_answer(struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	__u32 lane;

	if (!sk || weir_state_answers(socket_state(sk)))
		return weir_lane_asked(skb);
	if (!weir_kernels(socket_state(sk), socket_type(sk), socket_family(sk)))
		return 0;
	lane = weir_lane_asked(skb);
	return lane && socket_sends(sk) > WEIR_ANSWERS_WAIT ? lane | WEIR_LANE_REFUSED : lane;
}

/*
 * The lane of a packet that came by no device but lo, perhaps with WEIR_LANE_REFUSED; `said` is the
 * one that it carries. A function of its own, so that the usual case keeps its registers.
 */
static __noinline __u32 lane_of_socket(struct sk_buff *skb, __u32 said)
{
	__u32 own = 0, none = 0;
	struct weir_sockets *s = bpf_map_lookup_elem(&sockets, &none);
	struct cgroup *group;

	if (!s || !s->steered)
		return said;
	group = socket_cgroup(skb);
	if (group)
		own = owner_of(group, s->levels);
	if (!own && weir_sealed(skb->tc_index))
		return said;
	if (!own)
		own = lane_of_answer(skb);
	/* The queue stays where the class is right: the program at the link chose it. */
	return (said ^ own) & (WEIR_LANE_CLASS | WEIR_LANE_REFUSED) ? own : said;
}

#endif /* WEIR_SOCKETS_H */
