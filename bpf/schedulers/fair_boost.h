/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Boosted classes: those of the scheduler `fair` that go before others, and before the
 * line is free. Three sorts of packets boost a class (enum boost):
 *
 *   QUIET   the first one of a class that uses less than its share
 *   SPARSE  one of a flow that sends little (sfq), or of a queue of rules that has little waiting
 *           and is first, in a class that may send all it can
 *   URGENT  one of llq's strict queue
 *
 * One such class is the newcomer, which is chosen next; the others are in the link's list
 * `urgent`, first come first. A member of a group goes first in its group in the same way,
 * and its group among the classes. All that they send is charged as usual: a class may have
 * two turns of its share in advance (a member of a group two short ones), no more, and then
 * waits in the wheels like others.
 *
 * The line is busy with a batch most of the time. A boosted class may have a part of it
 * all the same: a packet or batch_ns a batch (a quiet one twice that, an urgent one more),
 * and all of them together BOOST_BATCHES times that. What they get so makes the next batch later.
 *
 * Behind a line that is hardly faster than the link this does not help: the packet waits
 * there for the batch that went before. So batches are short while boosted classes are
 * frequent: BOOST_NS is added to `boost_clock` in each batch that one of them came upon.
 *
 * Example: a ping every 21 ms: from the sixth one on batches are short, since 60 ms are
 * added every 21. A question to a name server every second, or four packets in a row, add
 * less than 240 ms: batches stay long, and so few instructions.
 */
#ifndef WEIR_FAIR_BOOST_H
#define WEIR_FAIR_BOOST_H

#include "fair_lease.h"

#define URGENT_NS 5000000ULL /* longest time that the line is busy with urgent packets */
#define BOOST_BATCHES 4 /* batch_ns of a busy line that all that are boosted may have, a batch */

/*
 * May class c go before others in advance of its share? No further than fair_bound forgets
 * nothing, or a class that always is boosted would gain by it.
 */
static __always_inline bool fair_may_overtake(struct tier *t, struct weir_class *c)
{
	return !before(t->v_now + fair_advantage(c), c->v);
}

/* Class id, which is boosted and in no wheel, waits until it may overtake. */
__noinline int fair_wait_early(__u32 id)
{
	struct weir_class *c = class_at(id);

	c->v -= fair_advantage(c);
	fair_wait(tier_of(c), c, id, fair.clock);
	c->where = WEIR_EARLY;
	return 0;
}

/* A boosted class has come upon a busy line. */
static __always_inline void fair_note_boost(__u64 now)
{
	if (before(fair.boost_clock, now))
		fair.boost_clock = now;
	if (before(fair.boost_clock, now + BOOSTS * BOOST_NS))
		fair.boost_clock += BOOST_NS;
}

/* The first in the link's list, which is not empty, is the newcomer. */
__noinline int fair_next_urgent(void)
{
	__u32 id = fair.link.urgent.head - 1;
	struct weir_class *c = class_at(id);

	urgent_del(&fair.link, c, id);
	fair.newcomer = id + 1;
	fair.boost = c->node[0].bucket;
	return 0;
}

/* The newcomer has its turn, or is none any more: the next boosted one, if any, follows. */
static __always_inline void fair_advance(void)
{
	fair.newcomer = 0;
	if (unlikely(fair.link.urgents))
		fair_next_urgent();
}

/* There is a newcomer: the one with the larger boost is it, the other one is behind. */
__noinline int fair_go_behind(__u32 id, enum boost boost)
{
	class_ref other = fair.newcomer;
	enum boost others = fair.boost;

	keep(boost);
	if (others < boost) {
		fair.newcomer = id + 1;
		fair.boost = boost;
		if (other == fair.current) /* its turn is over */
			fair.current = 0;
		id = other - 1;
		boost = others;
	}
	urgent_add(&fair.link, class_at(id), id, boost);
	return 0;
}

/*
 * Class id, which is in no wheel, goes before others: as the newcomer, or after it and
 * those behind it.
 */
static __always_inline void fair_go_first(__u32 id, enum boost boost)
{
	if (fair.newcomer) {
		fair_go_behind(id, boost);
		return;
	}
	fair.newcomer = id + 1;
	fair.boost = boost;
}

