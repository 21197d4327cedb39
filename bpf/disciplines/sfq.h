/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sfq: every flow of a class has a queue of its own and they take turns (McKenney
 * 1990; deficit round robin, Shreedhar and Varghese 1995; with the two lists
 * of RFC 8290, FQ-CoDel). Flows are told apart by the kernel's hash of addresses,
 * protocol and ports, 256 to a class.
 *
 *   circle  every flow that has packets, or had some since its last turn. The first
 *           one sends up to a quantum, and goes to the end.
 *   new     of those, flows that had nothing waiting and have not used up their
 *           quantum: they go before the circle. A flow that uses less than its
 *           share, such as requests or key presses, is always here, however often
 *           it sends in a round.
 *
 * RFC 8290 sends a new flow to the end of the old ones once it is empty, where its
 * next packet waits for a round: with 128 bulk flows at 100 Mbit/s 16 ms and more.
 * Here a flow's quantum is its own until its turn comes, so no flow gets more than
 * one a round, but each may use it at any time.
 *
 * New flows that come all the time, such as connections for a request each, would keep
 * the circle from ever turning. After SFQ_ROW packets of them its first flow has its turn.
 *
 * A quantum is one frame, or one packet of the largest that came of late, so that a
 * flow that sends large segmentation-offload packets needs one turn for each, not
 * forty. On a link below 50 Mbit/s, where a frame takes longer than SFQ_TURN_NS, a quantum is what
 * the line carries in that, and SFQ_LEAST at least (as in CAKE): a flow that is ahead of its share
 * by some quanta waits until that is made good, and with frames the ACKs of a download would stop
 * for 120 ms at a time at 0.5 Mbit/s.
 *
 * When a class is full, the flow with most waiting, as far as `fat` knows it, loses
 * its first packet, and the one that came is taken.
 */
#ifndef WEIR_SFQ_H
#define WEIR_SFQ_H

#include "../core/flow.h"

#define SFQ_SCALE 12 /* binary places of `largest` */
#define SFQ_DECAY 24 /* `largest` falls by half in 12 MB */
#define SFQ_DEBT 4 /* quanta that a flow may have sent in advance, packet by packet */
#define SHORT (FRAME * 2 / 3) /* bytes; a packet of fewer is worth a boost */
#define SFQ_ROW 32 /* packets of new flows in a row, before the circle has a turn */
#define SFQ_LISTED 1 /* the flow is in the circle, */
#define SFQ_NEW 2 /* among the new ones, */
#define SFQ_RELIEVED 4 /* as the first of which it has its turn */
#define SFQ_TURNS 256 /* that end at once, per packet: of flows still in debt, or empty */
#define SFQ_TURN_NS 244140 /* of the line, for a quantum; 1 / 4,096 s */
#define SFQ_LEAST 300 /* bytes of a quantum */

static __u32 sfq_line = FRAME; /* bytes that the line carries in SFQ_TURN_NS, within bounds */

/* The largest packet that came of late, or a frame. */
static __always_inline __s32 sfq_packet(struct weir_class *c)
{
	__u32 largest = c->largest >> SFQ_SCALE;

	return largest > FRAME ? largest : FRAME;
}

static __always_inline __s32 sfq_quantum(struct weir_class *c)
{
	return sfq_line < FRAME ? sfq_line : sfq_packet(c);
}

/* The link's rate is another one. */
static __always_inline void sfq_apply_link(void)
{
	__u64 cost = link_now.link_cost;
	__u64 bytes = cost ? ((__u64)SFQ_TURN_NS << WEIR_NS_SHIFT) / cost : FRAME;

	sfq_line = bytes < SFQ_LEAST ? SFQ_LEAST : bytes < FRAME ? bytes : FRAME;
}

/* Flow i of the store goes to the end of the circle. */
static __always_inline void sfq_circle(struct weir_class *c, __u32 i)
{
	stored(i)->next = 0;
	if (c->old_head)
		stored(c->old_tail - 1)->next = i + 1;
	else
		c->old_head = i + 1;
	c->old_tail = i + 1;
}

/* The turn of the circle's first flow is over. */
static __always_inline void sfq_turn(struct weir_class *c)
{
	__u32 i = c->old_head - 1;

	c->old_head = stored(i)->next;
	sfq_circle(c, i);
	c->row = 0;
}

/* Flow i, which is about to get a packet, goes to the end of the new ones. */
static __always_inline void sfq_add_new(struct weir_class *c, __u32 i)
{
	struct weir_flow *f = stored(i);

	f->listed |= SFQ_NEW;
	f->next_new = 0;
	if (c->new_head)
		stored(c->new_tail - 1)->next_new = i + 1;
	else
		c->new_head = i + 1;
	c->new_tail = i + 1;
}

