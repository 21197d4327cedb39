/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The scheduler `qcon`: Algorithm 1 of Hong et al., "qCon: QoS-Aware Network
 * Resource Management for Fog Computing", Sensors 18(10), 2018.
 *
 * Every 30 ms each class gets credits, in bytes, from its weight, its min and
 * its max; it spends them by sending; classes with credit are served round
 * robin, and one whose packet is larger than its credit waits (credit.h). The
 * loop over the classes (qcon_grant) is the paper's, line by line, in integer
 * arithmetic and in the order of the class numbers.
 *
 * The paper leaves open, beside what credit.h says:
 *   - "The total amount of credits": what the link carries in 30 ms, plus a
 *     balance. The loop as printed hands out more than the total when a min
 *     binds (it takes weight / total_weight of it from each later class, not
 *     weight / weight_left) and less when a max binds. The paper's network
 *     card held the sum down; here the bytes that were sent beyond the link's
 *     capacity, or not sent although packets waited, correct the next total; by
 *     more than themselves, since a larger total reaches only classes that are held
 *     neither at their min nor at their max.
 *   - Only those that had a packet take part. A stopped container would
 *     otherwise keep its share for ever if it is the last in order, because
 *     what the last one leaves is given to no other.
 *
 * Known weakness, kept because it is Algorithm 1's (equations 7 and 9 of the
 * paper do not have it): the result depends on the order. Three classes of equal weight, the second
 * with a max of 10 on 100 Mbit/s: the first gets 40, the third 50, because only classes after the
 * second one share what it leaves. Bursts of 30 ms of the link's rate, twice that where the balance
 * catches up.
 */
#ifndef WEIR_QCON_H
#define WEIR_QCON_H

#include "credit.h"
#include "without.h"

static __s64 qcon_balance; /* bytes added to the next total */
static __u64 qcon_weights; /* of those that took part in the last period */
static __u64 qcon_open; /* of those among them that a larger total would have given more */

#define QCON_MOST 16 /* totals that the balance may add */

/* Variables of Algorithm 1 that live from one class to the next. */
struct qcon_loop {
	struct credit_walk walk; /* has total_weight */
	__u64 weight_left;
	__s64 total_credit;
	__s64 credit_left;
	__u64 open_weight;
};

/* The body of Algorithm 1's loop for the current class. */
static long qcon_grant(__u64 i, struct qcon_loop *l)
{
	__u64 total_weight = l->walk.total_weight;
	struct weir_class *c;
	__s64 credit_fair;
	bool bound;
	__u32 id;

	c = credit_next(&l->walk, &id);
	if (!c || !total_weight)
		return 1;

	/* Proportional share scheduling */
	if (l->total_credit < 0)
		l->total_credit = 0;
	credit_fair = (l->total_credit * c->weight + (total_weight - 1)) / total_weight;
	c->credit += credit_fair;
	l->weight_left -= c->weight;

	/* Support for work-conserving */
	if (c->credit > credit_fair) {
		l->credit_left += c->credit - credit_fair;
		if (l->weight_left > 0) {
			l->total_credit += (l->credit_left * total_weight + (l->weight_left - 1)) /
					   l->weight_left;
			c->credit = credit_fair;
			l->credit_left = 0;
		}
	}
	/* What its schedule kept it from spending is not saved up. */
	if (fst_paced(c) && c->credit > credit_fair)
		c->credit = credit_fair;
	bound = false;
	/* Minimum bandwidth reservation */
	if (c->min_credit && c->credit < (__s64)c->min_credit) {
		l->total_credit -= c->min_credit - c->credit;
		c->credit = c->min_credit;
		bound = true;
	}
	/* Maximum bandwidth limitation */
	if (c->max_credit && c->credit > (__s64)c->max_credit) {
		l->total_credit += c->credit - c->max_credit;
		c->credit = c->max_credit;
		bound = true;
	}
	if (c->qlen && !bound)
		l->open_weight += c->weight;
	c->granted = c->credit;
	credit_given(c, id);
	return l->walk.from >= BITS;
}

/*
 * What the next total has to differ by because the last period's credits were
 * too few or too many. A byte more in the total reaches those that neither a min
 * nor a max binds by their part of the weights only, hence the factor; so the
 * total is right one period after the classes or their policies have changed.
 */
static __always_inline void qcon_correct(__s64 total, __s64 missing, __u32 waiting, __u64 weights)
{
	__s64 most = QCON_MOST * total;

	if (weights != qcon_weights || !waiting) {
		/* Others than before; or no class lacked credit. */
		qcon_balance = missing < 0 ? missing : 0;
	} else if (qcon_open) {
		bool more = missing > 0;

		/* There is no signed division. */
		missing = (__s64)((__u64)(more ? missing : -missing) * weights / qcon_open);
		qcon_balance += more ? missing : -missing;
	}
	if (qcon_balance > most)
		qcon_balance = most;
	if (qcon_balance < -total)
		qcon_balance = -total;
}

/* A period ends: corrects the balance and hands out the credits of the next. */
__noinline int qcon_allocate(__u64 now, __u32 waiting)
{
	__s64 total = link_now.total_credit;
	__s64 missing = total - (__s64)credit_sent;
	struct qcon_loop l = {};

	credit_period(now, &l.walk);
	qcon_correct(total, missing, waiting - l.walk.paced, l.walk.total_weight);
	l.weight_left = l.walk.total_weight;
	l.total_credit = total + qcon_balance;
	bpf_loop(WEIR_MAX_CLASSES, qcon_grant, &l, 0);
	qcon_weights = l.walk.total_weight;
	qcon_open = l.open_weight;
	return 0;
}

static __always_inline void qcon_activate(struct weir_class *c, __u32 id, bool alone)
{
	credit_activate(c, id);
}

static __always_inline class_ref qcon_choose(struct Qdisc *sch)
{
	__u64 now = bpf_ktime_get_ns();

	if (!before(now, credit_end))
		qcon_allocate(now, sch->q.qlen);
	return credit_choose(sch, now);
}

static __always_inline void qcon_charge(struct weir_class *c, __u32 id, __u32 len, __u32 left)
{
	credit_charge(c, id, len);
}

SCHEDULER_WITHOUT_PRIORITY(qcon)
SCHEDULER_WITHOUT_ORDER(qcon)
SCHEDULER_WITHOUT_GROUPS(qcon)

static __always_inline void qcon_reset(void)
{
	credit_reset();
	qcon_balance = 0;
	qcon_weights = qcon_open = 0;
}

#endif /* WEIR_QCON_H */
