/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * llq: low latency queueing. The first queue is strict: its packets go before all
 * others of the class and, as long as it keeps to its rate, do not even wait until
 * the line is free (URGENT in schedulers/fair_boost.h). In return it is policed: while the class's
 * other queues have packets, what comes above its rate is dropped, so it cannot
 * starve them. They are a cbwfq.
 *
 * `police_at` is when the rate would have carried what the queue was given; a
 * packet conforms if that is not more than a burst away (the generic cell rate
 * algorithm, ITU-T I.371).
 */
#ifndef WEIR_LLQ_H
#define WEIR_LLQ_H

#include "cbwfq.h"

#define STRICT 1 /* bit of the strict queue in `active` */

static __always_inline bool llq_conforms(struct weir_class *c, __u64 now)
{
	return !before(now + c->police_burst, c->police_at);
}

static __always_inline __u32 llq_refuses(struct weir_class *c, __u32 id, __u32 q, __u32 len,
					 __u64 now)
{
	if (!queue_of(c, q) && c->active & ~STRICT && !llq_conforms(c, now))
		return WEIR_DROP_POLICED;
	return pq_refuses(c, id, q, len, now);
}

static __always_inline __u32 llq_join(struct weir_class *c, __u32 id, __u32 q, __u32 len, __u64 now)
{
	__u64 most = now + c->police_burst;

	if (queue_of(c, q))
		return cbwfq_join(c, id, q, len, now);
	if (before(c->police_at, now))
		c->police_at = now;
	c->police_at += span_exact(len, c->police_cost, &c->police_part);
	/* What it had while no other queue wanted it is not held against it. */
	if (!(c->active & ~STRICT) && before(most, c->police_at))
		c->police_at = most;
	return queue_join(c, id, 0);
}

static __always_inline __u32 llq_next(struct weir_class *c, __u32 id)
{
	if (c->active & STRICT)
		return rule_queue(id, 0);
	return queue_least(id, c->active);
}

static __always_inline void llq_sent(struct weir_class *c, __u32 id, __u32 i, __u32 len)
{
	if (i & (WEIR_MAX_QUEUES - 1))
		cbwfq_sent(c, id, i, len);
	else
		queue_sent(c, i);
}

static __always_inline __u32 llq_victim(struct weir_class *c, __u32 id)
{
	return queue_most(id, c->active & ~STRICT);
}

/* May the first packet of the class overtake the other classes? */
static __always_inline bool llq_urgent(struct weir_class *c, __u64 now)
{
	return c->active & STRICT && llq_conforms(c, now);
}

#endif /* WEIR_LLQ_H */
