/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The scheduler `ancs`: Hong et al., "ANCS: Achieving QoS through Dynamic
 * Allocation of Network Resources in Virtualized Clouds", Scientific
 * Programming 2016.
 */
#ifndef WEIR_ANCS_H
#define WEIR_ANCS_H

#include "credit.h"

#define ANCS_LATE_NS 10000000ULL /* lateness of a timer that is made good */
#define ANCS_MOST (1LL << 48) /* bytes of a total; times a weight it still fits 64 bits */

static struct {
	__u64 line_free; /* when the line has sent all that it was given */
	__u64 line_part; /* what line_free lacks, ns << WEIR_NS_SHIFT: small packets add up */
	__u64 batch_end; /* line_free may run up to here without a timer */
	__u32 busy; /* somebody could send ever since line_free was last looked at */
	__s64 level; /* bytes that the total is above the link's */
	__s64 next; /* CreditNext: bytes of the last period's credits that found no user */
	__u64 open_weight; /* of those that a larger total would have given more */
} ancs;

/* Variables that live from one class to the next. */
struct ancs_loop {
	struct credit_walk walk; /* has total_weight */
	__s64 total;
	__s64 peak;
	__s64 held; /* credits of those that have packets */
	__u64 open_weight;
};

/* What those that have packets still hold: credits that the line had no room for. */
static long ancs_left(__u64 i, struct ancs_loop *l)
{
	__u32 id;
	struct weir_class *c = credit_next(&l->walk, &id);

	if (!c)
		return 1;
	if (c->qlen)
		l->held += c->credit;
	return l->walk.from >= BITS;
}

/* The flow chart (figure 3) for one class. */
static long ancs_grant(__u64 i, struct ancs_loop *l)
{
	__s64 credit_fair, credit_peak = l->peak;
	struct weir_class *c;
	__u32 id;

	c = credit_next(&l->walk, &id);
	if (!c || !l->walk.total_weight)
		return 1;
	credit_fair = (l->total * c->weight + (l->walk.total_weight - 1)) / l->walk.total_weight;
	if (ancs.next > 0)
		credit_peak += ancs.next;
	if (c->max_credit && credit_peak > (__s64)c->max_credit)
		credit_peak = c->max_credit;

	if (credit_fair < (__s64)c->min_credit)
		credit_fair = c->min_credit;
	else if (credit_fair > credit_peak)
		credit_fair = credit_peak;
	else if (c->qlen)
		l->open_weight += c->weight;
	c->credit += credit_fair;
	/* A rest that was too small for a packet is not too much. */
	if (c->credit > credit_peak + FRAME)
		c->credit = credit_fair;
	c->granted = c->credit + credit_fair > credit_peak + FRAME ? c->credit : ANCS_MOST;
	if (c->qlen)
		l->held += c->credit;
	credit_given(c, id);
	return l->walk.from >= BITS;
}

static __always_inline __s64 ancs_scaled(__s64 bytes, __u64 weight, __u64 part)
{
	bool less = bytes < 0;
	__u64 size = less ? -bytes : bytes;

	if (part)
		size = size * weight / part;
	if (size > ANCS_MOST)
		size = ANCS_MOST;
	return less ? -(__s64)size : (__s64)size;
}

/* A period ends: the accounting function. */
__noinline int ancs_allocate(__u64 now)
{
	__s64 link = link_now.total_credit;
	struct ancs_loop l = {};
	__s64 off;

	credit_period(now, &l.walk);
	bpf_loop(WEIR_MAX_CLASSES, ancs_left, &l, 0);
	l.total = link + ancs.level - ancs_scaled(l.held, l.walk.total_weight, ancs.open_weight);
	if (l.total < 0)
		l.total = 0;
	if (l.total > ANCS_MOST)
		l.total = ANCS_MOST;
	l.peak = link;
	l.held = 0;
	l.walk.from = 0;
	bpf_loop(WEIR_MAX_CLASSES, ancs_grant, &l, 0);

	ancs.open_weight = l.open_weight;
	ancs.next = off = link - l.held;
	if (l.open_weight || off < 0)
		ancs.level += ancs_scaled(off, l.walk.total_weight, l.open_weight);
	if (ancs.level > ANCS_MOST)
		ancs.level = ANCS_MOST;
	if (ancs.level < -link)
		ancs.level = -link;
	return 0;
}

/* Which class sends now: its number plus one, or 0 with a timer armed. */
static __always_inline __u32 ancs_choose(struct Qdisc *sch)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 id;

	take_changes();
	if (before(now, ancs.line_free)) {
		if (!before(ancs.line_free, ancs.batch_end)) {
			bpf_qdisc_watchdog_schedule(sch, ancs.line_free, 0);
			return 0;
		}
	} else {
		if (!ancs.busy || before(ancs.line_free + ANCS_LATE_NS, now))
			ancs.line_free = ancs.busy ? now - ANCS_LATE_NS : now;
		ancs.busy = 1;
		ancs.batch_end = now + link_now.batch_ns;
	}
	if (!before(now, credit_end))
		ancs_allocate(now);
	id = credit_choose(sch);
	if (!id)
		ancs.busy = 0; /* an idle line is no late one */
	return id;
}

static __always_inline void ancs_charge(struct weir_class *c, __u32 id, __u32 len,
					struct Qdisc *sch)
{
	ancs.line_part += len * link_now.link_cost;
	ancs.line_free += ancs.line_part >> WEIR_NS_SHIFT;
	ancs.line_part &= (1 << WEIR_NS_SHIFT) - 1;
	if (!sch->q.qlen)
		ancs.busy = 0;
	credit_charge(c, id, len);
}

static __always_inline void ancs_reset(void)
{
	__builtin_memset(&ancs, 0, sizeof(ancs));
}

#endif /* WEIR_ANCS_H */
