/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The scheduler `fair`: weight, min and max at packet granularity, without a
 * period.
 *
 *     x = min(max, max(min, L * weight))      L such that the x add up to the link
 *
 * Every class has three clocks, and every packet it sends advances all three:
 *
 *   v         virtual time, by length / weight. The class with the smallest v
 *             has had least for its weight: it goes next. That alone is
 *             weighted fair queueing and gives L * weight.
 *   floor_at  real time, by length / min. Once it has passed, the min is owed:
 *             the class goes before all others. What it gets so still advances
 *             v, so it counts against its share: max(min, L * weight), not min
 *             plus a share of the rest.
 *   ceil_at   real time, by length / max. Until it has passed the class is
 *             throttled; the others share what it leaves.
 *
 * Example: 100 Mbit/s, weights 1 and 3, min of the first 40. Its v runs ahead
 * of the other's three times as fast, so by v alone it would get 25; but every
 * 303 us (1,514 bytes at 40 Mbit/s) floor_at says that a packet is owed, and
 * it gets 40, all of them as owed packets, and 60 are left for the second.
 *
 * A clock must not run away: a class that lives on its min has a v far ahead
 * (it would starve for as long as it took, once the min is taken away), and one
 * whose share is above its min a floor_at far ahead. Both are kept within a
 * few packets of the present: what a class got beyond its share is forgotten,
 * as the contract, which knows no past, wants it.
 *
 * Packets leave in batches (core/line.h) of two sizes. A timer costs more than all
 * queue work, and several packets of one class in a row cost the receiver less than
 * as many alone; but a packet of another class waits behind a batch. So a batch is
 * 0.8 ms, and 0.2 ms while boosted classes are frequent (fair_boost.h).
 *
 * A newcomer, a class that had nothing waiting and has not had more than its
 * share, goes first. If it uses less than its share (a ping), or has a short packet of a
 * flow that sends little (a request beside an upload), or one of llq's strict queue, it
 * does not even wait until the line is free. It is charged like the rest.
 *
 * Cost: the same few dozen instructions for one class or four thousand. Known
 * weakness: a class with a weight of 1 beside one of 10,000 waits for its turn
 * as long as the formula says, 10,000 packets; give it a min.
 */
#ifndef WEIR_FAIR_H
#define WEIR_FAIR_H

#include "../core/hold.h"
#include "fair_group.h"

static __always_inline void fair_timer(struct Qdisc *sch, __u64 now, __u64 at, __u64 slack)
{
	/* One that fires earlier will look again; arming costs more. */
	if (before(now, fair.timer_at) && !before(at, fair.timer_at))
		return;
	fair.timer_at = at;
	bpf_qdisc_watchdog_schedule(sch, at, slack);
}

static __always_inline void fair_activate(struct weir_class *c, __u32 id, bool alone)
{
	if (shards > 1)
		shard_enters(id);
	if (alone && !c->rates) {
		/* No past counts, and there is no other class to go before. */
		if (!before(fair.link.v_now, c->v))
			c->v = fair.link.v_now;
		fair.newcomer = id + 1;
		fair.boost = 0;
		return;
	}
	if (c->rates & WEIR_GROUPED) {
		group_activate(id);
		return;
	}
	fair_enter(c, id);
}

/* Class id has got a packet that its discipline sorts: the class's first may be boosted. */
static __always_inline void fair_boost(struct weir_class *c, __u32 id, __u32 len, __u64 now)
{
	enum boost boost = discipline_boost(c, id, len, now);

	if (!boost)
		return;
	if (c->rates & WEIR_GROUPED)
		group_boost(id, boost);
	else
		fair_boost_class(id, boost);
}

static __always_inline class_ref fair_first(void)
{
	class_ref first = fair.newcomer;

	fair_advance();
	return first;
}

/* The class whose turn it is, and which has packets, waits for the next one. */
__noinline int fair_end_turn(__u64 now)
{
	__u32 id = fair.current - 1;

	keep(now);
	fair.current = 0;
	fair_put(&fair.link, class_at(id), id, now);
	return 0;
}

/* Inside a batch time does not matter to a newcomer, which goes first anyway. */
static __always_inline class_ref fair_next_at_once(void)
{
	return fair.newcomer && line_in_batch(&fair.line) ? fair_first() : 0;
}

/* The line is busy: who may have a part of it all the same? */
static __always_inline class_ref fair_wait_line(struct Qdisc *sch, __u64 now)
{
	if (fair.newcomer && fair_boost_busy(now))
		return fair_first();
	if (shards > 1 && fair.newcomer && shard_begins())
		return fair_first();
	fair_timer(sch, now, shards > 1 ? shard_until(&fair.line, now) : fair.line.free, SLACK_NS);
	return 0;
}

