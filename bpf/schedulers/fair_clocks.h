/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The clocks of the scheduler `fair`: how they begin when a class becomes active, and
 * how a packet that is sent advances them. fair.h explains what they are for.
 *
 * Classes and groups have the same clocks (fair_group.h).
 */
#ifndef WEIR_FAIR_CLOCKS_H
#define WEIR_FAIR_CLOCKS_H

#include "fair_boost.h"

#define TURN_TICKS 16 /* 1 ms: a class in its turn pauses for less */
#define ROUND_TICKS 1526 /* 100 ms: longest round that is made good */

/*
 * Clocks with a rate do not stay behind while nothing is sent, but that of a min for one turn,
 * for the reason that fair_clamp_lag has.
 */
static __always_inline void fair_catch_up(struct tier *t, struct weir_class *c, __u64 now)
{
	__u64 least = now - span(fair_turn(t), c->floor_cost);

	c->sent_tick = now >> TICK_SHIFT; /* it wanted nothing until now */
	if (before(c->floor_at, least))
		c->floor_at = least;
	if (before(c->ceil_at + c->ceil_burst, now))
		c->ceil_at = now - c->ceil_burst;
}

/* Class id, without a group, was idle and is not any more. */
static __always_inline void fair_enter(struct weir_class *c, __u32 id)
{
	bool entitled = !before(fair.link.v_now, c->v);
	bool quiet = fair_clamp_lag(&fair.link, c);
	enum boost boost = quiet ? QUIET : NO_BOOST;
	__u64 now = 0;

	if (c->rates) {
		now = fair.clock = bpf_ktime_get_ns();
		fair_catch_up(&fair.link, c, now);
		if (fair_at_max(c, now)) {
			fair_throttle(&fair.link, c, id, now);
			return;
		}
	}
	if (entitled && !quiet && !c->group && c->backlog < SHORT)
		boost = SPARSE;
	if (entitled && (boost || !fair.newcomer)) {
		fair_go_first(id, boost);
		return;
	}
	fair_wait(&fair.link, c, id, now);
}

/*
 * For how long class c, which has a min or a max and sends now, could not send because it was not
 * its turn. A pause that is longer than a turn is of a new round.
 */
static __always_inline __u64 fair_round(struct weir_class *c, __u64 now)
{
	__u32 tick = now >> TICK_SHIFT, pause = tick - c->sent_tick;

	c->sent_tick = tick;
	if (unlikely(pause >= TURN_TICKS)) {
		c->round -= c->round / 8;
		if (pause > c->round)
			c->round = pause < ROUND_TICKS ? pause : ROUND_TICKS;
	}
	return (__u64)c->round << TICK_SHIFT;
}

/*
 * Advances the clocks of a class with a min or a max. One whose turn comes seldom, as a member's
 * whose group has little, makes good then what it missed since its turn before.
 */
static __always_inline void fair_charge_rates(struct weir_class *c, __u32 len)
{
	__u64 now = fair.clock = bpf_ktime_get_ns();
	__u64 round = LATE_NS + fair_round(c, now);

	if (c->floor_cost) {
		__u64 most = now + span(link_now.bulk_quantum + len, c->floor_cost);

		if (unlikely(before(c->floor_at + round, now))) {
			__u64 least = now - round - span(link_now.bulk_quantum, c->floor_cost);

			if (before(c->floor_at, least))
				c->floor_at = least;
		}
		c->floor_at += span_exact(len, c->floor_cost, &c->floor_part);
		if (before(most, c->floor_at))
			c->floor_at = most;
	}
	if (c->ceil_cost) {
		__u64 packet = span_exact(len, c->ceil_cost, &c->ceil_part);
		__u64 late = round + 2 * packet + c->ceil_burst;

		if (before(c->ceil_at + late, now))
			c->ceil_at = now - late;
		c->ceil_at += packet;
	}
}

/* The end of a busy period: the past has no claim on the future. */
static __always_inline void fair_rest(struct weir_class *c)
{
	fair.line.busy = 0;
	if (before(fair.link.v_now, c->v))
		fair.link.v_now = c->v;
}

#endif /* WEIR_FAIR_CLOCKS_H */
