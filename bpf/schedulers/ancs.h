/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The scheduler `ancs`: Hong et al., "ANCS: Achieving QoS through Dynamic
 * Allocation of Network Resources in Virtualized Clouds", Scientific
 * Programming 2016, sections 3.2 to 3.4.
 *
 * Every 30 ms an accounting function gives each class credits, in bytes; a class
 * spends them by sending, at any time within the period and beyond it; classes
 * with credit are served round robin (credit.h). The paper's words are here
 *
 *   CreditFair    ancs_fair: total * weight / total_weight, but
 *   MinimumCredit   at least this and
 *   MaximumCredit   at most this
 *   RemainCredit  c->credit: CreditFair is added every period
 *   CreditPeak    what a class that has the link alone could use: a period of the
 *                 link, plus CreditNext. RemainCredit above it is cut to CreditFair
 *   CreditNext    what those classes have left that had nothing to send
 *   CreditLeft    credits that are cut; they go to the others by the next total
 *
 * The paper has a flow chart (its figure 3) and prose; the prose does not say how
 * large the total is, nor who pays for a min, and read literally it neither
 * fills the link nor keeps within it. With the weights 1 to 5 and a max of 15
 * for the last on 100 Mbit/s it leaves 18 idle; with a min of 20 for the first
 * instead it hands out 113. docs/decisions/0011-ancs-from-prose.md tells which
 * parts are printed. Here:
 *
 *   - The total is not what the link carries but the amount that makes those who had
 *     packets all the time get, together, what the link has for them: its capacity
 *     less what the others sent in the last period (ancs_total). So unused
 *     credits, and those above a max, go to all by weight, and those below a min
 *     come from all, whatever their order. In the case with the max above, the
 *     total settles at 127.5 of 100 Mbit/s: L = 8.5 per weight.
 *   - The paper's network card held the sum down. Here the qdisc does: it
 *     gives the line no more than a batch in advance, the larger of the two of
 *     `fair`, because the paper wants little CPU time. So a packet of a class with
 *     credit waits for its turn among the others, less than a millisecond at 100
 *     Mbit/s, and not for a period.
 *
 * Known weaknesses, kept because they are the paper's: round robin counts
 * packets, so a class of small ones may have to wait for those of large ones to run
 * out of credit, and is then taken for one that lacks credit (12.5 Mbit/s in
 * packets of 200 bytes beside one that sends all it can in packets of 1,000, on
 * 50 Mbit/s: that one gets 35.2 instead of 37.5). A class that uses little may
 * keep credits for a period of the link, two at most, and sends them when it
 * has more to send; and a change takes two or three periods to come into force.
 */
#ifndef WEIR_ANCS_H
#define WEIR_ANCS_H

#include "credit.h"
#include "without.h"

#define ANCS_MOST (1LL << 43) /* bytes of a total: times a factor it fits 64 bits */
#define ANCS_ONE 65536 /* a factor of 1 */
#define ANCS_STEP 16 /* by how much one period can raise or lower the total */
#define ANCS_SPARE 32 /* of a period's credits, one part is to be left at its end */

static struct {
	struct line line;
	__s64 total; /* bytes that a class would get whose weight is total_weight */
} ancs;

static struct bits ancs_dry; /* classes that had nothing to send at some time in this period */

/* Variables that live from one class to the next. */
struct ancs_loop {
	struct credit_walk walk; /* has total_weight */
	__s64 spare; /* to be left at the end of a period */
	__s64 peak; /* CreditPeak of a class without a max */
	__s64 next; /* CreditNext: what the others have left */
	__s64 held; /* what those have left that had packets all the time */
	__s64 used; /* what the others sent in the last period */
	__s64 given; /* what those who had packets all the time would get of the last total */
	__u32 open; /* one of those is not at a max */
};

/* CreditFair of class c: its share by weight, within its min and its max. */
static __always_inline __s64 ancs_fair(struct weir_class *c, struct ancs_loop *l, bool *at_max)
{
	__u64 total_weight = l->walk.total_weight;
	__s64 credit_fair;

	credit_fair = (ancs.total * c->weight + (total_weight - 1)) / total_weight;
	*at_max = c->max_credit && credit_fair >= (__s64)c->max_credit;
	if (*at_max)
		return c->max_credit;
	return credit_fair < (__s64)c->min_credit ? (__s64)c->min_credit : credit_fair;
}

/*
 * What the period that ends says of class after class. One that had packets all
 * the time would use more if it got more; what it has left the line had no room
 * for. Any other, and one that is held by a schedule, will use what it used.
 */
