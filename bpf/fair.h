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
 * timer. It is charged like the rest.
 *
 * Cost: the same few dozen instructions for one class or four thousand. Known
 * weakness: a class with a weight of 1 beside one of 10,000 waits for its turn
 * as long as the formula says, 10,000 packets; give it a min.
 */
#ifndef WEIR_FAIR_H
#define WEIR_FAIR_H

#include "fair_places.h"

static __always_inline void fair_timer(struct Qdisc *sch, __u64 now, __u64 at)
{
	/* One that fires earlier will look again; arming costs more. */
	if (before(now, fair.timer_at) && !before(at, fair.timer_at))
		return;
	fair.timer_at = at;
	bpf_qdisc_watchdog_schedule(sch, at, SLACK_NS);
}

/* Class id, which was idle, has got its first packet. */
static __always_inline void fair_activate(struct weir_class *c, __u32 id, struct Qdisc *sch)
{
	bool entitled = !before(fair.v_now, c->v);
	__u64 now = 0;
	bool quiet;

	if (sch->q.qlen == 1 && !c->rates) {
		/* Alone: no past counts, and there is nobody to go before. */
		if (entitled)
			c->v = fair.v_now;
		fair.newcomer = id + 1;
		fair.hurry = 0;
		return;
	}
	quiet = fair_forgive(c);
	fair.quiet_seen |= quiet;
	if (c->rates) {
		now = fair.clock = bpf_ktime_get_ns();
		if (before(c->floor_at, now))
			c->floor_at = now;
		if (before(c->ceil_at, now))
			c->ceil_at = now;
		else if (c->ceil_cost && before(now + AHEAD_NS, c->ceil_at)) {
			fair_park(c, id, now);
			return;
		}
	}
	if (entitled && !fair.newcomer) {
		fair.newcomer = id + 1;
		fair.hurry = quiet;
		return;
	}
	fair_wait(c, id, now);
}

/*
 * Class id, which has others waiting, has got a packet that is in a hurry and
 * within its own rate (llq's strict queue): it goes at once, charged like any
 * other, unless the class has had far more than its share or its max permits.
 */
static __always_inline void fair_urge(struct weir_class *c, __u32 id, __u64 now)
{
	if (fair.newcomer == id + 1) {
		fair.hurry = URGENT;
		return;
	}
	if (fair.newcomer || fair.current == id + 1 || c->where != WEIR_WAITING ||
	    before(fair.v_now + 4 * link_now.bulk_quantum * c->share_cost, c->v))
		return;
	fair_leave(c, id);
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
	if (!before(fair.line_free, fair.batch_end) || floors.count || parked.count ||
	    fair.quiet_seen)
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
			fair_timer(sch, now, fair.line_free);
			return 0;
		}
	} else {
		if (!fair.busy || before(fair.line_free + LATE_NS, now))
			fair.line_free = fair.busy ? now - LATE_NS : now;
		fair.busy = 1;
		fair.rushed = 0;
		fair.batch_end = now + (fair_quick() ? link_now.batch_ns : link_now.bulk_batch_ns);
	}
	if (parked.count && !before(now, fair.parked_at))
		fair_unpark(now);
	if (fair.newcomer)
		return fair_first();
	if (floors.count && !before(now, fair.floors_at)) {
		id = fair_owed(now);
		if (id) {
			if (fair.current)
				fair_put(class_at(fair.current - 1), fair.current - 1, now);
			goto turn;
		}
	}
	if (fair.current)
		return fair.current;
	id = fair_next(now);
	if (!id) {
		fair.busy = 0; /* an idle line is no late one */
		if (parked.count) {
			__u64 at = tick_end(&parked);

			if (before(now + LOOK_NS, at))
				at = now + LOOK_NS;
			fair_timer(sch, now, at);
		}
		return 0;
	}
turn:
	fair.current = id;
	fair.turn = fair_turn();
	return id;
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
		if (before(c->ceil_at + LATE_NS, now))
			c->ceil_at = now - LATE_NS;
		c->ceil_at += span(len, c->ceil_cost);
	}
}

/* Class id has sent `len` bytes, which its queue no longer holds. */
static __always_inline void fair_charge(struct weir_class *c, __u32 id, __u32 len,
					struct Qdisc *sch)
{
	fair.line_part += len * link_now.link_cost;
	fair.line_free += fair.line_part >> WEIR_NS_SHIFT;
	fair.line_part &= (1 << WEIR_NS_SHIFT) - 1;
	c->v += len * c->share_cost;
	if (c->rates)
		fair_charge_rates(c, len);
	if (id + 1 == fair.current) {
		fair.turn -= len;
		if (c->qlen && fair.turn > 0 &&
		    !(c->ceil_cost && before(fair.clock + AHEAD_NS, c->ceil_at)))
			return;
		fair.current = 0;
	}
	if (c->qlen) {
		fair_put(c, id, fair.clock);
	} else if (!sch->q.qlen) {
		/* The end of a busy period: what was has no claim on what comes. */
		fair.busy = 0;
		if (before(fair.v_now, c->v))
			fair.v_now = c->v;
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
	if (c->where == WEIR_WAITING)
		fair_leave(c, id);
	else if (c->where == WEIR_PARKED)
		wheel_del(&parked, 0, id);
}

static __always_inline __u64 within(__u64 at, __u64 least, __u64 most)
{
	if (before(at, least))
		return least;
	return before(most, at) ? most : at;
}

static __always_inline void fair_settle(struct weir_class *c, __u32 id)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 most;

	/* Neither a debt from the old rates nor a credit from when there were none. */
	c->floor_at = within(c->floor_at, now, now + span(link_now.quantum, c->floor_cost));
	c->ceil_at = within(c->ceil_at, now, now + span(link_now.quantum, c->ceil_cost));
	/* A min that is gone leaves no debt. */
	most = fair.v_now + link_now.bulk_quantum * c->share_cost;
	if (before(most, c->v))
		c->v = most;
	if (c->qlen && id + 1 != fair.current && id + 1 != fair.newcomer)
		fair_put(c, id, now);
}

static __always_inline void fair_reset(void)
{
	share.cursor = share.count = share.used.top = 0;
	floors.cursor = floors.count = floors.used.top = 0;
	parked.cursor = parked.count = parked.used.top = 0;
	__builtin_memset(&fair, 0, sizeof(fair));
}

static __always_inline void fair_reset_bucket(__u32 i)
{
	struct bucket none = {};

	*bucket_at(&share, i) = none;
	*bucket_at(&floors, i) = none;
	*bucket_at(&parked, i) = none;
	if (i < 64) {
		share.used.word[bounded(i, 64)] = 0;
		floors.used.word[bounded(i, 64)] = 0;
		parked.used.word[bounded(i, 64)] = 0;
	}
}

#endif /* WEIR_FAIR_H */
