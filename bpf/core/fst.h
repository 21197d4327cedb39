/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Future service times: a class with an `interval` sends its packets by a schedule,
 * not as soon as it is its turn. After Jung et al., "CPS", JCN 11(6), 2009, section
 * V-B, generalised from one interval per packet to packets of any length:
 *
 *     FST = max(now, last FST) + length * interval
 *
 * and the next packet may leave once that has passed. `now` is when the class got a
 * packet after it had none; while it has some, one schedule follows from the other,
 * so a packet that leaves late makes none behind it late. (The paper holds the
 * first packet for an interval as well, which moves all of them by one interval and
 * changes no distance between two.)
 *
 * Example: 10 Mbit/s of goodput in segments of 1,448 bytes are frames of 1,514 at
 * 765 ns per byte: one each 1.158 ms.
 *
 * A burst is what the clock of a max may be behind: a class that sends less than its max saves
 * up time, ceil_burst at most, and then sends above its max, by its share, until the clock
 * has come up with the present. The others' mins are owed before that (schedulers/fair.h).
 *
 * Example: max 10 Mbit/s, burst 20 MB: 16 s. After those the class sends 20 MB and what the
 * max gives meanwhile as fast as its share permits: in 1.8 s on a free link of 100 Mbit/s.
 *
 * An interval is what a max is, but for the burst: a class may be AHEAD_NS ahead of
 * its max, and not ahead of its schedule at all. So it is kept in the same clock,
 * ceil_at, with the larger of both costs, and a class without an interval meets
 * nothing of it. The schedulers keep the classes that may not send yet and ask
 * fst_early: `fair` in the wheel of throttled classes (schedulers/fair_tier.h), the others in
 * the set of paced ones (schedulers/credit.h).
 */
#ifndef WEIR_FST_H
#define WEIR_FST_H

#include "line.h"

#define AHEAD_NS 1000000ULL /* how far a class may be ahead of its max */

static __always_inline bool fst_paced(struct weir_class *c)
{
	return c->rates & WEIR_PACED;
}

/* May class c, which has a max or an interval, not send yet? */
static __always_inline bool fst_early(struct weir_class *c, __u64 now)
{
	return before(now + c->ceil_ahead, c->ceil_at);
}

/* What the agent wants class c to be held to: the slower of its max and its interval. */
static __always_inline void fst_apply(struct weir_class *c, struct weir_class_config *cfg)
{
	bool paced = cfg->interval && cfg->interval >= cfg->ceil_cost;

	c->ceil_cost = paced ? cfg->interval : cfg->ceil_cost;
	c->ceil_ahead = paced ? 0 : AHEAD_NS;
	c->ceil_burst = paced ? 0 : cfg->ceil_burst;
}

#endif /* WEIR_FST_H */
