/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Waiting: for how long a class had packets waiting, and what it sent meanwhile.
 *
 * A promise is owed while packets wait and at no other time. A sender in bursts may have
 * frames in the qdisc whenever a reader looks, and yet get all that it asks for; so the
 * qdisc counts the time itself. A time of waiting begins when a second packet comes while
 * one waits, and ends when none is left:
 *
 *     packets   1 0 1 0 1 2 3 2 1 0 . . . 1 2 1 0
 *     waits             <------->           <->
 *
 * One packet alone, such as a ping, is no sign of want, and to read the clock for each would
 * cost more than all else that the qdisc does with it. The clock is read twice for each time
 * of waiting, not for each packet; a discipline that sorts has mostly read it already. A
 * packet of an idle link costs one comparison.
 *
 * Example: bursts of 128 kB four times a second into a min of 5 Mbit/s beside others that
 * send: each is gone after 0.2 s, so `waited` grows by 0.8 s a second, `waited_bytes` by
 * 512 kB, and 0.8 s at 5 Mbit/s, 500 kB, were owed.
 *
 * While a time of waiting lasts, a reader adds to `waited` the time since `wait_since`, and
 * to `waited_bytes` what was sent since `wait_from`.
 */
#ifndef WEIR_WAITING_H
#define WEIR_WAITING_H

#include "class.h"

/* Another packet comes to class c, where one waits. `now` = 0: the clock was not read. */
static __always_inline void wait_begin(struct weir_class *c, __u64 now)
{
	if (likely(c->wait_since))
		return;
	c->wait_since = now ? now : bpf_ktime_get_ns();
	c->wait_from = c->sent_bytes;
}

/* The last packet of class c, which has waited, is gone. */
static __noinline int wait_end(__u32 id, __u64 now)
{
	struct weir_class *c = class_at(id);

	c->waited += (now ? now : bpf_ktime_get_ns()) - c->wait_since;
	c->waited_bytes += c->sent_bytes - c->wait_from;
	c->wait_since = 0;
	return 0;
}

/* A packet of class c is gone; maybe it was the last one. */
static __always_inline void wait_look(struct weir_class *c, __u32 id, __u64 now)
{
	if (unlikely(c->wait_since) && !c->qlen)
		wait_end(id, now);
}

#endif /* WEIR_WAITING_H */
