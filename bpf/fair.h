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
 *             parked; the others share what it leaves.
 *
 * Example: 100 Mbit/s, weights 1 and 3, min of the first 40. Its v runs ahead
 * of the other's three times as fast, so by v alone it would get 25; but every
 * 303 us (1,514 bytes at 40 Mbit/s) floor_at says that a packet is owed, and
 * it gets 40, all of them as owed packets, and 60 are left for the second.
 *
 * A clock must not run away: a class that lives on its min has a v far ahead
 * (it would starve for as long as it took, once the min is taken away), and one
 * whose share is above its min a floor_at far ahead. Both are held within a
 * few packets of the present: what somebody got beyond his due is forgotten,
 * as the contract, which knows no past, wants it.
 *
 * The line. `line_free` is when a line of the link's capacity would have sent
 * all that we gave it. Packets leave in batches: once the line is free, until
 * it is busy for a while; then one timer. A timer costs more than all queue
 * work, and several packets of one class in a row cost the receiver less than
 * as many alone; but a batch is what somebody else's packet waits behind. So
 * there are two sizes: 0.8 ms while only classes are active that take all they
 * can get, 0.2 ms for a second after a quiet class, one that uses less than its
 * share, was seen. No credit is handed out in advance, so the total is the
 * capacity, exactly.
 *
 * A newcomer, a class that had nothing waiting and has not had more than its
 * share, goes first; if it is a quiet one even at once, while the line is still
 * busy with a batch (0.2 ms of the line a batch, no more): a ping does not wait for a
 * timer. It is charged like the rest. So is a packet of llq's strict queue, which
 * goes at once although its class has others waiting, unless the line is busy for
 * more than 5 ms (fair_urge).
 *
 * Cost: the same few dozen instructions for one class or four thousand. Known
 * weakness: a class with a weight of 1 beside one of 10,000 waits for its turn
 * as long as the formula says, 10,000 packets; give it a min.
 */
#ifndef WEIR_FAIR_H
#define WEIR_FAIR_H

#include "fair_places.h"
#include "hold.h"

static __always_inline void fair_timer(struct Qdisc *sch, __u64 now, __u64 at, __u64 slack)
{
	/* One that fires earlier will look again; arming costs more. */
	if (before(now, fair.timer_at) && !before(at, fair.timer_at))
		return;
	fair.timer_at = at;
	bpf_qdisc_watchdog_schedule(sch, at, slack);
}

/* Clocks with a rate do not stay behind while nothing is sent. */
static __always_inline void fair_catch_up(struct weir_class *c, __u64 now)
{
	if (before(c->floor_at, now))
		c->floor_at = now;
	if (before(c->ceil_at, now))
		c->ceil_at = now;
}

static __always_inline bool fair_at_max(struct weir_class *c, __u64 now)
{
	return c->ceil_cost && fst_early(c, now);
}

/* Class id, without a group, was idle and is not any more. */
static __always_inline void fair_enter(struct weir_class *c, __u32 id)
{
	bool entitled = !before(fair.link.v_now, c->v);
	bool quiet = fair_forgive(&fair.link, c);
	__u64 now = 0;

	fair.quiet_seen |= quiet;
	if (c->rates) {
		now = fair.clock = bpf_ktime_get_ns();
		fair_catch_up(c, now);
		if (fair_at_max(c, now)) {
			fair_park(&fair.link, c, id, now);
			return;
		}
	}
	if (entitled && !fair.newcomer) {
		fair.newcomer = id + 1;
		fair.hurry = quiet;
		return;
	}
	fair_wait(&fair.link, c, id, now);
}

/* Advances the clocks of a class with a min or a max. */
static __always_inline void fair_charge_rates(struct weir_class *c, __u32 len)
{
	__u64 now = fair.clock = bpf_ktime_get_ns();

	if (c->floor_cost) {
		__u64 most = now + span(link_now.bulk_quantum + len, c->floor_cost);

		if (before(c->floor_at + LATE_NS, now))
			c->floor_at = now - LATE_NS;
		c->floor_at += span(len, c->floor_cost);
		if (before(most, c->floor_at))
			c->floor_at = most;
	}
	if (c->ceil_cost) {
		__u64 packet = span(len, c->ceil_cost);

		/* Its turn may come seldom; a few packets are made good then. */
		if (before(c->ceil_at + LATE_NS + 2 * packet, now))
			c->ceil_at = now - LATE_NS - 2 * packet;
		c->ceil_at += packet;
	}
}

/* The line has been given `len` bytes. */
static __always_inline void fair_line(__u32 len)
{
	fair.line_part += len * link_now.link_cost;
	fair.line_free += fair.line_part >> WEIR_NS_SHIFT;
	fair.line_part &= (1 << WEIR_NS_SHIFT) - 1;
}

/* The end of a busy period: what was has no claim on what comes. */
static __always_inline void fair_rest(struct weir_class *c)
{
	fair.busy = 0;
	if (before(fair.link.v_now, c->v))
		fair.link.v_now = c->v;
}

#include "group.h"

/* Class id, which was idle, has got its first packet. */
static __always_inline void fair_activate(struct weir_class *c, __u32 id, struct Qdisc *sch)
{
	if (sch->q.qlen == 1 && !c->rates) {
		/* Alone: no past counts, and there is nobody to go before. */
		if (!before(fair.link.v_now, c->v))
			c->v = fair.link.v_now;
		fair.newcomer = id + 1;
		fair.hurry = 0;
		return;
	}
	if (c->rates & WEIR_GROUPED) {
		group_activate(id);
		return;
	}
	fair_enter(c, id);
}