/*
 * Takes class id, which is boosted, out of its wheel if it may overtake. If not, it waits
 * there for no more than that.
 */
static __always_inline bool fair_recall(struct tier *t, struct weir_class *c, __u32 id)
{
	__u64 v = t->v_now;

	if (c->where == WEIR_WAITING)
		v += fair_advantage(c);
	else if (c->where != WEIR_EARLY)
		return false;
	if (!before(v, c->v)) {
		fair_leave(t, c);
		return true;
	}
	if (c->where == WEIR_WAITING) {
		fair_leave(t, c);
		fair_wait_early(id);
	}
	return false;
}

/*
 * Class id, or a member of that group, has got a boosted packet, and may have
 * others waiting: it goes first, charged like any other, unless it is at its max or has
 * had far more than its share.
 */
__noinline int fair_boost_class(__u32 id, enum boost boost)
{
	struct weir_class *c = class_at(id);

	keep(boost);
	if (fair.newcomer == id + 1) {
		if (fair.boost < boost)
			fair.boost = boost;
	} else if (fair.current == id + 1) {
		if (fair.newcomer || boost == URGENT) /* it goes on as one, its turn is over */
			fair.current = 0;
		fair_go_first(id, boost);
	} else if (fair_recall(&fair.link, c, id)) {
		fair_go_first(id, boost);
	}
	return 0;
}

/* Class id, or a member of that group, has sent a packet, and its next one is boosted. */
__noinline int fair_go_on(__u32 id, enum boost boost)
{
	struct weir_class *c = class_at(id);
	struct tier *t = tier_of(c);

	keep(boost);
	fair_bound(t, c, id);
	if (fair_at_max(c, fair.clock))
		fair_throttle(t, c, id, fair.clock);
	else if (!fair_may_overtake(t, c))
		fair_wait_early(id);
	else if (c->parent)
		urgent_add(t, c, id, boost);
	else
		fair_go_first(id, boost);
	return 0;
}

/* Bytes of the packet that class id, or the first member of that group, sends next. */
static __always_inline __u32 fair_first_len(struct weir_class *c, __u32 id)
{
	if (c->group) {
		struct tier *t = tier_at(id);

		if (!t->urgents)
			return FRAME;
		id = t->urgent.head - 1;
		c = class_at(id);
	}
	return class_first_len(c, id);
}

/* May the newcomer, which is boosted, have a part of a busy line? If so, it is counted. */
static __always_inline bool fair_may_boost(struct weir_class *c, __u32 id, __u64 now)
{
	__u64 most = fair.boost == SPARSE ? link_now.batch_ns : 2 * link_now.batch_ns;
	__u64 ns = span(fair_first_len(c, id), link_now.link_cost);

	if (c->boost_batch != fair.batch) {
		c->boost_batch = fair.batch;
		c->boost_ns = 0;
	}
	if (fair.boost == URGENT) {
		if (!before(fair.line.free, now + URGENT_NS))
			return false;
	} else if ((c->boost_ns && c->boost_ns + ns > most) ||
		   fair.boost_ns >= BOOST_BATCHES * link_now.batch_ns) {
		return false;
	}
	if (shards > 1 && !shard_boosts(fair_first_len(c, id)))
		return false;
	c->boost_ns += ns;
	fair.boost_ns += ns;
	return true;
}

/*
 * The line is busy: may one of those that go first have a part of it all the same? It
 * becomes the newcomer. Each has a limit of its own for a batch, so that none uses up
 * what another needs.
 */
__noinline int fair_boost_busy(__u64 now)
{
	keep(now);
	if (!fair.boost_ns && fair.boost)
		fair_note_boost(now);
	for (int i = 0; i < RETRIES && fair.newcomer; i++) {
		__u32 id = fair.newcomer - 1;
		struct weir_class *c = class_at(id);
		enum boost boost = fair.boost;

		if (boost && fair_may_boost(c, id, now))
			return 1;
		if (!fair.link.urgents)
			break;
		fair_advance();
		if (id + 1 == fair.current)
			fair.current = 0;
		urgent_add(&fair.link, c, id, boost);
	}
	return 0;
}

#endif /* WEIR_FAIR_BOOST_H */
