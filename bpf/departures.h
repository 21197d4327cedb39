/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets that are to leave at a time that was asked for (core/depart.h) wait before their
 * class, and join it at that time as if they had just come: so they leave by their
 * class's share, and no scheduler and no discipline knows of times.
 *
 *     enqueue ──► later? ──► class: front or queue ──► scheduler
 *                  │ yes        ▲
 *                  ▼            │ at its time
 *                 wheel ────────┘
 *
 * No time costs a packet. One that has passed, is beyond the horizon or finds no room among
 * those that wait is as none. What waits counts in the class's `held`, within the class's
 * limits, and takes no room from packets without a time (class_refuses); the link's slots
 * and bytes are shared by all, as ever.
 *
 * Cost: a packet without a time pays a comparison. TCP stamps each packet with the
 * present; such a packet pays one reading of the clock.
 */
#ifndef WEIR_DEPARTURES_H
#define WEIR_DEPARTURES_H

#include "core/depart.h"
#include "core/waiting.h"
#include "drop.h"

/* May another packet of `len` bytes wait for its time in class c? */
static __always_inline bool depart_room(struct weir_class *c, struct Qdisc *sch, __u64 len)
{
	__u64 waiting = c->backlog + c->held_bytes;

	return c->qlen + c->held < c->limit_packets && waiting + len <= c->limit_bytes &&
	       sch->q.qlen + c->qlen + c->held < WEIR_SHARED_SLOTS &&
	       link_has_room(waiting, sch->qstats.backlog, len);
}

/*
 * Puts a packet of class id aside until the time that it carries; `place` is its class and
 * queue, as in enqueue_behind, which has counted it.
 */
static __noinline int depart_hold(struct sk_buff *skb, struct Qdisc *sch,
				  struct bpf_sk_buff_ptr *to_free, __u32 place, __u64 len)
{
	__u64 at = skb->tstamp;
	__u32 id = place & (WEIR_MAX_CLASSES - 1);
	struct weir_class *c = class_at(id);
	slot_ref s = slot_take();

	if (unlikely(!s) || unlikely(!slot_fill(s - 1, skb, to_free))) {
		/* cannot be: depart_room saw a free slot */
		count_drop(c, sch, ALL_FLOWS, WEIR_DROP_LINK_PACKETS, len);
		bpf_qdisc_skb_drop(skb, to_free);
		return NET_XMIT_DROP;
	}
	if (unlikely(delay_drawn(c)))
		delay_begin_at(id, s, at);
	c->held++;
	c->held_bytes += len;
	qdisc_gains(sch, len);
	packet_at(s - 1)->len = len;
	*depart_lane(s) = id | place >> WEIR_LANE_QUEUE << DEPART_QUEUE;
	depart_wait(s, at);
	return NET_XMIT_SUCCESS;
}

/* The hash of the packet in slot s, which stays there. */
static __noinline __u32 depart_hash(slot_ref s, bool kernels)
{
	__u32 key = s - 1, hash = 0;
	struct slot *slot = bpf_map_lookup_elem(&slots, &key);
	struct sk_buff *skb, *old;

	if (!slot)
		return 0;
	skb = bpf_kptr_xchg(&slot->skb, NULL);
	if (!skb)
		return 0; /* cannot be: a packet waits there */
	hash = kernels ? bpf_skb_get_hash(skb) : flow_hash(skb);
	old = bpf_kptr_xchg(&slot->skb, skb);
	if (old)
		bpf_kfree_skb(old); /* cannot be: it was emptied just now */
	return hash;
}

/*
 * The packet in slot s, of class id, whose discipline sorts, joins the queue that it is of.
 * Returns why it may not, or NOT_DROPPED.
 */
static __noinline __u32 depart_sort(struct Qdisc *sch, __u32 id, slot_ref s, __u64 now)
{
	struct weir_class *c = class_at(id);
	__u32 q = *depart_lane(s) >> DEPART_QUEUE, len = packet_at(s - 1)->len;
	__u32 key = q, hash = 0, flow = ALL_FLOWS, why;
	bool hashes = discipline_key(c) == HASH, first = !c->qlen;

	if (hashes || takes_turns(c, q))
		hash = depart_hash(s, c->ce_above);
	if (hashes)
		key = hash;
	else
		flow = rule_queue(id, queue_of(c, q));
	why = discipline_refuses(id, key, hash, len, now);
	if (flow < RULE_QUEUES)
		stats_of(flow)->enqueued_packets++;
	if (why == NOT_DROPPED && flow < RULE_QUEUES && unlikely(c->paced_queues)) {
		q = flow & (WEIR_MAX_QUEUES - 1);
		if (c->paced_queues & 1 << q && !hold_passes(id, q, len, now)) {
			why = hold_refuses(id, q, len, sch->q.qlen, sch->qstats.backlog);
			if (why == NOT_DROPPED) {
				hold_add(id, q, s, len);
				return NOT_DROPPED;
			}
		}
	}
	if (why != NOT_DROPPED) {
		count_drop(c, sch, flow, why, len);
		return why;
	}
	flow_gains(c, id, discipline_join(id, key, hash, len, now), s, len, now);
	if (first)
		scheduler_activate(c, id, false);
	scheduler_boost(c, id, len, now);
	return NOT_DROPPED;
}

/* The time of the packet in slot s has come. */
static __noinline int depart_join(struct Qdisc *sch, slot_ref s, __u64 now)
{
	__u32 id = bounded(*depart_lane(s), WEIR_MAX_CLASSES);
	struct weir_class *c = class_at(id);
	__u32 len = packet_at(s - 1)->len;
	bool first = !c->qlen;
	struct sk_buff *skb;

	c->held--;
	c->held_bytes -= len;
	front_note(c);
	if (!first)
		wait_begin(c, now);
	if (c->discipline <= WEIR_FIFO) {
		front_add(c, c->front.head, s, len);
		if (first)
			scheduler_activate(c, id, false);
		return 0;
	}
	if (likely(depart_sort(sch, id, s, now) == NOT_DROPPED))
		return 0;
	delay_lost(c, s);
	skb = leave(s, len, sch);
	if (skb)
		bpf_kfree_skb(skb);
	return 0;
}

struct depart {
	struct Qdisc *sch;
	__u64 now;
};

static long depart_one(__u64 i, struct depart *d)
{
	slot_ref s = depart_take(d->now);

	if (s)
		depart_join(d->sch, s, d->now);
	return !s && (!departures.count || before(d->now, departures.at));
}

#define DEPARTS 256 /* steps, for one packet that is sent */

/* Packets whose time has come join their classes. */
static __noinline int depart_due(struct Qdisc *sch)
{
	struct depart d = {.sch = sch, .now = bpf_ktime_get_ns()};

	departures.seen = d.now;
	if (!before(d.now, departures.at))
		bpf_loop(DEPARTS, depart_one, &d, 0);
	return 0;
}

#endif /* WEIR_DEPARTURES_H */
