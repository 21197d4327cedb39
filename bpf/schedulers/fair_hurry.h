/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Classes in a hurry: those of the scheduler `fair` that go before others, and before the
 * line is free. Three sorts of packets make a class be in a hurry (enum hurry):
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
 * The line is busy with a batch most of the time. A class in a hurry may have a part of it
 * all the same: a packet or batch_ns a batch (a quiet one twice that, an urgent one more),
 * and all of them together RUSH_BATCHES times that. What they get so makes the next batch later.
 *
 * Behind a line that is hardly faster than the link this does not help: the packet waits
 * there for the batch that went before. So batches are short while classes in a hurry are
 * frequent: HURRY_NS is added to `hurried` in each batch that one of them came upon.
 *
 * Example: a ping every 21 ms: from the sixth one on batches are short, since 60 ms are
 * added every 21. A question to a name server every second, or four packets in a row, add
 * less than 240 ms: batches stay long, and so few instructions.
 */
#ifndef WEIR_FAIR_HURRY_H
#define WEIR_FAIR_HURRY_H

#include "fair_lease.h"

#define URGENT_NS 5000000ULL /* longest time that the line is busy with urgent packets */
#define RUSH_BATCHES 4 /* batch_ns of a busy line that all in a hurry may have, a batch */

/*
 * May class c go before others in advance of its share? No further than fair_bound forgets
 * nothing, or a class that always is in a hurry would gain by it.
 */
static __always_inline bool fair_may_overtake(struct tier *t, struct weir_class *c)
{
	return !before(t->v_now + fair_advantage(c), c->v);
}

/* Class id, which is in a hurry and in no wheel, waits until it may overtake. */
__noinline int fair_wait_early(__u32 id)
{
	struct weir_class *c = class_at(id);

	c->v -= fair_advantage(c);
	fair_wait(tier_of(c), c, id, fair.clock);
	c->where = WEIR_EARLY;
	return 0;
}

/* A class in a hurry has come upon a busy line. */
static __always_inline void fair_note_hurry(__u64 now)
{
	if (before(fair.hurried, now))
		fair.hurried = now;
	if (before(fair.hurried, now + HURRIES * HURRY_NS))
		fair.hurried += HURRY_NS;
}

/* The first in the link's list, which is not empty, is the newcomer. */
__noinline int fair_next_urgent(void)
{
	__u32 id = fair.link.urgent.head - 1;
	struct weir_class *c = class_at(id);

	urgent_del(&fair.link, c, id);
	fair.newcomer = id + 1;
	fair.hurry = c->node[0].bucket;
	return 0;
}

/* The newcomer has its turn, or is none any more: the next in a hurry, if any, follows. */
static __always_inline void fair_advance(void)
{
	fair.newcomer = 0;
	if (unlikely(fair.link.urgents))
		fair_next_urgent();
}

/* There is a newcomer: the one in the larger hurry is it, the other one is behind. */
__noinline int fair_go_behind(__u32 id, enum hurry hurry)
{
	class_ref other = fair.newcomer;
	enum hurry others = fair.hurry;

	keep(hurry);
	if (others < hurry) {
		fair.newcomer = id + 1;
		fair.hurry = hurry;
		if (other == fair.current) /* its turn is over */
			fair.current = 0;
		id = other - 1;
		hurry = others;
	}
	urgent_add(&fair.link, class_at(id), id, hurry);
	return 0;
}

/*
 * Class id, which is in no wheel, goes before others: as the newcomer, or after it and
 * those behind it.
 */
static __always_inline void fair_go_first(__u32 id, enum hurry hurry)
{
	if (fair.newcomer) {
		fair_go_behind(id, hurry);
		return;
	}
	fair.newcomer = id + 1;
	fair.hurry = hurry;
}

/*
 * Takes class id, which is in a hurry, out of its wheel if it may overtake. If not, it waits
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
 * Class id, or a member of that group, has got a packet that is in a hurry, and may have
 * others waiting: it goes first, charged like any other, unless it is at its max or has
 * had far more than its share.
 */
__noinline int fair_hurry(__u32 id, enum hurry hurry)
{
	struct weir_class *c = class_at(id);

	keep(hurry);
	if (fair.newcomer == id + 1) {
		if (fair.hurry < hurry)
			fair.hurry = hurry;
	} else if (fair.current == id + 1) {
		if (fair.newcomer || hurry == URGENT) /* it goes on as one, its turn is over */
			fair.current = 0;
		fair_go_first(id, hurry);
	} else if (fair_recall(&fair.link, c, id)) {
		fair_go_first(id, hurry);
	}
	return 0;
}

/* Class id, or a member of that group, has sent a packet, and its next one is in a hurry. */
__noinline int fair_go_on(__u32 id, enum hurry hurry)
{
	struct weir_class *c = class_at(id);
	struct tier *t = tier_of(c);

	keep(hurry);
	fair_bound(t, c, id);
	if (fair_at_max(c, fair.clock))
		fair_throttle(t, c, id, fair.clock);
	else if (!fair_may_overtake(t, c))
		fair_wait_early(id);
	else if (c->parent)
		urgent_add(t, c, id, hurry);
	else
		fair_go_first(id, hurry);
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

/* May the newcomer, which is in a hurry, have a part of a busy line? If so, it is counted. */
static __always_inline bool fair_may_rush(struct weir_class *c, __u32 id, __u64 now)
{
	__u64 most = fair.hurry == SPARSE ? link_now.batch_ns : 2 * link_now.batch_ns;
	__u64 ns = span(fair_first_len(c, id), link_now.link_cost);

	if (c->rushed_in != fair.batch) {
		c->rushed_in = fair.batch;
		c->rushed = 0;
	}
	if (fair.hurry == URGENT) {
		if (!before(fair.line.free, now + URGENT_NS))
			return false;
	} else if ((c->rushed && c->rushed + ns > most) ||
		   fair.rushed >= RUSH_BATCHES * link_now.batch_ns) {
		return false;
	}
	if (shards > 1 && !shard_hurries(fair_first_len(c, id)))
		return false;
	c->rushed += ns;
	fair.rushed += ns;
	return true;
}

/*
 * The line is busy: may one of those that go first have a part of it all the same? It
 * becomes the newcomer. Each has a limit of its own for a batch, so that none uses up
 * what another needs.
 */
__noinline int fair_rush(__u64 now)
{
	keep(now);
	if (!fair.rushed && fair.hurry)
		fair_note_hurry(now);
	for (int i = 0; i < RETRIES && fair.newcomer; i++) {
		__u32 id = fair.newcomer - 1;
		struct weir_class *c = class_at(id);
		enum hurry hurry = fair.hurry;

		if (hurry && fair_may_rush(c, id, now))
			return 1;
		if (!fair.link.urgents)
			break;
		fair_advance();
		if (id + 1 == fair.current)
			fair.current = 0;
		urgent_add(&fair.link, c, id, hurry);
	}
	return 0;
}

#endif /* WEIR_FAIR_HURRY_H */
