/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What core/kernel.h and libbpf give the qdisc, for an ordinary program. */
#ifndef WEIR_SIM_HOST_H
#define WEIR_SIM_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/if_ether.h>
#include <linux/types.h>

#define WEIR_KERNEL_H
#define WEIR_HASH_H
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __arg_trusted
#define __kptr
#define SEC(x)
#define __uint(name, val) int(*name)[val]
#define __type(name, val) val *name
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define bpf_htonl(x) __builtin_bswap32(x)
#define bpf_htons(x) __builtin_bswap16(x)
#define BPF_MAP_TYPE_HASH 1
#define BPF_F_NO_PREALLOC 1
#define BPF_PROG(name, args...) name(args)
#define likely(x) (x)
#define unlikely(x) (x)
#define bounded(i, n) ((__u64)(i) & ((n) - 1))
#define keep(x) ((void)(x))
#define NET_XMIT_SUCCESS 0
#define NET_XMIT_DROP 1

#define TC_ACT_UNSPEC -1
#define __sk_buff sk_buff
#define ingress_ifindex skb_iif
#define bpf_htons __builtin_bswap16
#define bpf_htonl __builtin_bswap32
#define bpf_ntohl __builtin_bswap32
#define lying_at(address, type) ((type *)(address))

struct cgroup;
struct in6_addr {
	union {
		__u32 u6_addr32[4];
	} in6_u;
};
struct skb_shared_info {
	unsigned short gso_size, gso_segs;
};
struct sk_buff {
	void *sk;
	int skb_iif;
	__u16 tc_index;
	__u32 mark;
	__u64 tstamp;
	__u32 hash, source;
	unsigned int pkt_len;
	unsigned int len, ip_at, headers;
	struct skb_shared_info info;
	__u32 vlan_all;
	__u16 protocol, network_header;
	unsigned char *head;
	unsigned int tail;
	__u64 born;
	__u8 ecn; /* the two bits: 0 = cannot be marked, 3 = CE */
	bool unheard; /* nothing follows its leaving */
};
struct Qdisc {
	__u32 limit;
	struct {
		__u32 qlen;
	} q;
	struct {
		__u32 backlog, drops, overlimits;
	} qstats;
};
struct bpf_sk_buff_ptr {
	int none;
};
struct Qdisc_ops {
	void *enqueue, *dequeue, *init, *reset, *destroy;
	char id[16];
};
struct nlattr;
struct netlink_ext_ack;

static __u64 now_ns = 1000000000ULL;
static __u64 watchdog;
static __u64 timers;
static __u64 tardy; /* ns that each fires after its time */

static bool before(__u64 a, __u64 b)
{
	return (__s64)(a - b) < 0;
}
static const struct skb_shared_info *packet_segments(const struct sk_buff *skb)
{
	return &skb->info;
}
static __u32 packet_bytes(const struct sk_buff *skb)
{
	return skb->len;
}
static __u32 packet_headers(const struct sk_buff *skb, const struct skb_shared_info *info)
{
	return skb->headers;
}
static bool packet_tagged(const struct sk_buff *skb)
{
	return skb->vlan_all;
}
static __u32 packet_ip_at(const struct sk_buff *skb)
{
	return skb->ip_at;
}
static unsigned int qdisc_pkt_len(const struct sk_buff *skb)
{
	return skb->pkt_len;
}
static struct cgroup *socket_cgroup(struct sk_buff *skb)
{
	return NULL;
}
static __u8 socket_state(const struct sock *sk)
{
	return 0;
}
static __u32 socket_family(const struct sock *sk)
{
	return 0;
}
static __u32 socket_type(const struct sock *sk)
{
	return 0;
}
static __u32 socket_sends(const struct sock *sk)
{
	return 0;
}
static long packet_load_ip(const struct sk_buff *skb, __u32 at, void *to, __u32 len)
{
	return -1;
}
static __u64 cgroup_id(const struct cgroup *group)
{
	return 0;
}
static __u64 ancestor_id(const struct cgroup *group, int level)
{
	return 0;
}
static __u64 bpf_skb_ancestor_cgroup_id(struct sk_buff *skb, int level)
{
	return 0;
}
static __u32 bpf_skb_get_hash(struct sk_buff *skb)
{
	return skb->hash;
}
static __u32 flow_hash(struct sk_buff *skb)
{
	return skb->hash;
}
static __u32 bpf_get_hash_recalc(struct sk_buff *skb)
{
	return skb->hash;
}
static bool packet_ect(struct sk_buff *skb)
{
	return skb->ecn;
}
static void bpf_skb_pull_data(struct sk_buff *skb, __u32 len)
{
}
static bool bpf_skb_ecn_set_ce(struct sk_buff *skb)
{
	if (skb->ecn)
		skb->ecn = 3;
	return skb->ecn;
}
static __u64 bpf_ktime_get_ns(void)
{
	return now_ns;
}
static void sim_lost(struct sk_buff *skb);
static void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *f)
{
	sim_lost(skb);
}
static void bpf_kfree_skb(struct sk_buff *skb)
{
	sim_lost(skb);
}
static void bpf_qdisc_bstats_update(struct Qdisc *sch, const struct sk_buff *skb)
{
}
static void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, __u64 at, __u64 slack)
{
	watchdog = at + tardy;
	timers++;
}

static void *sim_lookup(void *map, __u32 key);
#define bpf_map_lookup_elem(map, key) sim_lookup(map, *(key))
#define bpf_loop(n, fn, ctx, flags)                                                                \
	do {                                                                                       \
		for (__u64 __n = (n), __i = 0; __i < __n; __i++)                                   \
			if (fn(__i, ctx))                                                          \
				break;                                                             \
	} while (0)
static struct sk_buff *sim_xchg(struct sk_buff **at, struct sk_buff *skb)
{
	struct sk_buff *old = *at;
	*at = skb;
	return old;
}
#define bpf_kptr_xchg(at, skb) sim_xchg(at, skb)

#endif