static long ancs_look(__u64 i, struct ancs_loop *l)
{
	struct weir_class *c;
	bool at_max;
	__u32 id;

	c = credit_next(&l->walk, &id);
	if (!c || !l->walk.total_weight)
		return 1;
	if (!bits_has(&ancs_dry, id) && !fst_paced(c)) {
		l->given += ancs_fair(c, l, &at_max);
		l->open |= !at_max;
		if (c->credit > l->spare)
			c->credit = l->spare;
		l->held += c->credit;
	} else {
		if (c->qlen)
			bits_clear(&ancs_dry, id);
		l->used += c->granted - c->credit;
		if (c->credit > 0)
			l->next += c->credit;
	}
	return l->walk.from >= BITS;
}

/*
 * The next total. If `given` of the last one is not what the link has for them,
 * it is raised or lowered in that proportion: at once right where no class is
 * bound by a min or a max, and never too far where one is, because the
 * credits given grow at most as the total does. A little is left over on purpose, so
 * that the line does not run dry just before a period ends.
 */
static __always_inline void ancs_total(struct ancs_loop *l)
{
	__s64 link = link_now.total_credit, spare = l->spare;
	__s64 want = link - l->used, off = (spare - l->held) / 2;
	__u64 factor;

	if (!ancs.total)
		ancs.total = link;
	if (l->given <= 0)
		return;
	want += off < -spare ? -spare : off;
	if (want < spare)
		want = spare;
	factor = want * ANCS_ONE / l->given;
	if (factor > ANCS_ONE && !l->open)
		return; /* no class may take more */
	if (factor > ANCS_ONE * ANCS_STEP)
		factor = ANCS_ONE * ANCS_STEP;
	if (factor < ANCS_ONE / ANCS_STEP)
		factor = ANCS_ONE / ANCS_STEP;
	ancs.total = ancs.total * factor / ANCS_ONE + 1;
	if (ancs.total > ANCS_MOST)
		ancs.total = ANCS_MOST;
	if (ancs.total < spare)
		ancs.total = spare;
}

/* The flow chart (figure 3) for one class. */
static long ancs_grant(__u64 i, struct ancs_loop *l)
{
	__s64 credit_fair, credit_peak = l->peak;
	struct weir_class *c;
	bool at_max;
	__u32 id;

	c = credit_next(&l->walk, &id);
	if (!c || !l->walk.total_weight)
		return 1;
	credit_fair = ancs_fair(c, l, &at_max);
	if (c->max_credit && credit_peak > (__s64)c->max_credit)
		credit_peak = c->max_credit;
	if (credit_fair > credit_peak)
		credit_fair = credit_peak;
	c->credit += credit_fair;
	/* A rest that was too small for a packet is not too much. */
	if (c->credit > credit_peak + FRAME)
		c->credit = credit_fair;
	c->granted = c->credit;
	credit_given(c, id);
	return l->walk.from >= BITS;
}

/* A period ends: the accounting function. */
__noinline int ancs_allocate(__u64 now)
{
	__s64 link = link_now.total_credit;
	struct ancs_loop l = {};

	l.spare = link / ANCS_SPARE;
	credit_period(now, &l.walk);
	bpf_loop(WEIR_MAX_CLASSES, ancs_look, &l, 0);
	ancs_total(&l);
	l.peak = link + l.spare + (l.next < link ? l.next : link);
	l.walk.from = 0;
	bpf_loop(WEIR_MAX_CLASSES, ancs_grant, &l, 0);
	return 0;
}

static __always_inline void ancs_activate(struct weir_class *c, __u32 id, bool alone)
{
	credit_activate(c, id);
}

static __always_inline class_ref ancs_choose(struct Qdisc *sch)
{
	__u64 now = bpf_ktime_get_ns();
	class_ref id;

	if (!line_open(&ancs.line, sch, now, link_now.bulk_batch_ns))
		return 0;
	if (!before(now, credit_end))
		ancs_allocate(now);
	id = credit_choose(sch, now);
	if (!id)
		ancs.line.busy = 0; /* an idle line is no late one */
	return id;
}

static __always_inline void ancs_charge(struct weir_class *c, __u32 id, __u32 len, __u32 left)
{
	line_give(&ancs.line, len);
	if (!left)
		ancs.line.busy = 0;
	if (!c->qlen)
		bits_set(&ancs_dry, id);
	credit_charge(c, id, len);
}

SCHEDULER_WITHOUT_PRIORITY(ancs)
SCHEDULER_WITHOUT_ORDER(ancs)
SCHEDULER_WITHOUT_GROUPS(ancs)

static __always_inline void ancs_reset(void)
{
	credit_reset();
	__builtin_memset(&ancs, 0, sizeof(ancs));
	__builtin_memset(&ancs_dry, 0, sizeof(ancs_dry));
}

#endif /* WEIR_ANCS_H */
