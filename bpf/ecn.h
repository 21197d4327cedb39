/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ECN (RFC 3168): a packet that says that it can be marked (ECT) is not dropped by CoDel.
 *
 * The kernel lets a BPF qdisc read a packet and not write to it. A program at the link's
 * egress hook, which runs just before the qdisc, may write. So the qdisc marks by proxy:
 *
 *     packet ──► weir_mark_ce ──► enqueue ... dequeue: CoDel would drop it, it is ECT
 *                  ▲                              │
 *                  └────────── a debt ◄───────────┘   of one mark, by flow
 *
 * CoDel decides at dequeue. Instead of the drop the flow owes a mark; the flow's next ECT
 * packet that comes to the link is marked CE and pays.
 *
 * That packet leaves as much later as packets wait now, and a quarter more: it has yet to
 * come, and the queue still grows. So CoDel decides about an ECT packet as it would when
 * the mark leaves. Without this, the notice would come later than a drop's by the whole
 * delay in the queue.
 *
 * In a queue where only some flows can be marked, the one whose packet is first once a
 * mark would be due gets the notice; if that is a drop, it waits for the drop's own time.
 * Else marks, which come earlier, would leave no drop to the flows that cannot be marked.
 *
 * A sender that ignores marks gains nothing. Three rules, each of which makes CoDel drop:
 *   - marks did not help: for ECN_PATIENCE intervals since the first one was due no packet
 *     has waited for less than the target, and this one for more than twice the target
 *     (RFC 3168, section 7, and PIE above 10 % have such a rule, by a probability);
 *   - the flow still owes the mark before: its packets are no longer ECT, or come so seldom
 *     that it cannot be told otherwise, or another program took weir_mark_ce away;
 *   - the limits of class and link, which do not know ECN.
 *
 * `ce_threshold` (for DCTCP, RFC 8257) is a level and no event: while the packets that leave
 * have waited for longer, each ECT packet of the flow that comes is marked.
 *
 * Debts are in a table by class and hash of the flow, or the queue's number. An entry is
 *
 *     key << 32 | time (ns >> OWED_SHIFT, even) | OWED_LEVEL
 *
 * A debt that is OWED_OLD old is none. Two flows with one entry: the later one has it, and
 * the other has one mark less. The qdisc writes under its lock; weir_mark_ce runs on any
 * CPU, and takes an entry out by compare and swap.
 *
 * Cost: where no class of a link asks for ECN, the program is not attached and the qdisc
 * does one comparison for each sorted packet that CoDel looks at.
 *
 * Not done here: L4S (RFC 9331). docs/decisions/0050-ecn.md says why.
 */
#ifndef WEIR_ECN_H
#define WEIR_ECN_H

#include "disciplines/table.h"

#define OWED 4096 /* entries, a power of two */
#define OWED_BITS 12
#define OWED_SHIFT 20 /* times are counted in 1.05 ms */
#define OWED_OLD 1024 /* of those */
#define OWED_LEVEL 1ULL /* ce_threshold: not taken out when it is paid */
#define ECN_ABOVE 1 /* weir_flow.ecn: packets wait for longer than ce_above */
#define ECN_DROP 2 /* a packet that cannot be marked was there first: the next notice is a drop */
#define MARKED_LEN                                                                                 \
	(14 + 20) /* bytes of a frame that have to be its own: as long as IPv4's header */
#define ECN_PATIENCE 4 /* intervals */
#define ECN_ALWAYS_BELOW ~0ULL /* weir_class.ce_above without a ce_threshold */

static __u64 owed[OWED];
static __u64 owed_until; /* no entry counts after that; 0 = there is none */

static __always_inline __u64 *owed_at(__u32 key)
{
	return &owed[bounded(key * 2654435761u >> (32 - OWED_BITS), OWED)];
}

/* Does entry e say that the flow `key` owes a mark? */
static __always_inline bool owes(__u64 e, __u32 key, __u64 now)
{
	__u32 age = (__u32)(now >> OWED_SHIFT) - (__u32)e;

	return e && e >> 32 == key && age + 1 <= OWED_OLD;
}

static __always_inline void owe(__u32 key, __u64 now, __u64 level)
{
	__u32 at = now >> OWED_SHIFT;

	*owed_at(key) = (__u64)key << 32 | (at & ~1u) | level;
	owed_until = now + ((__u64)OWED_OLD << OWED_SHIFT);
}

