/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The scheduler `qcon`: Algorithm 1 of Hong et al., "qCon: QoS-Aware Network
 * Resource Management for Fog Computing", Sensors 18(10), 2018.
 *
 * Every 30 ms each class gets credits, in bytes, from its weight, its min and
 * its max; it spends them by sending; classes with credit are served round
 * robin, and one whose packet is larger than its credit waits. The loop over
 * the classes (qcon_grant) is the paper's, line by line, in integer arithmetic
 * and in the order of the class numbers.
 *
 * What the paper leaves open, and what is done here:
 *   - Which containers take part: those that had a packet in this period or
 *     the last one, as in Xen's credit scheduler, from which the idea comes. A
 *     stopped container would otherwise keep its share for ever if it is the
 *     last in order, because what the last one leaves is given to nobody.
 *   - A class that appears between two periods gets its credits at once.
 *   - "The total amount of credits": what the link carries in 30 ms, plus a
 *     balance. The loop as printed hands out more than the total when a min
 *     binds (it takes weight / total_weight of it from each later class, not
 *     weight / weight_left) and less when a max binds. The paper's network
 *     card held the sum down; here the bytes that were sent beyond the link's
 *     capacity, or not sent although packets waited, correct the next total.
 *   - A packet larger than all the credit a class can ever have (segmentation
 *     offload) is sent on a full credit and leaves a debt, or it would wait for
 *     ever.
 *
 * Known weakness, kept because it is the paper's: the result depends on the
 * order. Three classes of equal weight, the second with a max of 10 on 100
 * Mbit/s: the first gets 40, the third 50, because only classes after the
 * second one share what it leaves. Bursts of 30 ms
 * of the link's rate, twice that where the balance catches up.
 */
#ifndef WEIR_QCON_H
#define WEIR_QCON_H

#include "bits.h"
#include "queue.h"

static struct bits qcon_active; /* classes that take part */
static struct bits qcon_ready; /* classes with packets that may have credit */
static __u64 qcon_end; /* end of the period */
static __s64 qcon_balance; /* bytes added to the next total */
static __u64 qcon_sent; /* bytes sent in this period */
static __u64 qcon_weight; /* total_weight: of those that take part */
static __u32 qcon_turn; /* class number where round robin goes on */

/* Variables of Algorithm 1 that live from one class to the next. */
struct qcon_loop {
	__u32 from;
	__u64 total_weight;
	__u64 weight_left;
	__s64 total_credit;
	__s64 credit_left;
};

/* First pass: who takes part, and the sum of the weights. */
static long qcon_count(__u64 i, struct qcon_loop *l)
{
	__u32 id = bits_next(&qcon_active, l->from);
	struct weir_class *c;

	if (id >= BITS || id < l->from)
		return 1;
	c = class_at(id);
	if (!c->qlen && !c->seen) {
		bits_clear(&qcon_active, id);
		c->credit = 0;
	} else {
		c->seen = 0;
		l->total_weight += c->weight;
	}
	l->from = id + 1;
	return id + 1 >= BITS;
}

/* Second pass: the body of Algorithm 1's loop for the current class. */
static long qcon_grant(__u64 i, struct qcon_loop *l)
{
	__u32 id = bits_next(&qcon_active, l->from);
	struct weir_class *c;
	__s64 credit_fair;

	if (id >= BITS || id < l->from || !l->total_weight)
		return 1;
	c = class_at(id);
	l->from = id + 1;

	/* Proportional share scheduling */
	if (l->total_credit < 0)
		l->total_credit = 0;
	credit_fair = (l->total_credit * c->weight + (l->total_weight - 1)) / l->total_weight;
	c->credit += credit_fair;
	l->weight_left -= c->weight;

	/* Support for work-conserving */
	if (c->credit > credit_fair) {
		l->credit_left += c->credit - credit_fair;
		if (l->weight_left > 0) {
			l->total_credit +=
				(l->credit_left * l->total_weight + (l->weight_left - 1)) /
				l->weight_left;
			c->credit = credit_fair;
			l->credit_left = 0;
		}
	}
	/* Minimum bandwidth reservation */
	if (c->min_credit && c->credit < (__s64)c->min_credit) {
		l->total_credit -= c->min_credit - c->credit;
		c->credit = c->min_credit;
	}
	/* Maximum bandwidth limitation */
	if (c->max_credit && c->credit > (__s64)c->max_credit) {
		l->total_credit += c->credit - c->max_credit;
		c->credit = c->max_credit;
	}
	c->granted = c->credit;
	if (c->qlen)
		bits_set(&qcon_ready, id);
	return id + 1 >= BITS;
}

