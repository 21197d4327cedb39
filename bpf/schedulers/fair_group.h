/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Groups: link > group > class. A group is a class of its own that has a weight, a
 * min and a max, takes part in the link's wheels and is charged for all that
 * its members send; its members share what it gets by the same rules, in
 * wheels of their own (struct tier). So the contract holds at both levels.
 *
 * Example: on 100 Mbit/s a group of weight 1 with two members of weights 1 and 3
 * beside a class of weight 1: the group has 50, its members 12.5 and 37.5.
 *
 * A group is among the link's classes while one of its members may send. If all
 * that have packets are at their max, it is throttled until the first of them
 * is due.
 *
 * The functions that a packet of a group passes are not inlined, so that a class
 * without a group pays nothing for them.
 */
#ifndef WEIR_FAIR_GROUP_H
#define WEIR_FAIR_GROUP_H

#include "fair_clocks.h"

/* Group id has members with packets and is in no wheel, nor is it its turn. */
static __always_inline void group_put(struct weir_class *g, __u32 id, struct tier *members,
				      __u64 now)
{
	enum boost boost = urgent_first(members);

	if (boost)
		fair_go_on(id, boost);
	else if (tier_ready(members))
		fair_put(&fair.link, g, id, now);
	else
		fair_throttle(&fair.link, g, id, now);
}

/* Class id, which is in a group and was idle, has got its first packet. */
__noinline int group_activate(__u32 id)
{
	struct weir_class *c = class_at(id);
	__u32 parent = c->parent;
	struct weir_class *g = class_at(parent);
	struct tier *t = tier_of(c);
	__u64 now = fair.clock = bpf_ktime_get_ns();
	bool quiet = fair_clamp_lag(t, c);
	bool alone = !tier_ready(t);

	fair_catch_up(t, c, now);
	if (fair_at_max(c, now))
		fair_throttle(t, c, id, now);
	else if (quiet)
		urgent_add(t, c, id, QUIET);
	else
		fair_wait(t, c, id, now);
	if (!g->qlen++) {
		if (tier_ready(t))
			fair_enter(g, parent);
		else
			fair_throttle(&fair.link, g, parent, now);
		return 0;
	}
	if (!tier_ready(t))
		return 0;
	if (g->where == WEIR_THROTTLED) {
		/*
		 * For want of members that may send: begins anew. One that is at its own
		 * max stays, and makes good later what it is late by then.
		 */
		if (!alone)
			return 0;
		wheel_del(&fair.link.throttled, 0, g);
		g->where = WEIR_OUT;
		fair_enter(g, parent);
	} else if (quiet) {
		fair_boost_class(parent, QUIET);
	}
	return 0;
}

/*
 * Class id, which is in a group, has got a boosted packet: it goes before the
 * other members, and its group before other classes, if they are not far ahead of
 * their shares.
 */
__noinline int group_boost(__u32 id, enum boost boost)
{
	struct weir_class *c = class_at(id);
	struct tier *t = tier_of(c);

	if (fair_recall(t, c, id))
		urgent_add(t, c, id, boost);
	else if (c->where != WEIR_URGENT)
		return 0;
	fair_boost_class(c->parent, boost);
	return 0;
}

/*
 * Which member of group id sends. 0 if none may, which is seldom (the members have
 * just changed); then the group is where it belongs.
 */
__noinline class_ref group_choose(__u32 id)
{
	struct weir_class *g = class_at(id);
	struct tier *t = bpf_map_lookup_elem(&group_tiers, &id);
	__u64 now = fair.clock = bpf_ktime_get_ns();
	class_ref member = 0;

	if (!t)
		return 0;
	/*
	 * A member whose min is owed may have few packets, the next of which come when these
	 * have left: so the group has more turns, and shorter ones.
	 */
	if (g->floor_cost && fair.current == id + 1 && fair.turn > (__s64)link_now.quantum)
		fair.turn = link_now.quantum;
	if (t->throttled.count && !before(now, t->throttled_at))
		fair_unthrottle(t, id, now, false);
	if (t->urgent.head) {
		member = t->urgent.head;
		urgent_del(t, class_at(member - 1), member - 1);
	}
	if (!member && t->floors.count && !before(now, t->floors_at))
		member = fair_owed(t, id, now);
	if (!member)
		member = fair_next(t, id, now);
	if (member)
		return member;
	if (fair.current == id + 1)
		fair.current = 0;
	if (g->qlen)
		fair_throttle(&fair.link, g, id, now);
	return 0;
}

/* Class id, which is in a group, has sent `len` bytes; `left` packets wait on the link. */
__noinline int group_charge(__u32 id, __u32 len, __u32 left)
{
	struct weir_class *c = class_at(id);
	__u32 parent = c->parent;
	struct weir_class *g = class_at(parent);
	struct tier *t = tier_of(c);
	__u64 now = fair.clock;

	keep(len);
	keep(left);
	if (c->qlen) {
		enum boost boost = discipline_boost(c, id, len, now);

		if (boost)
			fair_go_on(id, boost);
		else
			fair_put(t, c, id, now);
	} else if (g->qlen) {
		g->qlen--;
	}
	g->sent_packets++;
	g->sent_bytes += len;
	g->v += len * g->share_cost;
	if (g->rates)
		fair_charge_rates(g, len);
	if (fair.current == parent + 1) {
		fair.turn -= len;
		if (tier_ready(t) && fair.turn > 0 && !fair_at_max(g, now)) {
			if (t->urgents)
				fair_boost_class(parent, urgent_first(t));
			return 0;
		}
		fair.current = 0;
	}
	if (g->qlen)
		group_put(g, parent, t, now);
	else if (!left)
		fair_rest(g);
	return 0;
}

/* The policy of group id, or who is in it, has changed. */
__noinline int group_settle(__u32 id, __u64 now)
{
	struct weir_class *g = class_at(id);
	struct tier *t = bpf_map_lookup_elem(&group_tiers, &id);

	keep(now);
	if (!g->qlen && fair.current == id + 1)
		fair.current = 0;
	if (!g->qlen && fair.newcomer == id + 1)
		fair_advance();
	if (!t || fair.current == id + 1 || fair.newcomer == id + 1)
		return 0;
	fair_take(&fair.link, g, id);
	if (!g->qlen)
		return 0;
	/* A member that came with packets is no reason to make up for the time without. */
	fair_clamp_lag(&fair.link, g);
	fair_catch_up(&fair.link, g, now);
	group_put(g, id, t, now);
	return 0;
}

/* Class id, which is in no wheel, moves to the group `to`; 0 = to none. */
static __always_inline void group_move(struct weir_class *c, __u32 id, __u32 to, __u64 now)
{
	__u32 from = c->parent;

	if (from == to)
		return;
	if (fair.current == id + 1)
		fair.current = 0;
	if (fair.newcomer == id + 1)
		fair_advance();
	c->parent = to;
	c->v = tier_of(c)->v_now;
	if (!c->qlen)
		return;
	if (from && class_at(from)->qlen) {
		class_at(from)->qlen--;
		group_settle(from, now);
	}
	if (to)
		class_at(to)->qlen++; /* settled once the class is */
}

#endif /* WEIR_FAIR_GROUP_H */