/*
 * What the debts of a hashed flow are found by. With the class in it: a host that two classes
 * send to has one hash in both, if they isolate hosts.
 */
static __always_inline __u32 owed_key(__u32 id, __u32 hash)
{
	return hash ^ id * 0x9e3779b9u;
}

/* The packets of flow f that leave have waited for longer than ce_threshold, or no more. */
static __always_inline void ecn_level(struct weir_class *c, struct weir_flow *f, __u32 key,
				      __u64 age, __u64 now)
{
	bool above = age > c->ce_above && f->qlen;

	if (above) {
		owe(key, now, OWED_LEVEL);
	} else if (f->ecn & ECN_ABOVE) {
		__u64 *e = owed_at(key);

		if (*e >> 32 == key)
			*e = 0;
	}
	f->ecn = (f->ecn & ECN_DROP) | (above ? ECN_ABOVE : 0);
}

/*
 * The first packet of `flow`, of class id, has left it; it came at `since`. Is it sent, and
 * not dropped by CoDel? In classes with ECN.
 */
static __noinline bool ecn_keeps(struct sk_buff *skb, __u32 id, __u32 flow, __u32 since, __u64 now)
{
	struct weir_class *c = class_at(id);
	struct weir_flow *f = flow_at(flow);
	__u64 age = codel_age(since, now), leaves;
	bool ect = false;
	__u32 key;

	if (!skb)
		return true; /* cannot be: the flow held this slot */
	key = flow < RULE_QUEUES ? flow : owed_key(id, bpf_skb_get_hash(skb));
	if (c->ce_above != ECN_ALWAYS_BELOW)
		ecn_level(c, f, key, age, now);
	leaves = now + age + age / 4; /* the next packet, behind a queue that still grows */
	if (f->first_above && !before(leaves, codel_due(f))) {
		ect = packet_ect(skb);
		if (!ect)
			f->ecn |= ECN_DROP;
		else if (f->ecn & ECN_DROP && age >= c->aqm_target && f->backlog > FRAME &&
			 before(now, codel_due(f) + c->aqm_interval))
			return true;
	}
	if (!codel_drops(c, f, age, f->backlog, now, ect ? leaves : now))
		return true;
	f->ecn &= ~ECN_DROP;
	if (!ect || (age > 2 * c->aqm_target &&
		     before(f->first_above + ECN_PATIENCE * c->aqm_interval, now)))
		return false;
	if (f->ecn & ECN_ABOVE)
		return true; /* all that come are marked */
	if (owes(*owed_at(key), key, now))
		return false;
	owe(key, now, 0);
	return true;
}

/* Marks the packet if its flow owes a mark. */
static __noinline int ecn_pay(struct __sk_buff *skb)
{
	__u64 now = bpf_ktime_get_ns(), until = owed_until, e;
	struct weir_class *c;
	__u32 lane, own, id, key, queue;

	if (before(until, now)) {
		__sync_val_compare_and_swap(&owed_until, until, 0);
		return 0;
	}
	lane = weir_lane_in(&carrier, skb->tc_index, skb->mark);
	if (skb->ingress_ifindex <= WEIR_LOOPBACK) { /* as lane_of_socket */
		own = owner_at_link(skb);
		if (own && (lane ^ own) & WEIR_LANE_CLASS)
			lane = own;
	}
	id = bounded(lane, WEIR_MAX_CLASSES);
	if (!classes[id].discipline)
		id = 0;
	c = class_at(id);
	if (!c->ce_above || !c->aqm_target)
		return 0;
	queue = lane >> WEIR_LANE_QUEUE;
	if (discipline_key(c) == HASH || takes_turns(c, queue))
		key = owed_key(id, bpf_get_hash_recalc(skb));
	else
		key = rule_queue(id, queue_of(c, queue));
	e = *owed_at(key);
	if (!owes(e, key, now))
		return 0;
	/* What comes to an IFB, or floods a bridge, shares its headers with another packet. */
	bpf_skb_pull_data(skb, MARKED_LEN);
	if (!bpf_skb_ecn_set_ce(skb))
		return 0;
	if (!(e & OWED_LEVEL))
		__sync_val_compare_and_swap(owed_at(key), e, 0);
	__sync_fetch_and_add(&c->marked, 1);
	return 0;
}

#endif /* WEIR_ECN_H */