/* Flows that are empty when their turn comes leave the circle. */
static long sfq_skip_one(__u64 i, struct weir_class **class)
{
	struct weir_class *c = *class;
	struct weir_flow *f;
	__u32 first;

	if (!c->old_head)
		return 1;
	first = c->old_head - 1;
	f = stored(first);
	if (f->qlen)
		return 1;
	c->old_head = f->next;
	f->listed = 0;
	idle_add(first);
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
	__u16 at = flow_look(id, hash);

	if (at && (!c->fat || stored(at - 1)->backlog >= stored(c->fat - 1)->backlog))
		c->fat = at;
	if (at || fresh_flows < WEIR_FLOWS - 1 || idle_head ||
	    *hashed_at(hashed_set(id, hash) + (hash & (WAYS - 1))))
		return NOT_DROPPED;
	return WEIR_DROP_LINK_PACKETS;
}

static __always_inline __u32 sfq_join(struct weir_class *c, __u32 id, __u32 hash, __u32 len,
				      __u64 now)
{
	__u32 i = flow_find(id, hash);
	struct weir_flow *f = stored(i);

	c->largest -= (__u64)c->largest * len >> SFQ_DECAY;
	if (len << SFQ_SCALE > c->largest)
		c->largest = len << SFQ_SCALE;
	if (!f->listed) {
		f->listed = SFQ_LISTED;
		f->deficit = sfq_quantum(c);
		sfq_circle(c, i);
	}
	if (!f->qlen && f->deficit > -SFQ_DEBT * sfq_quantum(c))
		sfq_add_new(c, i);
	if (!c->fat)
		c->fat = i + 1;
	return RULE_QUEUES + i;
}

/* Flows that are in debt when their turn comes pay a quantum of it. */
static long sfq_pass_one(__u64 i, struct weir_class **class)
{
	struct weir_class *c = *class;
	struct weir_flow *f;

	if (!sfq_skip_one(i, class))
		return 0;
	if (!c->old_head)
		return 1;
	f = stored(c->old_head - 1);
	if (f->deficit <= 0)
		f->deficit += sfq_quantum(c);
	if (f->deficit > 0)
		return 1;
	sfq_turn(c);
	return 0;
}

static __always_inline __u32 sfq_next(struct weir_class *c, __u32 id)
{
	if (c->new_head)
		return RULE_QUEUES + c->new_head - 1;
	sfq_skip(c);
	if (stored(c->old_head - 1)->deficit <= 0) {
		bpf_loop(SFQ_TURNS, sfq_pass_one, &c, 0);
		sfq_skip(c);
	}
	return RULE_QUEUES + c->old_head - 1;
}

/*
 * Is the next packet of the new flows, of which there are some, worth a boost: a short one,
 * or one that is before such? A bulk flow with a small window often has nothing waiting, and
 * would be taken for a sparse one if its packets were not longer.
 */
static __always_inline bool sfq_boost(struct weir_class *c)
{
	struct weir_flow *f = stored(c->new_head - 1);

	return f->listed & SFQ_RELIEVED || packet_at(f->list.head - 1)->len < SHORT;
}

/*
 * New flows have sent much in a row: the circle's first flow has its turn, as the first of
 * them.
 */
__noinline int sfq_relieve(__u32 id)
{
	struct weir_class *c = class_at(id);
	struct weir_flow *f;
	__u32 i;

	sfq_skip(c);
	if (!c->old_head)
		return 0;
	i = c->old_head - 1;
	f = stored(i);
	if (f->listed & SFQ_NEW) { /* it does not wait; another one may */
		__u32 row = c->row;

		f->deficit = sfq_quantum(c);
		sfq_turn(c);
		c->row = row;
		return 0;
	}
	if (f->deficit <= 0)
		f->deficit += sfq_quantum(c);
	sfq_turn(c);
	f->listed |= SFQ_NEW | SFQ_RELIEVED;
	f->next_new = c->new_head;
	if (!c->new_head)
		c->new_tail = i + 1;
	c->new_head = i + 1;
	return 0;
}

/* Flow number i of `flows`, the one that sfq_next named, has sent `len` bytes. */
static __always_inline void sfq_sent(struct weir_class *c, __u32 id, __u32 i, __u32 len)
{
	struct weir_flow *f = flow_at(i);

	f->deficit -= (__s32)len;
	if (c->new_head)
		c->row += len;
	if (!f->qlen || f->deficit <= 0) {
		if (c->new_head) {
			c->new_head = f->next_new;
			f->listed = SFQ_LISTED;
		} else {
			sfq_turn(c);
		}
	}
	if (!c->qlen)
		sfq_skip(c);
	else if (unlikely(c->row >= (__u32)(SFQ_ROW * sfq_packet(c))))
		sfq_relieve(id);
}

static __always_inline __u32 sfq_victim(struct weir_class *c, __u32 id)
{
	if (!c->fat || stored(c->fat - 1)->qlen < 2)
		return ALL_FLOWS;
	return RULE_QUEUES + c->fat - 1;
}

#endif /* WEIR_SFQ_H */
