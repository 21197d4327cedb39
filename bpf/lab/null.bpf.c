// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The null qdisc: a FIFO of packets without any policy, as a BPF qdisc. What a packet
 * costs through it is the platform's part of the cost of any BPF qdisc: the kernel's
 * calls into the programs, and a packet's way into a map and out of it again. The rest
 * of what Weir adds is Weir's own. Only the lab loads it (internal/lab/meter).
 *
 * A packet waits in the next element of a ring. Example: after three packets, of which
 * one was sent, first is 1, next is 3, and elements 1 and 2 hold one each.
 *
 * What it does not do: classes, limits in bytes, counters of its own, a rate.
 */
#include "../core/kernel.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define NULL_SLOTS 1024 /* packets that may wait; a power of two */

struct null_slot {
	struct sk_buff __kptr *skb;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NULL_SLOTS);
	__type(key, __u32);
	__type(value, struct null_slot);
} null_slots SEC(".maps");

/* Counts of packets since the load; the element of packet n is n % NULL_SLOTS. */
static __u32 first, next;

static __always_inline struct null_slot *null_slot_of(__u32 n)
{
	__u32 key = n & (NULL_SLOTS - 1);

	return bpf_map_lookup_elem(&null_slots, &key);
}

SEC("struct_ops/null_enqueue")
int BPF_PROG(null_enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	__u32 len = qdisc_pkt_len(skb);
	struct null_slot *slot = null_slot_of(next);
	struct sk_buff *old;

	if (unlikely(sch->q.qlen >= NULL_SLOTS) || unlikely(!slot)) {
		sch->qstats.drops++;
		bpf_qdisc_skb_drop(skb, to_free);
		return NET_XMIT_DROP;
	}
	old = bpf_kptr_xchg(&slot->skb, skb);
	if (unlikely(old)) /* cannot be: the element was empty */
		bpf_qdisc_skb_drop(old, to_free);
	next++;
	sch->q.qlen++;
	sch->qstats.backlog += len;
	return NET_XMIT_SUCCESS;
}

SEC("struct_ops/null_dequeue")
struct sk_buff *BPF_PROG(null_dequeue, struct Qdisc *sch)
{
	struct null_slot *slot;
	struct sk_buff *skb;

	if (!sch->q.qlen)
		return NULL;
	slot = null_slot_of(first);
	if (unlikely(!slot))
		return NULL;
	skb = bpf_kptr_xchg(&slot->skb, NULL);
	if (unlikely(!skb)) /* cannot be: the element holds a packet */
		return NULL;
	first++;
	sch->q.qlen--;
	sch->qstats.backlog -= qdisc_pkt_len(skb);
	bpf_qdisc_bstats_update(sch, skb);
	return skb;
}

SEC("struct_ops/null_init")
int BPF_PROG(null_init, struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	sch->limit = NULL_SLOTS;
	return 0;
}

SEC("struct_ops/null_reset")
void BPF_PROG(null_reset, struct Qdisc *sch)
{
	for (__u32 n = 0; n < NULL_SLOTS; n++) {
		struct null_slot *slot = null_slot_of(n);
		struct sk_buff *skb = NULL;

		if (slot)
			skb = bpf_kptr_xchg(&slot->skb, NULL);
		if (skb)
			bpf_kfree_skb(skb);
	}
	first = next = 0;
}

/* The kernel calls reset first. */
SEC("struct_ops/null_destroy")
void BPF_PROG(null_destroy, struct Qdisc *sch)
{
}

SEC(".struct_ops.link")
struct Qdisc_ops lab_null = {
	.enqueue = (void *)null_enqueue,
	.dequeue = (void *)null_dequeue,
	.init = (void *)null_init,
	.reset = (void *)null_reset,
	.destroy = (void *)null_destroy,
	.id = "lab_null",
};
