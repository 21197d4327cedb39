/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The line: how fast packets may leave the qdisc.
 *
 * `free` is when a line of the link's capacity would have sent all that we gave it.
 * Packets leave in batches: once the line is free, until it is busy for as long as
 * the batch; then one timer. No credit is handed out in advance, so the total is the
 * capacity, exactly.
 *
 * Example: at 100 Mbit/s with batches of 0.8 ms seven frames of 1,514 bytes leave at
 * once, and the timer fires 848 us later.
 */
#ifndef WEIR_LINE_H
#define WEIR_LINE_H

#include "class.h"

#define LATE_NS 10000000ULL /* lateness that is made good: timers, turns, schedules */
#define LOOK_NS 20000000ULL /* longest sleep while packets wait that may not leave */

struct line {
	__u64 free; /* when the line has sent all that it was given */
	__u64 batch_end; /* `free` may run up to here without a timer */
	__u32 part; /* of span_exact */
	__u32 busy; /* packets could leave ever since the last batch began */
};

/* The line has been given `len` bytes. */
static __always_inline void line_give(struct line *l, __u32 len)
{
	l->free += span_exact(len, link_now.link_cost, &l->part);
}

/* Is a batch under way, so that more may leave although the line is busy? */
static __always_inline bool line_in_batch(struct line *l)
{
	return before(l->free, l->batch_end);
}

/*
 * The line is free, and a batch of `batch_ns` begins. If it was busy until now, the time
 * that was lost is made good, within bounds. A line that was idle is not late; the
 * scheduler clears `busy` when nothing may leave.
 */
static __always_inline void line_begin(struct line *l, __u64 now, __u64 batch_ns)
{
	if (!l->busy || before(l->free + LATE_NS, now))
		l->free = l->busy ? now - LATE_NS : now;
	l->busy = 1;
	l->batch_end = now + batch_ns;
}

/* May a packet leave now? If not, the timer is armed for when one may. */
static __always_inline bool line_open(struct line *l, struct Qdisc *sch, __u64 now, __u64 batch_ns)
{
	if (!before(now, l->free)) {
		line_begin(l, now, batch_ns);
	} else if (!line_in_batch(l)) {
		bpf_qdisc_watchdog_schedule(sch, l->free, 0);
		return false;
	}
	return true;
}

#endif /* WEIR_LINE_H */
