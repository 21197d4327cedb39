/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types, kfuncs and helpers that Weir's qdisc uses, instead of a
 * vmlinux.h of 135,000 lines. Every struct lists only the members that are
 * read or written; CO-RE relocates them to where the running kernel has them.
 *
 * Kernels: 6.18 and 7.3 (Debian) load the same object. The interface exists
 * since 6.16 (net/sched/bpf_qdisc.c), where CONFIG_NET_SCH_BPF is set.
 */
#ifndef WEIR_KERNEL_H
#define WEIR_KERNEL_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#ifndef __arg_trusted /* libbpf 1.4 has it */
#define __arg_trusted __attribute__((btf_decl_tag("arg:trusted")))
#endif

#define NET_XMIT_SUCCESS 0
#define NET_XMIT_DROP 1

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
	int level; /* below the top */
	struct cgroup *ancestors[]; /* by their level, itself included */
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct sock_common {
	unsigned short skc_family;
	volatile unsigned char skc_state;
	struct sock *skc_listener; /* of a request */
};

struct refcount_struct {
	struct {
		int counter;
	} refs;
};

struct sock {
	struct sock_common __sk_common;
	struct refcount_struct sk_wmem_alloc; /* bytes that it has sent and that are not gone */
	struct sock_cgroup_data sk_cgrp_data;
	__u16 sk_type;
};

struct sk_buff {
	struct sock *sk;
	int skb_iif; /* the device that it came by; 0 = none */
	__u16 tc_index;
	__u32 mark;
	__u64 tstamp; /* ns; here, when it is to leave: core/depart.h */
	__be16 protocol;
	__u16 network_header, transport_header; /* from head */
	__u32 hash;
	unsigned char *head, *data;
	unsigned int tail; /* from head: the end of what lies there in one piece */
	unsigned int end; /* from head: where skb_shared_info lies */
	unsigned int len;
	__u32 vlan_all; /* a tag that the device writes; 0 = none */
	char cb[48];
};

struct skb_shared_info {
	unsigned short gso_size; /* payload of each segment; 0 = not offloaded */
	unsigned short gso_segs;
	unsigned int gso_type;
};

/* What the qdisc layer keeps in skb->cb; pkt_len is set before enqueue. */
struct qdisc_skb_cb {
	unsigned int pkt_len;
};

struct qdisc_skb_head {
	__u32 qlen;
};

struct gnet_stats_queue {
	__u32 backlog;
	__u32 drops;
	__u32 overlimits;
};

struct Qdisc {
	__u32 limit;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
};

struct iphdr {
	__u8 ihl : 4;
	__u8 tos;
	__be16 frag_off;
	__u8 protocol;
	__be32 saddr, daddr;
};

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

struct ipv6hdr {
	__u8 flow_lbl[3]; /* before it, the lower half of the traffic class */
	__u8 nexthdr;
	struct in6_addr saddr, daddr;
};

/* TCP has the same two at its beginning. */
struct udphdr {
	__be16 source, dest;
};

#define UDP_HEADER 8
#define SKB_GSO_TCPV4 (1 << 0)
#define SKB_GSO_TCPV6 (1 << 4)

struct netlink_ext_ack;
struct nlattr;

/* The deferred free list of enqueue. */
struct bpf_sk_buff_ptr {
	struct sk_buff *skb;
};

struct Qdisc_ops {
	int (*enqueue)(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free);
	struct sk_buff *(*dequeue)(struct Qdisc *sch);
	int (*init)(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack);
	void (*reset)(struct Qdisc *sch);
	void (*destroy)(struct Qdisc *sch);
	char id[16];
};

#pragma clang attribute pop

void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free) __ksym;
void bpf_kfree_skb(struct sk_buff *skb) __ksym;
void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, __u64 expire, __u64 delta_ns) __ksym;
__u32 bpf_skb_get_hash(struct sk_buff *skb) __ksym;
void bpf_qdisc_bstats_update(struct Qdisc *sch, const struct sk_buff *skb) __ksym;
void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym;

#ifndef __kptr
#define __kptr __attribute__((btf_type_tag("kptr")))
#endif

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/*
 * Index i of an array of n (a power of two) elements, in a form that neither
 * the compiler can optimise away nor the verifier can doubt.
 */
#define bounded(i, n)                                                                              \
	({                                                                                         \
		__u64 __i = (i);                                                                   \
		asm volatile("%0 &= %1" : "+r"(__i) : "i"((n) - 1));                               \
		__i;                                                                               \
	})

/*
 * An argument that a function of its own may not look at: the compiler would not
 * pass it, but the verifier insists.
 */
#define keep(x) asm volatile("" : : "r"(x))

static __always_inline bool before(__u64 a, __u64 b)
{
	return (__s64)(a - b) < 0;
}

static __always_inline unsigned int qdisc_pkt_len(const struct sk_buff *skb)
{
	return ((struct qdisc_skb_cb *)skb->cb)->pkt_len;
}