static __always_inline class_ref fair_choose(struct Qdisc *sch)
{
	__u64 now;
	class_ref id;

	/* Inside a batch time matters only if there is a min or a max. */
	if (!line_in_batch(&fair.line) || fair.link.floors.count || fair.link.throttled.count)
		fair.clock = bpf_ktime_get_ns();
	now = fair.clock;

	if (before(now, fair.line.free)) {
		if (!line_in_batch(&fair.line))
			return fair_wait_line(sch, now);
	} else {
		bool quick = fair_quick();
		__u64 batch = quick ? link_now.batch_ns : link_now.bulk_batch_ns;

		if (shards > 1) {
			batch = shard_batch(&fair.line, now, batch, sch->q.qlen);
			if (!batch)
				return fair_wait_line(sch, now);
		}
		line_begin(&fair.line, now, batch);
		fair.boost_ns = 0;
		fair.batch++;
		/*
		 * A turn is as long as a batch. If each began in the middle of one, two classes
		 * would send in each, and two receivers be woken.
		 */
		if (!quick && fair.current && !fair.newcomer)
			fair_end_turn(now);
	}
	if (fair.link.throttled.count && !before(now, fair.link.throttled_at)) {
		id = fair_unthrottle(&fair.link, 0, now, !fair.newcomer && !fair.current);
		if (id)
			goto turn;
	}
	if (fair.newcomer)
		return fair_first();
	if (fair.link.floors.count && !before(now, fair.link.floors_at)) {
		id = fair_owed(&fair.link, 0, now);
		if (id) {
			if (fair.current)
				fair_end_turn(now);
			goto turn;
		}
	}
	if (fair.current)
		return fair.current;
	id = fair_next(&fair.link, 0, now);
	if (!id) {
		fair.line.busy = 0; /* an idle line is no late one */
		if (fair.link.throttled.count || hold_some()) {
			__u64 at;

			now = fair.clock = bpf_ktime_get_ns();
			at = now + LOOK_NS;

			if (fair.link.throttled.count && before(fair.link.throttled_at, at))
				at = fair.link.throttled_at;
			fair_timer(sch, now, hold_before(at), 0);
		}
		return 0;
	}
turn:
	fair.current = id;
	fair.turn = fair.early ? 0 : fair_turn(&fair.link);
	return id;
}

static __always_inline void fair_charge(struct weir_class *c, __u32 id, __u32 len, __u32 left)
{
	line_give(&fair.line, len);
	if (shards > 1)
		shard_sends(len, left);
	c->v += len * c->share_cost;
	if (c->rates) {
		fair_charge_rates(c, len);
		if (c->rates & WEIR_GROUPED) {
			group_charge(id, len, left);
			return;
		}
	}
	if (!left) {
		fair.current = 0;
		fair_rest(c);
		return;
	}
	if (id + 1 == fair.current) {
		fair.turn -= len;
		if (c->qlen && fair.turn > 0 && !fair_at_max(c, fair.clock)) {
			enum boost boost =
				unlikely(c->new_head) ? boost_of(id, fair.clock) : NO_BOOST;

			if (boost)
				fair_boost_class(id, boost);
			return;
		}
		fair.current = 0;
	}
	if (c->qlen) {
		enum boost boost = discipline_boost(c, id, len, fair.clock);

		if (boost)
			fair_go_on(id, boost);
		else
			fair_put(&fair.link, c, id, fair.clock);
	}
}

/*
 * A class's policy changes: it is taken out of the wheels before (fair_lift)
 * and put back after (fair_settle) the new costs are copied, since which
 * wheels it is in depends on them. Its clocks forget what the old rates made
 * of the future.
 */
static __always_inline void fair_lift(struct weir_class *c, __u32 id)
{
	fair_take(tier_of(c), c, id);
}

static __always_inline __u64 within(__u64 at, __u64 least, __u64 most)
{
	if (before(at, least))
		return least;
	return before(most, at) ? most : at;
}

#define LARGEST 65536 /* bytes of a packet */

static __always_inline void fair_settle(struct weir_class *c, __u32 id)
{
	struct tier *t = tier_of(c);
	__u64 now = bpf_ktime_get_ns();
	__u64 most;

	/* Neither a debt from the old rates nor a credit from when there were none. */
	c->floor_at = within(c->floor_at, now, now + span(link_now.quantum, c->floor_cost));
	most = fst_paced(c) ? LARGEST : link_now.quantum;
	c->ceil_at = within(c->ceil_at, now - c->ceil_burst, now + span(most, c->ceil_cost));
	/* A min that is gone leaves no debt. */
	most = t->v_now + link_now.bulk_quantum * c->share_cost;
	if (before(most, c->v))
		c->v = most;
	if (c->group)
		group_settle(id, now);
	else if (c->qlen && id + 1 != fair.current && id + 1 != fair.newcomer)
		fair_put(t, c, id, now);
	if (c->parent)
		group_settle(c->parent, now);
}

static __always_inline void fair_move(struct weir_class *c, __u32 id, __u32 parent)
{
	group_move(c, id, parent, bpf_ktime_get_ns());
}

/* Group id has been chosen; which of its members sends? */
static __always_inline class_ref fair_member(struct Qdisc *sch, __u32 id)
{
	class_ref member = group_choose(id);

	if (!member)
		bpf_qdisc_watchdog_schedule(sch, fair.clock + LATE_NS / 10, 0);
	return member;
}

/* The classes have been taken out of the wheels. */
static __always_inline void fair_reset(void)
{
	__builtin_memset(&fair, 0, offsetof(typeof(fair), link));
}

#endif /* WEIR_FAIR_H */
