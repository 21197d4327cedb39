/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cbwfq: class-based weighted fair queueing. Each queue has a virtual time that
 * advances by length / weight (the weight is its min rate); the one that is
 * least far sends. So those with packets share in proportion to their mins,
 * packet by packet, and what one leaves goes to the others in proportion.
 *
 * Example: mins of 1, 2, 3 and 4 Mbit/s share 8 Mbit/s as 0.8, 1.6, 2.4 and 3.2;
 * without the third the others have 1.14, 2.29 and 4.57.
 */
#ifndef WEIR_CBWFQ_H
#define WEIR_CBWFQ_H

#include "pq.h"

static __always_inline __u32 cbwfq_refuses(struct weir_class *c, __u32 id, __u32 q, __u32 len,
					   __u64 now)
{
	return pq_refuses(c, id, q, len, now);
}

static __always_inline __u32 cbwfq_join(struct weir_class *c, __u32 id, __u32 q, __u32 len,
					__u64 now)
{
	__u32 i = queue_join(c, id, queue_of(c, q));
	struct weir_flow *f = flow_at(i);

	if (!f->qlen) {
		/* What it did not use is gone, but for a frame: see fair_clamp_lag. */
		__u64 least = c->queue_v - FRAME * f->cost;

		if (before(f->v, least))
			f->v = least;
	}
	return i;
}

static __always_inline __u32 cbwfq_next(struct weir_class *c, __u32 id)
{
	return queue_least(id, c->active);
}

static __always_inline void cbwfq_sent(struct weir_class *c, __u32 id, __u32 i, __u32 len)
{
	struct weir_flow *f = flow_at(i);

	if (before(c->queue_v, f->v))
		c->queue_v = f->v;
	f->v += len * f->cost;
	queue_sent(c, i);
}

static __always_inline __u32 cbwfq_victim(struct weir_class *c, __u32 id)
{
	return queue_most(id, c->active);
}

#endif /* WEIR_CBWFQ_H */