/*
 * Class id, which has others waiting, has got a packet that is in a hurry and
 * within its own rate (llq's strict queue): the class goes at once, charged like
 * any other, unless it is at its max or has had far more than its share, or another
 * newcomer is before it.
 */
static __always_inline void fair_urge(struct weir_class *c, __u32 id, __u64 now)
{
	if (c->rates & WEIR_GROUPED) {
		id = group_urge(id);
		if (!id)
			return;
		c = class_at(id);
	}
	if (fair.newcomer == id + 1) {
		fair.hurry = URGENT;
		return;
	}
	if (fair.newcomer)
		return;
	if (fair.current == id + 1) { /* it goes on as one, its turn is over */
		fair.current = 0;
	} else {
		if (c->where != WEIR_WAITING ||
		    before(fair.link.v_now + 4 * link_now.bulk_quantum * c->share_cost, c->v))
			return;
		fair_leave(&fair.link, c, id);
	}
	fair.newcomer = id + 1;
	fair.hurry = URGENT;
}

/* May the newcomer, who is in a hurry, have a piece of the line that is busy? */
static __always_inline bool fair_rush(__u64 now)
{
	if (fair.hurry == URGENT)
		return before(fair.line_free, now + URGENT_NS);
	return fair.rushed < link_now.batch_ns;
}

static __always_inline __u32 fair_first(void)
{
	__u32 id = fair.newcomer;

	fair.newcomer = 0;
	return id;
}

/*
 * Which class sends now: its number plus one, or 0 with a timer armed if
 * anything waits.
 */
static __always_inline __u32 fair_choose(struct Qdisc *sch)
{
	__u64 now;
	__u32 id;

	/* Inside a batch time does not matter to a newcomer, who goes first anyway. */
	if (fair.newcomer && before(fair.line_free, fair.batch_end))
		return fair_first();
	take_changes();
	/* Nor to others, if there is no min and no max about. */
	if (!before(fair.line_free, fair.batch_end) || fair.link.floors.count ||
	    fair.link.parked.count || fair.quiet_seen)
		fair.clock = bpf_ktime_get_ns();
	now = fair.clock;

	if (fair.quiet_seen) {
		fair.quiet_seen = 0;
		fair.quiet_until = now + QUIET_NS;
	}
	if (before(now, fair.line_free)) {
		if (!before(fair.line_free, fair.batch_end)) {
			if (fair.hurry && fair.newcomer && fair_rush(now)) {
				fair.rushed += span(class_first_len(class_at(fair.newcomer - 1),
								    fair.newcomer - 1),
						    link_now.link_cost);
				return fair_first();
			}
			fair_timer(sch, now, fair.line_free, SLACK_NS);
			return 0;
		}
	} else {
		if (!fair.busy || before(fair.line_free + LATE_NS, now))
			fair.line_free = fair.busy ? now - LATE_NS : now;
		fair.busy = 1;
		fair.rushed = 0;
		fair.batch_end = now + (fair_quick() ? link_now.batch_ns : link_now.bulk_batch_ns);
	}
	if (fair.link.parked.count && !before(now, fair.link.parked_at))
		fair_unpark(&fair.link, 0, now);
	if (fair.newcomer)
		return fair_first();
	if (fair.link.floors.count && !before(now, fair.link.floors_at)) {
		id = fair_owed(&fair.link, 0, now);
		if (id) {
			if (fair.current)
				fair_put(&fair.link, class_at(fair.current - 1), fair.current - 1,
					 now);
			goto turn;
		}
	}
	if (fair.current)
		return fair.current;
	id = fair_next(&fair.link, 0, now);
	if (!id) {
		fair.busy = 0; /* an idle line is no late one */
		if (fair.link.parked.count || held.wheel.count) {
			__u64 at;

			now = fair.clock = bpf_ktime_get_ns();
			at = now + LOOK_NS;

			if (fair.link.parked.count && before(fair.link.parked_at, at))
				at = fair.link.parked_at;
			if (held.wheel.count && before(held.at, at))
				at = held.at;
			fair_timer(sch, now, at, 0);
		}
		return 0;
	}
turn:
	fair.current = id;
	fair.turn = fair_turn(&fair.link);
	return id;
}

/* Class id has sent `len` bytes, which its queue no longer holds. */
static __always_inline void fair_charge(struct weir_class *c, __u32 id, __u32 len,
					struct Qdisc *sch)
{
	fair_line(len);
	c->v += len * c->share_cost;
	if (c->rates) {
		fair_charge_rates(c, len);
		if (c->rates & WEIR_GROUPED) {
			group_charge(id, len, sch->q.qlen);
			return;
		}
	}
	if (id + 1 == fair.current) {
		fair.turn -= len;
		if (c->qlen && fair.turn > 0 && !fair_at_max(c, fair.clock))
			return;
		fair.current = 0;
	}
	if (c->qlen) {
		fair_put(&fair.link, c, id, fair.clock);
	} else if (!sch->q.qlen) {
		fair_rest(c);
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
	struct tier *t = tier_of(c);

	if (c->where == WEIR_WAITING)
		fair_leave(t, c, id);
	else if (c->where == WEIR_PARKED)
		wheel_del(&t->parked, 0, id);
	c->where = WEIR_OUT;
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
	c->ceil_at = within(c->ceil_at, now, now + span(most, c->ceil_cost));
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

/* The classes have been taken out of the wheels. */
static __always_inline void fair_reset(void)
{
	__builtin_memset(&fair, 0, offsetof(typeof(fair), link));
}

#endif /* WEIR_FAIR_H */
