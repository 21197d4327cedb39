/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Drops. Where a class has no room, the flow of the class that has most waiting loses
 * a packet, so that a flood pays for itself. Counted by reason.
 */
#ifndef WEIR_DROP_H
#define WEIR_DROP_H

#include "core/ack.h"
#include "core/delay.h"
#include "core/hold.h"
#include "disciplines/table.h"

_Static_assert((WEIR_DROP_REASONS & (WEIR_DROP_REASONS - 1)) == 0,
	       "bounded() needs a power of two");

/* A packet of class c, or of its flow, is lost for the reason `why`. */
static __always_inline void count_drop(struct weir_class *c, struct Qdisc *sch, __u32 flow,
				       __u32 why, __u64 len)
{
	struct weir_queue_stats *stats = stats_of(flow);

	c->drops[bounded(why, WEIR_DROP_REASONS)]++;
	c->dropped_bytes += len;
	if (stats) {
		stats->drops[bounded(why, WEIR_DROP_REASONS)]++;
		stats->dropped_bytes += len;
	}
	sch->qstats.drops++;
}

/* The packet in slot s leaves the qdisc; NULL cannot be. */
#define leave(s, len, sch)                                                                         \
	({                                                                                         \
		struct sk_buff *__skb = slot_empty((s) - 1);                                       \
		slot_give(s);                                                                      \
		qdisc_loses(sch, len);                                                             \
		__skb;                                                                             \
	})

/*
 * Flow `flow` of class id loses its first packet instead of the one that has just come. False
 * if it is ALL_FLOWS, no flow.
 */
static __always_inline bool drop_first(struct weir_class *c, __u32 id, __u32 flow,
				       struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free,
				       __u32 why)
{
	struct sk_buff *old;
	slot_ref s;
	__u32 len;

	if (flow == ALL_FLOWS)
		return false;
	s = flow_loses(c, id, flow, &len);
	count_drop(c, sch, queue_around(c, id, flow), why, len);
	delay_lost(c, s);
	old = leave(s, len, sch);
	if (!old)
		return false; /* cannot be: the flow held this slot */
	bpf_qdisc_skb_drop(old, to_free);
	return true;
}

#define VICTIMS 32 /* at most, for one packet: a full frame needs 25 of the smallest */

struct shortage {
	struct Qdisc *sch;
	struct bpf_sk_buff_ptr *to_free;
	__u32 id;
	__u32 held_for; /* queue that the packet is to be held for, or NOT_HELD */
	__u32 why; /* the class has none; NOT_DROPPED if it has */
	__u64 len;
};

#define NOT_HELD WEIR_MAX_QUEUES

static __always_inline __u32 room_for(struct shortage *r)
{
	if (r->held_for != NOT_HELD)
		return hold_refuses(r->id, r->held_for, r->len, r->sch->q.qlen,
				    r->sch->qstats.backlog);
	return class_refuses(class_at(r->id), r->sch, r->len);
}

/*
 * A packet that is to be held takes the place of what waits in the class's other queues, as
 * long as less is held for its own. Those of its own that wait there have had their time.
 */
static long make_some(__u64 i, struct shortage *r)
{
	struct weir_class *c = class_at(r->id);
	__u32 own = ALL_FLOWS, victim = discipline_victim(r->id);

	if (r->held_for != NOT_HELD) {
		own = rule_queue(r->id, r->held_for);
		if (hold_backlog(own) >= c->backlog)
			return 1;
	}
	if (victim == own || !drop_first(c, r->id, victim, r->sch, r->to_free, r->why))
		return 1;
	r->why = room_for(r);
	return r->why == NOT_DROPPED || r->why == WEIR_DROP_QUEUE_PACKETS;
}

/*
 * The queue of class id in which flows take turns is full: may a packet join it all the same,
 * since the flow with most waiting has lost one?
 */
static __noinline bool turns_give_way(struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free, __u32 id)
{
	struct weir_class *c = class_at(id);

	return drop_first(c, id, sfq_victim(c, id), sch, to_free, WEIR_DROP_QUEUE_PACKETS);
}

/* The slot of the ACK that this one, of the flow with this hash, replaces; 0 = of none. */
static __noinline slot_ref ack_before(struct sk_buff *skb, __u32 id, __u32 hash)
{
	struct weir_flow *f;
	struct slot *slot;
	__u16 at = flow_look(id, hash);
	__u32 key;

	if (!at)
		return 0;
	f = stored(at - 1);
	if (!f->qlen)
		return 0;
	key = f->list.tail - 1;
	slot = bpf_map_lookup_elem(&slots, &key);
	if (!slot)
		return 0;
	return slot->skb && ack_covers(skb, slot->skb) ? key + 1 : 0;
}

/*
 * Why class id, where `len` more bytes want to wait, or to be held for a queue, has no room, having
 * made some. Not static, so that the verifier looks at it once and not for each way to it: that
 * would be 60 % of what it looks at in weir_enqueue.
 */
__noinline __u32 make_room(struct Qdisc *sch __arg_trusted,
			   struct bpf_sk_buff_ptr *to_free __arg_trusted, __u32 id, __u32 held_for,
			   __u32 len)
{
	struct shortage r = {.sch = sch, .to_free = to_free, .len = len};

	r.id = id & (WEIR_MAX_CLASSES - 1);
	r.held_for = held_for;
	r.why = room_for(&r);
	if (r.why != NOT_DROPPED && r.why != WEIR_DROP_QUEUE_PACKETS)
		bpf_loop(VICTIMS, make_some, &r, 0);
	return r.why;
}

#endif /* WEIR_DROP_H */
