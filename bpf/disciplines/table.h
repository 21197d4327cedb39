/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which of a class's packets goes first: what all disciplines have in common.
 *
 * A discipline NAME is a header with five functions and a row in weir.h's table.
 * Packets and flows (core/flow.h) are handled here and in qdisc.bpf.c, the same way
 * for all; the discipline only says which flow.
 *
 *   NAME_refuses(c, id, key, len, now)  why a packet may not join, or
 *                                       NOT_DROPPED
 *   NAME_join(c, id, key, len, now)     number of the flow that it is about to join
 *   NAME_next(c, id)                    number of the flow that sends; there are
 *                                       packets in the class's flows. It may be
 *                                       asked again before one has left
 *   NAME_sent(c, id, flow, len)         `len` bytes have left that flow; 0 if its
 *                                       packets have gone to the front
 *   NAME_victim(c, id)                  number of a flow, of more than one packet,
 *                                       that loses its first when the class is
 *                                       full; ALL_FLOWS = the one that comes is lost
 *
 * c is the class, id its number, key the flow's hash if the table says HASH and
 * the number of the queue that the packet carries if it says QUEUE, now the time in
 * ns. A discipline that says QUEUE knows nothing of the flows that take turns in a queue
 * (WEIR_TURNS): the dispatchers name the queue to it in their place. docs/write-a-discipline.md
 * writes one step by step.
 *
 * The dispatchers are functions of their own, so that the verifier looks at each
 * once, not wherever it is called.
 */
#ifndef WEIR_DISCIPLINES_TABLE_H
#define WEIR_DISCIPLINES_TABLE_H

#include "codel.h"
#include "sfq.h"
#include "pq.h"
#include "cbwfq.h"
#include "llq.h"
#ifdef WEIR_EXTRA_HEADER /* of WEIR_EXTRA_ROW */
#include WEIR_EXTRA_HEADER
#endif

enum discipline_key { QUEUE, HASH };

/* Does a packet for queue `key` join the one in which flows take turns? */
static __always_inline bool takes_turns(struct weir_class *c, __u32 key)
{
	return unlikely(c->other_queue & WEIR_TURNS) &&
	       queue_of(c, key) == (c->other_queue & (WEIR_MAX_QUEUES - 1));
}

/* Do short packets of its queues of rules go before others? One of your own has to ask for it. */
static __always_inline bool queues_boost(struct weir_class *c)
{
	return c->discipline >= WEIR_PQ && c->discipline <= WEIR_LLQ;
}

/* What tells this class's flows apart. */
static __always_inline enum discipline_key discipline_key(struct weir_class *c)
{
#define ROW(number, name, key)                                                                     \
	case number:                                                                               \
		return key;
	switch (c->discipline) {
		WEIR_DISCIPLINES(ROW)
	}
#undef ROW
	return QUEUE;
}

/* Why a packet of class id may not join; `hash` is that of its flow if it takes turns. */
__noinline __u32 discipline_refuses(__u32 id, __u32 key, __u32 hash, __u32 len, __u64 now)
{
	struct weir_class *c = class_at(id);

	keep(key);
	keep(hash);
	keep(len);
	keep(now);
	if (takes_turns(c, key)) {
		__u32 why = sfq_refuses(c, id, hash, len, now);

		if (why != NOT_DROPPED)
			return why;
	}
#define ROW(number, name, _)                                                                       \
	case number:                                                                               \
		return name##_refuses(c, id, key, len, now);
	switch (c->discipline) {
		WEIR_DISCIPLINES(ROW)
	}
#undef ROW
	return WEIR_DROP_CLASS_PACKETS;
}

/* The number of the flow that a packet of class id is about to join. */
__noinline __u32 discipline_join(__u32 id, __u32 key, __u32 hash, __u32 len, __u64 now)
{
	struct weir_class *c = class_at(id);
	__u32 flow = 0;

	keep(key);
	keep(hash);
	keep(len);
	keep(now);
#define ROW(number, name, _)                                                                       \
	case number:                                                                               \
		flow = name##_join(c, id, key, len, now);                                          \
		break;
	switch (c->discipline) {
		WEIR_DISCIPLINES(ROW)
	}
#undef ROW
	return takes_turns(c, key) ? sfq_join(c, id, hash, len, now) : flow;
}

/* The number of the flow of class id that sends. */
__noinline __u32 discipline_next(__u32 id)
{
	struct weir_class *c = class_at(id);
	__u32 flow = 0;

#define ROW(number, name, _)                                                                       \
	case number:                                                                               \
		flow = name##_next(c, id);                                                         \
		break;
	switch (c->discipline) {
		WEIR_DISCIPLINES(ROW)
	}
#undef ROW
	if (unlikely(c->other_queue & WEIR_TURNS) && flow == turns_queue(c, id))
		return sfq_next(c, id);
	return flow;
}

