/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pq: strict priority. The first queue that has a packet sends; the last one sends
 * when all others are empty, and starves while they are not.
 *
 * Queues are told apart by rules, whose result comes in the packet's mark.
 */
#ifndef WEIR_PQ_H
#define WEIR_PQ_H

#include "flow.h"

/* The queue that a packet marked for queue q joins: there may be fewer. */
static __always_inline __u32 queue_of(struct weir_class *c, __u32 q)
{
	return q < c->queues ? q : c->other_queue & (WEIR_MAX_QUEUES - 1);
}

static __always_inline __u32 pq_refuses(struct weir_class *c, __u32 id, __u32 q, __u32 len,
					__u64 now)
{
	struct weir_flow *f = flow_at(rule_queue(id, queue_of(c, q)));

	return f->qlen < f->limit_packets ? WEIR_DROP_REASONS : WEIR_DROP_QUEUE_PACKETS;
}

static __always_inline __u32 pq_join(struct weir_class *c, __u32 id, __u32 q, __u32 len, __u64 now)
{
	q = queue_of(c, q);
	c->active |= 1 << q;
	return rule_queue(id, q);
}

static __always_inline __u32 pq_next(struct weir_class *c, __u32 id)
{
	return rule_queue(id, lowest(c->active | 1 << (WEIR_MAX_QUEUES - 1)));
}

static __always_inline void pq_sent(struct weir_class *c, __u32 id, __u32 i, __u32 len)
{
	if (!flow_at(i)->qlen)
		c->active &= ~(1 << (i & (WEIR_MAX_QUEUES - 1)));
}

/* The last queue makes room for the others. */
static __always_inline __u32 pq_victim(struct weir_class *c, __u32 id)
{
	for (int q = WEIR_MAX_QUEUES - 1; q >= 0; q--)
		if (flow_at(rule_queue(id, q))->qlen > 1)
			return rule_queue(id, q);
	return ALL_FLOWS;
}

#endif /* WEIR_PQ_H */