/* What lies at an address, which the verifier knows nothing of; reading it is safe
 * whatever it is. */
#define lying_at(address, type)                                                                    \
	((type *)bpf_rdonly_cast((const void *)(address), bpf_core_type_id_kernel(type)))

/* The segments that an offloaded packet will become. */
static __always_inline const struct skb_shared_info *packet_segments(const struct sk_buff *skb)
{
	return lying_at((__u64)skb->head + skb->end, struct skb_shared_info);
}

static __always_inline __u32 packet_bytes(const struct sk_buff *skb)
{
	return skb->len;
}

/* Bytes that each of its segments begins with. */
static __always_inline __u32 packet_headers(const struct sk_buff *skb,
					    const struct skb_shared_info *info)
{
	__u64 at = (__u64)skb->head + skb->transport_header;
	__u32 before = at - (__u64)skb->data;

	if (info->gso_type & (SKB_GSO_TCPV4 | SKB_GSO_TCPV6))
		/* The upper half of TCP's byte 12 is the length of its header, in words of 4. */
		return before + ((lying_at(at, struct in6_addr)->in6_u.u6_addr32[3] & 0xf0) >> 2);
	return before + UDP_HEADER;
}

/* Has the packet a VLAN tag that its length does not count? */
static __always_inline bool packet_tagged(const struct sk_buff *skb)
{
	return skb->vlan_all;
}

/* Bytes before its IP header. */
static __always_inline __u32 packet_ip_at(const struct sk_buff *skb)
{
	return (__u64)skb->head + skb->network_header - (__u64)skb->data;
}

/*
 * Does the packet say that it can be marked (ECT or CE)? It is asked of few packets, so that
 * the header is read in place and not where a packet begins. What lies beyond a header that
 * is cut off is read as some answer; who marks looks again (ecn.h).
 */
static __always_inline bool packet_ect(struct sk_buff *skb)
{
	__u64 at = (__u64)skb->head + skb->network_header;

	if (skb->protocol == bpf_htons(ETH_P_IP))
		return lying_at(at, struct iphdr)->tos & 3;
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		return lying_at(at, struct ipv6hdr)->flow_lbl[0] >> 4 & 3;
	return false;
}

/*
 * The cgroup that the packet's socket was made in; NULL if there is no socket, or one
 * that only remembers a connection. As bpf_skb_cgroup_id does it.
 */
static __always_inline struct cgroup *socket_cgroup(struct sk_buff *skb)
{
	enum { TIME_WAIT = 6, NEW_SYN_RECV = 12 };
	struct sock *sk = skb->sk;

	if (!sk || sk->__sk_common.skc_state == TIME_WAIT)
		return NULL;
	if (sk->__sk_common.skc_state == NEW_SYN_RECV)
		return lying_at(sk->__sk_common.skc_listener, struct sock)->sk_cgrp_data.cgroup;
	return sk->sk_cgrp_data.cgroup;
}

/* enum of net/tcp_states.h, for all kinds of sockets; the rest is of full sockets alone. */
static __always_inline __u8 socket_state(const struct sock *sk)
{
	return sk->__sk_common.skc_state;
}

static __always_inline __u32 socket_family(const struct sock *sk)
{
	return sk->__sk_common.skc_family;
}

static __always_inline __u32 socket_type(const struct sock *sk)
{
	return sk->sk_type;
}

static __always_inline __u32 socket_sends(const struct sock *sk)
{
	return sk->sk_wmem_alloc.refs.counter;
}

/*
 * Copies `len` bytes, one or whole words, from `at` bytes behind the beginning of the IP header;
 * 0 = it has.
 */
static __always_inline long packet_load_ip(const struct sk_buff *skb, __u32 at, void *to, __u32 len)
{
	__u64 from = (__u64)skb->head + skb->network_header + at;
	const struct in6_addr *part = lying_at(from, struct in6_addr);
	__u32 words = len / 4;

	if (!words)
		*(__u8 *)to = part->in6_u.u6_addr32[0];
	for (__u32 i = 0; i < words; i++) {
		if (i && i % 4 == 0)
			part = lying_at(from + i * 4, struct in6_addr);
		((__u32 *)to)[i] = part->in6_u.u6_addr32[i % 4];
	}
	return 0;
}

static __always_inline __u64 cgroup_id(const struct cgroup *group)
{
	return group->kn->id;
}

/*
 * The id of the cgroup `level` below the top that this one is in, or is; 0 if it is
 * further up. An element of `ancestors` is read as what a socket has, a pointer to a
 * cgroup: the verifier refuses an index into an array at the end of a struct.
 */
static __always_inline __u64 ancestor_id(const struct cgroup *group, int level)
{
	__u64 at = (__u64)&group->ancestors + level * sizeof(group);

	if (level > group->level)
		return 0;
	return cgroup_id(lying_at(at, struct sock_cgroup_data)->cgroup);
}

#endif /* WEIR_KERNEL_H */
