/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets of queues with an interval (core/hold.h) whose time has come join their
 * queues, before the scheduler chooses.
 */
#ifndef WEIR_RELEASE_H
#define WEIR_RELEASE_H

#include "core/hold.h"
#include "schedulers/table.h"

/* A packet that was held for a queue of class id joins it, or the front if it is gone. */
__noinline int release_one(__u32 id, __u32 queue, slot_ref s, __u64 now)
{
	struct weir_class *c = class_at(id);
	struct packet *p = packet_at(s - 1);
	__u32 q = queue & (WEIR_MAX_QUEUES - 1);
	__u32 len = p->len, since = p->since;
	bool first = !c->qlen;

	if (c->discipline > WEIR_SFQ && queue_of(c, q) == q) {
		flow_gains(c, id, discipline_join(id, q, 0, len, now), s, len, now);
		p->since = since;
	} else { /* the class has another discipline or fewer queues by now */
		struct weir_queue_stats *stats = stats_of(rule_queue(id, q));

		if (stats) {
			stats->sent_packets++;
			stats->sent_bytes += len;
		}
		front_note(c);
		front_add(c, c->front.head, s, len);
	}
	if (first)
		scheduler_activate(c, id, false);
	scheduler_boost(c, id, len, now);
	return 0;
}

struct release {
	__u64 now;
	class_ref id; /* whose queues are looked at */
	__u32 q; /* which of them */
};

/* One packet that was held joins its queue, or the next queue or class is looked at. */
static long release_next(__u64 i, struct release *l)
{
	slot_ref s;

	if (!l->id) {
		l->q = 0;
		l->id = hold_next(l->now);
		return !l->id;
	}
	s = hold_take(l->id - 1, l->q, l->now);
	if (s)
		release_one(l->id - 1, l->q, s, l->now);
	else if (++l->q == WEIR_MAX_QUEUES)
		l->id = 0;
	return 0;
}

#define RELEASES 256 /* steps, for one packet that is sent */

/* Packets of queues with an interval whose time has come join their queues. */
__noinline int release_due(void)
{
	struct release l = {.now = bpf_ktime_get_ns()};

	if (before(l.now, held.at))
		return 0;
	bpf_loop(RELEASES, release_next, &l, 0);
	if (l.id)
		hold_plan(l.id - 1, l.now, l.now);
	return 0;
}

#endif /* WEIR_RELEASE_H */
