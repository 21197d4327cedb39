/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CoDel (RFC 8289): a queue may hold bursts, but no standing delay. Once each
 * packet of an interval (100 ms) has waited longer than the target (5 ms), one
 * is dropped, and then one every interval / sqrt(n), n = 1, 2, 3 ..., until a
 * packet waits less or hardly a frame is left behind it.
 *
 * Here is the decision only; the caller (send_sorted in qdisc.bpf.c) takes packets
 * out, and ecn.h marks in place of a drop where packet and policy say so. Times are ns, ages come
 * in steps of 1,024 ns (AGE_SHIFT).
 */
#ifndef WEIR_CODEL_H
#define WEIR_CODEL_H

#include "../core/flow.h"

/* Integer square root of x << 16: sqrt(x) with 8 binary places; x from 1 to 2^16 - 1. */
static __always_inline __u64 codel_sqrt(__u64 x)
{
	__u64 root = 0;

	x <<= 16;
	for (int bit = 15; bit >= 0; bit--) {
		__u64 try = root | (1ULL << bit);

		if (try * try <= x)
			root = try;
	}
	return root;
}

/* When to drop next after a drop at t: interval / sqrt(count) later. */
static __always_inline __u64 codel_law(struct weir_class *c, struct weir_flow *f, __u64 t)
{
	__u64 n = f->count < 65535 ? f->count : 65535;

	return t + (c->aqm_interval << 8) / codel_sqrt(n ? n : 1);
}

/* How long a packet that came at `since` has waited. */
static __always_inline __u64 codel_age(__u32 since, __u64 now)
{
	return (__u64)((__u32)(now >> AGE_SHIFT) - since) << AGE_SHIFT;
}

/* When flow f, whose packets wait for longer than the target, is due for a drop. */
static __always_inline __u64 codel_due(struct weir_flow *f)
{
	return f->dropping ? f->drop_next : f->first_above;
}

/*
 * The first packet of flow f, of class c, has waited for `age`; `left` bytes stay
 * behind it. Is it to be dropped? Called at `now` for the packets that leave the
 * flow, in order, but for one that is sent because enough before it were dropped
 * (AQM_DROPS in qdisc.bpf.c). `at` is when the sender's notice leaves: now, or
 * later if it is a mark (ecn.h).
 */
static __always_inline bool codel_drops(struct weir_class *c, struct weir_flow *f, __u64 age,
					__u32 left, __u64 now, __u64 at)
{
	bool above = false;

	if (age < c->aqm_target || left <= FRAME)
		f->first_above = 0;
	else if (!f->first_above)
		f->first_above = now + c->aqm_interval;
	else
		above = f->dropping || !before(at, f->first_above);

	if (!above) {
		f->dropping = 0;
		return false;
	}
	if (f->dropping) {
		if (before(at, f->drop_next))
			return false;
		f->count++;
		f->drop_next = codel_law(c, f, f->drop_next);
		return true;
	}
	/* It begins again soon after it ended: go on at nearly the rate that worked. */
	f->dropping = 1;
	if (before(at, f->drop_next + 16 * c->aqm_interval) && f->count - f->last_count > 1)
		f->count -= f->last_count;
	else
		f->count = 1;
	f->last_count = f->count;
	f->drop_next = codel_law(c, f, at);
	return true;
}

#endif /* WEIR_CODEL_H */
