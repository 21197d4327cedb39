/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Credits: what qcon.h and ancs.h have in common.
 *
 * Every WEIR_CREDIT_PERIOD_NS an accounting function gives each class credits,
 * in bytes; a class spends them by sending, and one whose packet is larger than
 * its credit is passed over. Those with credit are served round robin, one
 * packet each. How much a class is given is the schedulers' own affair; here is
 * the rest: who takes part, whose turn it is, what a packet costs.
 *
 *   - Those take part that had a packet in this period or the last one, as in
 *     Xen's credit scheduler, from which both papers have the idea.
 *   - A class that appears between two periods gets credits at once.
 *   - A packet larger than all the credit a class can ever have (segmentation
 *     offload) is sent on a full credit and leaves a debt, or it would wait for
 *     ever.
 *
 * A class without credit is looked at once a period, so that a packet costs the
 * same whatever the number of classes; the accounting function goes through
 * those that take part.
 */
#ifndef WEIR_CREDIT_H
#define WEIR_CREDIT_H

#include "../core/bits.h"
#include "../core/hold.h"
#include "../disciplines/table.h"

static struct bits credit_active; /* classes that take part */
static struct bits credit_ready; /* classes with packets that may have credit */
static struct bits credit_paced; /* classes with packets that wait for a schedule (core/fst.h) */
static __u64 credit_paced_at; /* when to look at them */
static __u64 credit_end; /* end of the period */
static __u64 credit_sent; /* bytes sent in this period */
static __u64 credit_weight; /* of those that take part */
static __u32 credit_turn; /* class number where round robin goes on */
static __u64 credit_now; /* the time, as the scheduler asked for it */

/* A walk over the classes that take part, in the order of their numbers. */
struct credit_walk {
	__u32 from;
	__u64 total_weight;
	__u64 now;
	__u32 paced; /* packets of classes with a schedule, which wait for that */
};

/* The next class that takes part, its number in *id; NULL behind the last one. */
static __always_inline struct weir_class *credit_next(struct credit_walk *walk, __u32 *id)
{
	*id = bits_next(&credit_active, walk->from);
	if (*id >= BITS || *id < walk->from)
		return NULL;
	walk->from = *id + 1;
	return class_at(*id);
}

/* Sorts out who no longer takes part, and adds up the weights of the others. */
static long credit_count(__u64 i, struct credit_walk *walk)
{
	__u32 id;
	struct weir_class *c = credit_next(walk, &id);

	if (!c)
		return 1;
	if (!c->qlen && !c->seen) {
		bits_clear(&credit_active, id);
		c->credit = 0;
	} else {
		c->seen = 0;
		walk->total_weight += c->weight;
		if (fst_paced(c))
			walk->paced += c->qlen;
	}
	return walk->from >= BITS;
}

/* A period ends; the walk that hands out the credits of the next one is `walk`. */
static __always_inline void credit_period(__u64 now, struct credit_walk *walk)
{
	credit_sent = 0;
	credit_end += WEIR_CREDIT_PERIOD_NS;
	if (before(credit_end, now))
		credit_end = now + WEIR_CREDIT_PERIOD_NS;
	bpf_loop(WEIR_MAX_CLASSES, credit_count, walk, 0);
	credit_weight = walk->total_weight;
	walk->from = 0;
}

/* Class id has been given credits. */
static __always_inline void credit_given(struct weir_class *c, __u32 id)
{
	if (c->qlen)
		bits_set(&credit_ready, id);
}

/*
 * Credit of a class that appears in the middle of a period: what its weight, min
 * and max give it, but no more than the link has left, or two packets.
 */
static __always_inline __s64 credit_advance(struct weir_class *c)
{
	__s64 left = link_now.total_credit - credit_sent;
	__s64 credit;

	credit_weight += c->weight;
	credit = credit_weight ? link_now.total_credit * c->weight / credit_weight : 0;
	if (credit < (__s64)c->min_credit)
		credit = c->min_credit;
	if (c->max_credit && credit > (__s64)c->max_credit)
		credit = c->max_credit;
	if (left < 2 * FRAME)
		left = 2 * FRAME;
	return credit < left ? credit : left;
}