/* A period ends: corrects the balance and hands out the credits of the next. */
__noinline int qcon_allocate(__u64 now, __u32 waiting)
{
	__s64 total = link_now.total_credit;
	struct qcon_loop l = {};

	qcon_balance += total - (__s64)qcon_sent;
	if (!waiting && qcon_balance > 0)
		qcon_balance = 0; /* nobody was held up by a lack of credit */
	if (qcon_balance > total)
		qcon_balance = total;
	if (qcon_balance < -total)
		qcon_balance = -total;
	qcon_sent = 0;
	qcon_end += WEIR_QCON_PERIOD_NS;
	if (before(qcon_end, now))
		qcon_end = now + WEIR_QCON_PERIOD_NS;

	bpf_loop(WEIR_MAX_CLASSES, qcon_count, &l, 0);
	qcon_weight = l.weight_left = l.total_weight;
	l.total_credit = total + qcon_balance;
	l.from = 0;
	bpf_loop(WEIR_MAX_CLASSES, qcon_grant, &l, 0);
	return 0;
}

/*
 * Credit of a class that appears in the middle of a period: what its weight, min
 * and max give it, but no more than the link has left, or two packets.
 */
static __always_inline __s64 qcon_advance(struct weir_class *c)
{
	__s64 left = link_now.total_credit - qcon_sent;
	__s64 credit;

	qcon_weight += c->weight;
	credit = qcon_weight ? link_now.total_credit * c->weight / qcon_weight : 0;
	if (credit < (__s64)c->min_credit)
		credit = c->min_credit;
	if (c->max_credit && credit > (__s64)c->max_credit)
		credit = c->max_credit;
	if (left < 2 * FRAME)
		left = 2 * FRAME;
	return credit < left ? credit : left;
}

/* Class id, which was idle, has got its first packet. */
static __always_inline void qcon_activate(struct weir_class *c, __u32 id)
{
	__u32 w = bounded(id >> 6, 64);

	c->seen = 1;
	if (!(qcon_active.word[w] & (1ULL << (id & 63)))) {
		bits_set(&qcon_active, id);
		c->credit = before(bpf_ktime_get_ns(), qcon_end) ? qcon_advance(c) : 0;
		c->granted = c->credit;
	}
	bits_set(&qcon_ready, id);
}

/* Looks at the next class in turn; stops at one that may send. */
static long qcon_look(__u64 i, __u32 *found)
{
	__u32 id = bits_next(&qcon_ready, qcon_turn & (BITS - 1));
	struct weir_class *c;

	if (id >= BITS)
		return 1;
	c = class_at(id);
	if (c->credit >= queue_first_len(c) || (c->credit > 0 && c->credit >= c->granted)) {
		*found = id + 1;
		return 1;
	}
	bits_clear(&qcon_ready, id);
	return 0;
}

/* Which class sends now: its number plus one, or 0 with the timer armed. */
static __always_inline __u32 qcon_choose(struct Qdisc *sch)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 found = 0;

	take_changes();
	if (!before(now, qcon_end))
		qcon_allocate(now, sch->q.qlen);
	/* A class without credit is passed over once a period, so this is short. */
	bpf_loop(WEIR_MAX_CLASSES, qcon_look, &found, 0);
	if (!found)
		bpf_qdisc_watchdog_schedule(sch, qcon_end, 0);
	return found;
}

static __always_inline void qcon_charge(struct weir_class *c, __u32 id, __u32 len)
{
	c->credit -= len;
	qcon_sent += len;
	c->seen = 1;
	qcon_turn = id + 1;
	if (!c->qlen)
		bits_clear(&qcon_ready, id);
}

static __always_inline void qcon_reset(void)
{
	qcon_active.top = qcon_ready.top = 0;
	qcon_end = qcon_sent = qcon_weight = 0;
	qcon_balance = 0;
	qcon_turn = 0;
}

static __always_inline void qcon_reset_word(__u32 i)
{
	qcon_active.word[bounded(i, 64)] = 0;
	qcon_ready.word[bounded(i, 64)] = 0;
}

#endif /* WEIR_QCON_H */
