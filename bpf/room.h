/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets in slots, and who is dropped where a class has no room: the flow of the class
 * that has most waiting, so that a flood pays for itself. Counted by reason.
 */
#ifndef WEIR_ROOM_H
#define WEIR_ROOM_H

#include "disciplines.h"

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

/* Puts the packet into slot i (from 0). False, and skb is still ours: no such slot. */
#define slot_fill(i, skb, to_free)                                                                 \
	({                                                                                         \
		__u32 __key = (i);                                                                 \
		struct slot *__slot = bpf_map_lookup_elem(&slots, &__key);                         \
		if (likely(__slot)) {                                                              \
			struct sk_buff *__old = bpf_kptr_xchg(&__slot->skb, skb);                  \
			if (unlikely(__old)) /* cannot be: the slot was free */                    \
				bpf_qdisc_skb_drop(__old, to_free);                                \
		}                                                                                  \
		__slot != NULL;                                                                    \
	})

/* The packet in slot i (from 0), which becomes ours; NULL if there is none. */
#define slot_empty(i)                                                                              \
	({                                                                                         \
		__u32 __key = (i);                                                                 \
		struct slot *__slot = bpf_map_lookup_elem(&slots, &__key);                         \
		__slot ? bpf_kptr_xchg(&__slot->skb, NULL) : NULL;                                 \
	})

/*
 * Class c is full: the flow with most waiting loses its first packet instead of
 * the one that has just come. False if there is no such flow.
 */
static __always_inline bool drop_victim(struct weir_class *c, __u32 id, struct Qdisc *sch,
					struct bpf_sk_buff_ptr *to_free, __u32 why)
{
	__u32 flow = discipline_victim(id);
	struct sk_buff *old;
	__u32 s, len;

	if (flow == ALL_FLOWS)
		return false;
	s = flow_del(flow_at(flow), &len);
	c->sorted--;
	c->qlen--;
	c->backlog -= len;
	sch->q.qlen--;
	sch->qstats.backlog -= len;
	count_drop(c, sch, flow, why, len);
	old = slot_empty(s - 1);
	slot_give(s);
	if (!old)
		return false; /* cannot be: the flow held this slot */
	bpf_qdisc_skb_drop(old, to_free);
	return true;
}

#define VICTIMS 32 /* at most, for one packet: a full frame needs 25 of the smallest */

struct room {
	struct Qdisc *sch;
	struct bpf_sk_buff_ptr *to_free;
	__u32 id;
	__u32 why; /* the class has none; WEIR_DROP_REASONS if it has */
	__u64 len;
};

static long make_some(__u64 i, struct room *r)
{
	struct weir_class *c = class_at(r->id);

	if (!drop_victim(c, r->id, r->sch, r->to_free, r->why))
		return 1;
	r->why = class_refuses(c, r->sch, r->len);
	return r->why == WEIR_DROP_REASONS;
}

/* Why class c, where `len` more bytes want to wait, has no room, having made some. */
static __always_inline __u32 make_room(struct weir_class *c, __u32 id, struct Qdisc *sch,
				       struct bpf_sk_buff_ptr *to_free, __u64 len)
{
	struct room r = {.sch = sch, .to_free = to_free, .id = id, .len = len};

	r.why = class_refuses(c, sch, len);
	if (unlikely(r.why != WEIR_DROP_REASONS))
		bpf_loop(VICTIMS, make_some, &r, 0);
	return r.why;
}

#endif
