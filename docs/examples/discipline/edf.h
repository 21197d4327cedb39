/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * edf: earliest deadline first. Every queue has a delay that its packets may
 * have, the first 5 ms, each further one twice that of the queue before. The
 * packet whose time is up first is sent. So the first queue hardly waits, and the
 * last waits longest, but unlike in pq not forever.
 *
 * Example: a packet of queue 2 (20 ms) that came at 0 is due at 20. One of queue 0
 * that comes at 10 is due at 15 and goes before it; one that comes at 16 does not.
 *
 * Not done here: dropping. If more comes than can leave, all are late by the same.
 */
#ifndef WEIR_EDF_H
#define WEIR_EDF_H

#include "disciplines/pq.h"

#define EDF_FIRST (5000000 >> AGE_SHIFT) /* delay of the first queue, as ages are counted */

static __always_inline __u32 edf_refuses(struct weir_class *c, __u32 id, __u32 q, __u32 len,
					 __u64 now)
{
	return pq_refuses(c, id, q, len, now);
}

static __always_inline __u32 edf_join(struct weir_class *c, __u32 id, __u32 q, __u32 len, __u64 now)
{
	return queue_join(c, id, queue_of(c, q));
}

/* When the first packet of queue q, which has one, is to leave. */
static __always_inline __u32 edf_due(__u32 id, __u32 q)
{
	return packet_at(flow_at(rule_queue(id, q))->list.head - 1)->since + (EDF_FIRST << q);
}

static __always_inline __u32 edf_next(struct weir_class *c, __u32 id)
{
	__u32 first = lowest(c->active | 1 << (WEIR_MAX_QUEUES - 1));

	for (__u32 q = 1; q < WEIR_MAX_QUEUES; q++)
		if (c->active & 1 << q && (__s32)(edf_due(id, q) - edf_due(id, first)) < 0)
			first = q;
	return rule_queue(id, first);
}

static __always_inline void edf_sent(struct weir_class *c, __u32 id, __u32 i, __u32 len)
{
	queue_sent(c, i);
}

static __always_inline __u32 edf_victim(struct weir_class *c, __u32 id)
{
	return pq_victim(c, id);
}

#endif /* WEIR_EDF_H */
