/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sfq: every flow of a class has a queue of its own and they take turns (McKenney
 * 1990; deficit round robin, Shreedhar and Varghese 1995; with the two lists
 * of RFC 8290, FQ-CoDel). Flows are told apart by the kernel's hash of addresses,
 * protocol and ports, 256 to a class.
 *
 *   new   flows that had nothing waiting: they go first, for one turn. A flow
 *         that sends little, such as a request or a key press, is always here.
 *   old   the others, in a circle
 *
 * A turn is one frame, or one packet of the largest that came of late, so that a
 * flow that sends large segmentation-offload packets needs one turn for each, not
 * forty. Its deficit is made up at the end of the turn, so whoever is at the head
 * of a list may nearly always send.
 *
 * When a class is full, the flow with most waiting, as far as `fat` knows it, loses
 * its first packet, and the one that came is taken.
 */
#ifndef WEIR_SFQ_H
#define WEIR_SFQ_H

#include "flow.h"

#define SFQ_SCALE 12 /* binary places of `largest` */
#define SFQ_DECAY 14 /* `largest` falls by half in 11,000 packets */
#define SFQ_TURNS 4 /* flows still in debt that are passed over, per packet */

static __always_inline __s32 sfq_quantum(struct weir_class *c)
{
	__u32 largest = c->largest >> SFQ_SCALE;

	return largest > FRAME ? largest : FRAME;
}

static __always_inline void sfq_push(__u16 *head, __u16 *tail, __u32 i)
{
	stored(i)->next = 0;
	if (*head)
		stored(*tail - 1)->next = i + 1;
	else
		*head = i + 1;
	*tail = i + 1;
}

/* The first flow of a list goes to the end of the old ones. */
static __always_inline void sfq_turn(struct weir_class *c, __u16 *head)
{
	__u32 i = *head - 1;

	*head = stored(i)->next;
	sfq_push(&c->old_head, &c->old_tail, i);
}

/* Takes the first flow, which is empty, off its list. */
static __always_inline void sfq_drop_first(struct weir_class *c, __u16 *head)
{
	__u32 i = *head - 1;
	struct weir_flow *f = stored(i);

	*head = f->next;
	f->listed = 0;
	idle_add(i);
}

/* Old flows that are empty wait for their turn too, lest a new one begin every time. */
static long sfq_skip_one(__u64 i, struct weir_class **class)
{
	struct weir_class *c = *class;

	if (!c->old_head || stored(c->old_head - 1)->qlen)
		return 1;
	sfq_drop_first(c, &c->old_head);
	return 0;
}

static __always_inline void sfq_skip(struct weir_class *c)
{
	if (c->old_head && !stored(c->old_head - 1)->qlen)
		bpf_loop(WEIR_HASHED, sfq_skip_one, &c, 0);
}

/* Also: of two flows with as much waiting, the one that asks for more is the fat one. */
static __always_inline __u32 sfq_refuses(struct weir_class *c, __u32 id, __u32 hash, __u32 len,
					 __u64 now)
{
	__u16 at = *hashed_at(id * WEIR_HASHED + (hash & (WEIR_HASHED - 1)));

	if (at) {
		if (!c->fat || stored(at - 1)->backlog >= stored(c->fat - 1)->backlog)
			c->fat = at;
		return WEIR_DROP_REASONS;
	}
	return fresh_flows < WEIR_FLOWS - 1 || idle_head ? WEIR_DROP_REASONS
							 : WEIR_DROP_LINK_PACKETS;
}

static __always_inline __u32 sfq_join(struct weir_class *c, __u32 id, __u32 hash, __u32 len,
				      __u64 now)
{
	__u32 i = flow_find(id, hash);
	struct weir_flow *f = stored(i);

	c->largest -= c->largest >> SFQ_DECAY;
	if (len << SFQ_SCALE > c->largest)
		c->largest = len << SFQ_SCALE;
	if (!f->listed) {
		f->listed = 1;
		f->deficit = sfq_quantum(c);
		sfq_push(&c->new_head, &c->new_tail, i);
	}
	if (!c->fat)
		c->fat = i + 1;
	return RULE_QUEUES + i;
}

static __always_inline __u32 sfq_next(struct weir_class *c, __u32 id)
{
	if (c->new_head)
		return RULE_QUEUES + c->new_head - 1;
	sfq_skip(c);
	for (int i = 0; i < SFQ_TURNS; i++) {
		struct weir_flow *f = stored(c->old_head - 1);

		if (f->deficit > 0)
			break;
		f->deficit += sfq_quantum(c);
		sfq_turn(c, &c->old_head);
		sfq_skip(c);
	}
	return RULE_QUEUES + c->old_head - 1;
}

/* Flow number i of `flows`, the one that sfq_next named, has sent `len` bytes. */
static __always_inline void sfq_sent(struct weir_class *c, __u32 id, __u32 i, __u32 len)
{
	struct weir_flow *f = flow_at(i);

	f->deficit -= (__s32)len;
	if (c->new_head) {
		if (f->deficit <= 0 || (!f->qlen && c->old_head))
			sfq_turn(c, &c->new_head);
		else if (!f->qlen)
			sfq_drop_first(c, &c->new_head);
	} else if (!f->qlen) {
		sfq_drop_first(c, &c->old_head);
	} else if (f->deficit <= 0) {
		sfq_turn(c, &c->old_head);
	}
	if (f->deficit <= 0)
		f->deficit += sfq_quantum(c);
	if (!c->qlen)
		sfq_skip(c);
}

static __always_inline __u32 sfq_victim(struct weir_class *c, __u32 id)
{
	if (!c->fat || stored(c->fat - 1)->qlen < 2)
		return ALL_FLOWS;
	return RULE_QUEUES + c->fat - 1;
}

#endif /* WEIR_SFQ_H */
