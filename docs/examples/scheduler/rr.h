/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rr: strict round robin. The classes that have packets send one each in the order of
 * their numbers; weights, mins and maxes are not looked at.
 *
 * Example: two classes on 8 Mbit/s, one with packets of 1,000 bytes and one with packets
 * of 200: 6.67 and 1.33 Mbit/s.
 */
#ifndef WEIR_RR_H
#define WEIR_RR_H

#include "core/bits.h"
#include "core/hold.h"
#include "schedulers/without.h"

static struct {
	struct line line;
	__u32 turn; /* class number where the search begins */
	struct bits ready; /* classes that have packets */
} rr;

static __always_inline void rr_activate(struct weir_class *c, __u32 id, bool alone)
{
	bits_set(&rr.ready, id);
}

static __always_inline class_ref rr_choose(struct Qdisc *sch)
{
	__u64 now = bpf_ktime_get_ns();

	if (!line_open(&rr.line, sch, now, link_now.batch_ns))
		return 0;
	if (!rr.ready.top) {
		rr.line.busy = 0;
		bpf_qdisc_watchdog_schedule(sch, hold_before(now + LOOK_NS), 0);
		return 0;
	}
	return bits_next(&rr.ready, rr.turn) + 1;
}

static __always_inline void rr_charge(struct weir_class *c, __u32 id, __u32 len, __u32 left)
{
	line_give(&rr.line, len);
	rr.turn = id + 1;
	if (!c->qlen)
		bits_clear(&rr.ready, id);
	if (!left)
		rr.line.busy = 0;
}

static __always_inline void rr_reset(void)
{
	__builtin_memset(&rr, 0, sizeof(rr));
}

SCHEDULER_WITHOUT_PRIORITY(rr)
SCHEDULER_WITHOUT_ORDER(rr)
SCHEDULER_WITHOUT_GROUPS(rr)

#endif /* WEIR_RR_H */
