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
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define NET_XMIT_SUCCESS 0
#define NET_XMIT_DROP 1

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sk_buff {
	__u32 mark;
	char cb[48];
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

#endif /* WEIR_KERNEL_H */