/* Class id, which was idle, has got its first packet. */
static __always_inline void credit_activate(struct weir_class *c, __u32 id)
{
	c->seen = 1;
	if (fst_paced(c)) {
		__u64 now = bpf_ktime_get_ns();

		if (before(c->ceil_at, now))
			c->ceil_at = now;
	}
	if (!bits_has(&credit_active, id)) {
		bits_set(&credit_active, id);
		c->credit = before(bpf_ktime_get_ns(), credit_end) ? credit_advance(c) : 0;
		c->granted = c->credit;
	}
	bits_set(&credit_ready, id);
}

/* Class c's schedule does not let it send yet: it is no longer among those that may. */
static __always_inline bool credit_paces(struct weir_class *c, __u32 id, __u64 now)
{
	if (!fst_paced(c) || !fst_early(c, now))
		return false;
	if (!credit_paced.top || before(c->ceil_at, credit_paced_at))
		credit_paced_at = c->ceil_at;
	bits_set(&credit_paced, id);
	bits_clear(&credit_ready, id);
	return true;
}

/* One of those that wait for their schedule may send again, or says when. */
static long credit_release(__u64 i, struct credit_walk *walk)
{
	__u32 id = bits_next(&credit_paced, walk->from & (BITS - 1));
	struct weir_class *c;

	if (id >= BITS || id < walk->from)
		return 1;
	walk->from = id + 1;
	c = class_at(id);
	if (!fst_paced(c) || !before(walk->now, c->ceil_at)) {
		bits_clear(&credit_paced, id);
		if (c->qlen)
			bits_set(&credit_ready, id);
	} else if (before(c->ceil_at, credit_paced_at)) {
		credit_paced_at = c->ceil_at;
	}
	return walk->from >= BITS;
}

/* Looks at the next class in turn; stops at one that may send. */
static long credit_look(__u64 i, class_ref *found)
{
	__u32 id = bits_next(&credit_ready, credit_turn & (BITS - 1));
	struct weir_class *c;

	if (id >= BITS)
		return 1;
	c = class_at(id);
	if (credit_paces(c, id, credit_now))
		return 0;
	if (c->credit >= class_first_len(c, id) || (c->credit > 0 && c->credit >= c->granted)) {
		*found = id + 1;
		return 1;
	}
	bits_clear(&credit_ready, id);
	return 0;
}

/* Which class sends at `now`; 0 with the timer armed = none may. */
static __always_inline class_ref credit_choose(struct Qdisc *sch, __u64 now)
{
	class_ref found = 0;

	credit_now = now;
	if (credit_paced.top && !before(now, credit_paced_at)) {
		struct credit_walk walk = {.now = now};

		credit_paced_at = credit_end;
		bpf_loop(WEIR_MAX_CLASSES, credit_release, &walk, 0);
	}
	/* A class without credit is passed over once a period, so this is short. */
	bpf_loop(WEIR_MAX_CLASSES, credit_look, &found, 0);
	if (!found) {
		__u64 at = credit_end;

		if (credit_paced.top && before(credit_paced_at, at))
			at = credit_paced_at;
		bpf_qdisc_watchdog_schedule(sch, hold_before(at), 0);
	}
	return found;
}

/* Class id has sent `len` bytes. */
static __always_inline void credit_charge(struct weir_class *c, __u32 id, __u32 len)
{
	c->credit -= len;
	credit_sent += len;
	if (fst_paced(c)) {
		if (before(c->ceil_at + LATE_NS, credit_now))
			c->ceil_at = credit_now - LATE_NS;
		c->ceil_at += span_exact(len, c->ceil_cost, &c->ceil_part);
	}
	c->seen = 1;
	credit_turn = id + 1;
	if (!c->qlen)
		bits_clear(&credit_ready, id);
}

static __always_inline void credit_reset(void)
{
	__builtin_memset(&credit_active, 0, sizeof(credit_active));
	__builtin_memset(&credit_ready, 0, sizeof(credit_ready));
	__builtin_memset(&credit_paced, 0, sizeof(credit_paced));
	credit_end = credit_sent = credit_weight = 0;
	credit_turn = 0;
}

#endif /* WEIR_CREDIT_H */
