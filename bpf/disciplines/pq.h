/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pq: strict priority. The first queue that has a packet sends; the last one sends
 * when all others are empty, and starves while they are not. Queues of the same
 * priority share what it gets equally, by the bytes they have sent.
 *
 * Queues are told apart by rules, whose result comes in the packet's seal.
 */
#ifndef WEIR_PQ_H
#define WEIR_PQ_H

#include "../core/flow.h"

/* The queue that a packet for queue q joins: there may be fewer. */
static __always_inline __u32 queue_of(struct weir_class *c, __u32 q)
{
	return q < c->queues ? q : c->other_queue & (WEIR_MAX_QUEUES - 1);
}

static __always_inline __u32 pq_refuses(struct weir_class *c, __u32 id, __u32 q, __u32 len,
					__u64 now)
{
	struct weir_flow *f = flow_at(rule_queue(id, queue_of(c, q)));

	return f->qlen < f->limit_packets ? NOT_DROPPED : WEIR_DROP_QUEUE_PACKETS;
}

/* A packet joins queue q, which there is. */
static __always_inline __u32 queue_join(struct weir_class *c, __u32 id, __u32 q)
{
	c->active |= 1 << q;
	return rule_queue(id, q);
}

/* A packet has left flow i. */
static __always_inline void queue_sent(struct weir_class *c, __u32 i)
{
	if (!flow_at(i)->qlen)
		c->active &= ~(1 << (i & (WEIR_MAX_QUEUES - 1)));
}

/* Of the queues in `set`, which is not empty, the one whose turn it is. */
static __always_inline __u32 queue_least(__u32 id, __u32 set)
{
	__u32 least = rule_queue(id, 0);
	__u64 v = 0;
	bool found = false;

	for (__u32 q = 0; q < WEIR_MAX_QUEUES; q++) {
		__u32 i = rule_queue(id, q);

		if (!(set & 1 << q) || (found && !before(flow_at(i)->v, v)))
			continue;
		least = i;
		v = flow_at(i)->v;
		found = true;
	}
	return least;
}

static __always_inline __u32 pq_join(struct weir_class *c, __u32 id, __u32 q, __u32 len, __u64 now)
{
	struct weir_flow *f;
	__u32 others;

	q = queue_of(c, q);
	f = flow_at(rule_queue(id, q));
	others = c->active & c->peers[bounded(q, WEIR_MAX_QUEUES)] & ~(1 << q);
	if (!f->qlen && others) {
		/* It has no claim on what its peers sent meanwhile. */
		__u64 v = flow_at(queue_least(id, others))->v;

		if (before(f->v, v))
			f->v = v;
	}
	return queue_join(c, id, q);
}

static __always_inline __u32 pq_next(struct weir_class *c, __u32 id)
{
	__u32 first = lowest(c->active | 1 << (WEIR_MAX_QUEUES - 1));
	__u32 peers = c->active & c->peers[bounded(first, WEIR_MAX_QUEUES)];

	return peers & (peers - 1) ? queue_least(id, peers) : rule_queue(id, first);
}

static __always_inline void pq_sent(struct weir_class *c, __u32 id, __u32 i, __u32 len)
{
	flow_at(i)->v += len;
	queue_sent(c, i);
}

/* Of the queues in `set`, the one with most waiting for its weight; ALL_FLOWS if none has two
 * packets.
 */
static __always_inline __u32 queue_most(__u32 id, __u32 set)
{
	__u32 most = ALL_FLOWS;
	__u64 wait = 0;

	for (__u32 q = 0; q < WEIR_MAX_QUEUES; q++) {
		struct weir_flow *f = flow_at(rule_queue(id, q));

		if (set & 1 << q && f->qlen > 1 && f->backlog * f->cost > wait) {
			most = rule_queue(id, q);
			wait = f->backlog * f->cost;
		}
	}
	return most;
}

/* The last queue makes room for the others, or one of its priority that has more. */
static __always_inline __u32 pq_victim(struct weir_class *c, __u32 id)
{
	for (int q = WEIR_MAX_QUEUES - 1; q >= 0; q--)
		if (flow_at(rule_queue(id, q))->qlen > 1)
			return queue_most(id, c->peers[q]);
	return ALL_FLOWS;
}

#endif /* WEIR_PQ_H */