__noinline int discipline_sent(__u32 id, __u32 flow, __u32 len)
{
	struct weir_class *c = class_at(id);

	keep(flow);
	keep(len);
	if (unlikely(c->other_queue & WEIR_TURNS) && flow >= RULE_QUEUES) {
		sfq_sent(c, id, flow, len);
		flow = turns_queue(c, id);
	}
#define ROW(number, name, _)                                                                       \
	case number:                                                                               \
		name##_sent(c, id, flow, len);                                                     \
		return 0;
	switch (c->discipline) {
		WEIR_DISCIPLINES(ROW)
	}
#undef ROW
	return 0;
}

/* Why the first packet of a class's queues goes before others; the later, the further. */
enum boost {
	NO_BOOST,
	SPARSE, /* goes before others, as long as its class is not far ahead of its share */
	QUIET, /* the first packet of a class that uses less than its share */
	URGENT, /* does not wait for the line, as long as that is busy for some ms only */
};

__noinline int boost_of(__u32 id, __u64 now)
{
	struct weir_class *c = class_at(id);

	keep(now);
	if (c->discipline == WEIR_LLQ && llq_urgent(c, now))
		return URGENT;
	if (c->discipline > WEIR_SFQ && c->sorted) {
		__u32 flow = discipline_next(id);

		if (flow < RULE_QUEUES) /* not one that takes turns */
			return queues_boost(c) && flow_at(flow)->backlog < SHORT ? SPARSE
										 : NO_BOOST;
	}
	return c->new_head && sfq_boost(c) ? SPARSE : NO_BOOST;
}

/*
 * Class id has got or sent a packet of `len` bytes: which boost has its first one? In a
 * queue of rules one that has few bytes waiting in all is. What waits there was looked at when it
 * came, so a long packet changes nothing.
 */
static __always_inline enum boost discipline_boost(struct weir_class *c, __u32 id, __u32 len,
						   __u64 now)
{
	if (c->new_head || (len < SHORT && queues_boost(c)) ||
	    (c->discipline == WEIR_LLQ && c->active & STRICT))
		return boost_of(id, now);
	return NO_BOOST;
}

/* The flow that loses a packet when the class is full; ALL_FLOWS = the newest is lost. */
__noinline __u32 discipline_victim(__u32 id)
{
	struct weir_class *c = class_at(id);
	__u32 flow = ALL_FLOWS;

#define ROW(number, name, _)                                                                       \
	case number:                                                                               \
		flow = name##_victim(c, id);                                                       \
		break;
	switch (c->discipline) {
		WEIR_DISCIPLINES(ROW)
	}
#undef ROW
	if (unlikely(c->other_queue & WEIR_TURNS) && flow == turns_queue(c, id))
		return sfq_victim(c, id);
	return flow;
}

/* Bytes of the packet that class id, which has one, sends next; of a group, a frame. */
static __always_inline __u32 class_first_len(struct weir_class *c, __u32 id)
{
	if (c->group)
		return FRAME;
	if (!c->front.head)
		return packet_at(flow_at(discipline_next(id))->list.head - 1)->len;
	return c->qlen == 1 ? c->backlog : packet_at(c->front.head - 1)->len;
}

struct splice {
	struct weir_class *c;
	__u32 id;
};

static long splice_one(__u64 i, struct splice *s)
{
	struct weir_class *c = s->c;
	struct weir_queue_stats *stats;
	struct weir_flow *f;
	__u32 flow;

	if (!c->sorted)
		return 1;
	flow = discipline_next(s->id);
	f = flow_at(flow);
	c->sorted -= f->qlen;
	queue_counts(c, s->id, flow, -f->qlen, -f->backlog);
	stats = stats_of(queue_around(c, s->id, flow));
	if (stats) {
		stats->sent_packets += f->qlen;
		stats->sent_bytes += f->backlog;
	}
	flow_splice(c, f);
	discipline_sent(s->id, flow, 0);
	return 0;
}

/*
 * The discipline of class id is about to change: what waits goes to the front,
 * flow by flow in the old discipline's order. Nothing is lost, and no flow's
 * packets change their order.
 */
static __always_inline void discipline_leave(struct weir_class *c, __u32 id)
{
	struct splice s = {.c = c, .id = id};

	if (c->sorted)
		bpf_loop(WEIR_HASHED, splice_one, &s, 0);
	sfq_skip(c);
	c->fat = 0;
}

#endif /* WEIR_DISCIPLINES_TABLE_H */
