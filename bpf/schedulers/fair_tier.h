/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where the classes of the scheduler `fair` wait: three wheels (core/wheel.h) and
 * the rules by which a class gets into them and out again. fair.h explains the
 * clocks that they are sorted by.
 *
 *   share      by v: all classes that have packets and may send
 *   floors     by floor_at: those of them that have a min
 *   throttled  by ceil_at: all classes that have packets and are at their max
 *
 * Example: a class with a min sends its last packet but one: its clocks advance,
 * fair_put puts it into `share` and `floors`, and the first of fair_owed and
 * fair_next to meet it takes it out of both.
 *
 * Not done here: deciding which wheel is asked first. That is fair.h.
 */
#ifndef WEIR_FAIR_TIER_H
#define WEIR_FAIR_TIER_H

#include "../core/shard.h"
#include "../core/wheel.h"
#include "../disciplines/table.h"

#define TICK_SHIFT 16 /* floor and throttled wheels: 65.5 us a bucket, 268 ms in all */
#define EPOCH_NS 10000000ULL /* least time over which the pace of virtual time is measured, */
#define EPOCH_TURNS 32 /* and that many choices at least, for its steps are as large as packets; */
#define EPOCH_BYTES (16 * FRAME) /* in a group, where any packet is a choice, that many bytes */
#define BOOST_NS 60000000ULL /* boosted classes are expected again, if they come within that */
#define BOOSTS 6 /* times BOOST_NS that this may take at most, */
#define BOOSTS_QUICK 4 /* and from how many on batches are short */
#define SLACK_NS 10000ULL /* how much later a timer may fire */
#define FST_LOOKS 8 /* throttled classes that are looked at before their tick is over */

/*
 * Classes that share something: those of the link, or the members of one group.
 * The fields that each packet needs come first.
 */
struct tier {
	__u64 v_now; /* v of the class that was last chosen by its share */
	__u64 share_v; /* v at which the bucket at the share wheel's cursor begins */
	__u64 floors_at; /* nothing in `floors` is due before */
	__u64 throttled_at; /* nothing in `throttled` may be taken before */
	__u64 v_mark; /* v_now when the present epoch began */
	__u64 v_span; /* how far v_now went in the epoch before */
	__u64 epoch_end; /* of EPOCH_NS at least; the next choice ends it */
	__u64 sent_mark; /* bytes that the group had sent when it began */
	__u32 choices; /* by share, in it */
	__u32 urgents; /* classes in the list `urgent` */
	struct bucket urgent; /* those that go before the ones in the wheels, first come first */
	struct wheel share; /* by v */
	struct wheel floors; /* by floor_at */
	struct wheel throttled; /* by ceil_at */
};

/* The fields that each packet needs come first: together they cost fewer instructions. */
static struct {
	struct line line;
	__u64 clock; /* the time, as far as it was asked for: asking costs more than guessing */
	__s64 turn; /* bytes left of the current class's turn */
	class_ref newcomer;
	enum boost boost; /* of the newcomer */
	class_ref current; /* whose turn it is */
	__u32 early; /* the class that left the share wheel last was there as WEIR_EARLY */

	__u64 boost_clock; /* BOOST_NS later for each batch that a boosted class came upon */
	__u64 boost_ns; /* ns of the line given to such while it was busy, this batch */
	__u32 batch; /* its number */
	__u64 timer_at; /* the watchdog is armed for this time */
	struct tier link; /* classes without a group, and groups */
} fair;

/* The members of each group, by the number of the group's class; user space adds them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, WEIR_MAX_CLASSES);
	__type(key, __u32);
	__type(value, struct tier);
} group_tiers SEC(".maps");

static __always_inline void tick_add(struct wheel *w, __u64 *due, int n, struct weir_class *c,
				     __u32 id, __u64 at, __u64 now)
{
	/* The last tick that is over: overdue classes are due at once. */
	__u64 least = (now >> TICK_SHIFT) - 1, end;

	at >>= TICK_SHIFT;
	if (before(at, least))
		at = least;
	else if (at > least + BITS - 1)
		at = least + BITS - 1;
	/* It may go back: no class is further ahead than the wheel reaches from `least`. */
	if (!w->count || before(at, w->cursor))
		w->cursor = at;
	end = (at + 1) << TICK_SHIFT;
	if (!w->count || before(end, *due))
		*due = end;
	wheel_add(w, n, c, id, at - w->cursor);
}

/* Buckets that class c's v, which may wrap, is ahead of the share wheel's cursor. */
static __always_inline __s64 share_ahead(struct tier *t, struct weir_class *c)
{
	return (__s64)(c->v - t->share_v) >> link_now.share_shift;
}

static __always_inline void fair_wait(struct tier *t, struct weir_class *c, __u32 id, __u64 now)
{
	c->where = WEIR_WAITING;
	if (!t->share.count)
		t->share_v = t->v_now;
	wheel_add(&t->share, 0, c, id, share_ahead(t, c));
	if (c->floor_cost)
		tick_add(&t->floors, &t->floors_at, 1, c, id, c->floor_at, now);
}

/*
 * How far ahead of its share, in virtual time, class c may go before others: two turns. A member's
 * are short ones: its group has a part of the link only, and the other members wait while the
 * group makes up for them. A turn is a frame at least, or on a slow link an urgent one would wait
 * behind the one before it.
 */
static __always_inline __u64 fair_advantage(struct weir_class *c)
{
	__u64 turn = c->parent ? link_now.quantum : link_now.bulk_quantum;

	return 2 * (turn > FRAME ? turn : FRAME) * c->share_cost;
}

/* Class c is in the share wheel no more, and leaves what goes with that. */
static __always_inline void fair_out(struct tier *t, struct weir_class *c)
{
	fair.early = c->where == WEIR_EARLY;
	if (unlikely(fair.early))
		c->v += fair_advantage(c);
	c->where = WEIR_OUT;
	if (c->floor_cost)
		wheel_del(&t->floors, 1, c);
}

static __always_inline void fair_leave(struct tier *t, struct weir_class *c)
{
	wheel_del(&t->share, 0, c);
	fair_out(t, c);
}

/* Class id, which is in no wheel, goes before those that are, after other boosted ones. */
static __always_inline void urgent_add(struct tier *t, struct weir_class *c, __u32 id,
				       enum boost boost)
{
	bucket_add(&t->urgent, 0, id);
	c->node[0].bucket = boost;
	c->where = WEIR_URGENT;
	t->urgents++;
}

static __always_inline void urgent_del(struct tier *t, struct weir_class *c, __u32 id)
{
	bucket_del(&t->urgent, 0, id);
	c->where = WEIR_OUT;
	t->urgents--;
}

/* Takes class id, which may not be the one that sends, out of wheels and lists. */
static __always_inline void fair_take(struct tier *t, struct weir_class *c, __u32 id)
{
	if (c->where == WEIR_WAITING || c->where == WEIR_EARLY)
		fair_leave(t, c);
	else if (c->where == WEIR_THROTTLED)
		wheel_del(&t->throttled, 0, c);
	else if (c->where == WEIR_URGENT)
		urgent_del(t, c, id);
	c->where = WEIR_OUT;
}

/* The boost of the first of them. */
static __always_inline enum boost urgent_first(struct tier *t)
{
	return t->urgents ? class_at(t->urgent.head - 1)->node[0].bucket : NO_BOOST;
}

/* May one of a tier's classes send? */
static __always_inline bool tier_ready(struct tier *t)
{
	return t->share.count || t->urgents;
}

/* When a class that is throttled may send again. A group also waits for its members. */
static __always_inline __u64 fair_due(struct weir_class *c, __u32 id)
{
	struct tier *members;

	if (likely(!c->group))
		return c->ceil_at;
	members = bpf_map_lookup_elem(&group_tiers, &id);
	if (!members || tier_ready(members) || before(members->throttled_at, c->ceil_at))
		return c->ceil_at;
	return members->throttled_at;
}

/*
 * Those at their max wait until their tick is over, so that one timer wakes many;
 * those with a schedule until it says.
 */
static __always_inline void throttled_add(struct tier *t, struct weir_class *c, __u32 id, __u64 due,
					  __u64 now)
{
	tick_add(&t->throttled, &t->throttled_at, 0, c, id, due, now);
	if (unlikely(fst_paced(c)) && before(due, t->throttled_at))
		t->throttled_at = due;
}

static __always_inline void fair_throttle(struct tier *t, struct weir_class *c, __u32 id, __u64 now)
{
	c->where = WEIR_THROTTLED;
	throttled_add(t, c, id, fair_due(c, id), now);
}

/*
 * Keeps v within what it may run ahead. A class that lives on its min must not be chosen by
 * its share as well, so this is more than v_now gains between two of its owed
 * packets: on average less than its own length / weight, but in steps as large
 * as the others' packets and weights make them.
 */
static __always_inline void fair_bound(struct tier *t, struct weir_class *c, __u32 id)
{
	__u64 most = t->v_now + t->v_span + fair_advantage(c);

	if (likely(!before(most, c->v)))
		return;
	most += 2 * class_first_len(c, id) * c->share_cost;
	if (before(most, c->v))
		c->v = most;
}

static __always_inline bool fair_at_max(struct weir_class *c, __u64 now)
{
	return c->ceil_cost && fst_early(c, now);
}

/* Class id has packets and is in no wheel: puts it where it belongs. */
static __always_inline void fair_put(struct tier *t, struct weir_class *c, __u32 id, __u64 now)
{
	fair_bound(t, c, id);
	if (fair_at_max(c, now))
		fair_throttle(t, c, id, now);
	else
		fair_wait(t, c, id, now);
}

/*
 * Do boosted classes come so often that batches should be short? A packet now and
 * then (ARP, a question to a name server) is no reason: it goes first in any case.
 */
static __always_inline bool fair_quick(void)
{
	return before(fair.clock + BOOSTS_QUICK * BOOST_NS, fair.boost_clock);
}

/*
 * Bytes of a turn: the more classes wait, the shorter, so that each has its
 * turn many times in a second.
 */
static __always_inline __s64 fair_turn(struct tier *t)
{
	__u32 waiting = t->share.count + t->urgents;

	if (waiting >= 64 || (shards > 1 && !shard_was_alone))
		return FRAME;
	return fair_quick() || waiting >= 16 ? link_now.quantum : link_now.bulk_quantum;
}

/*
 * What a class did not use while it was idle or throttled is gone, but for one
 * turn: a sender whose window is smaller than a turn runs dry in the middle of
 * it and is back in microseconds. Says whether there was more than that, which
 * makes it a quiet class.
 */
static __always_inline bool fair_clamp_lag(struct tier *t, struct weir_class *c)
{
	__u64 least = t->v_now - fair_turn(t) * c->share_cost;

	if (!before(c->v, least))
		return false;
	c->v = least;
	return true;
}

/* The classes of the link (0) or of group id. */
static __always_inline struct tier *tier_at(__u32 id)
{
	struct tier *t = id ? bpf_map_lookup_elem(&group_tiers, &id) : NULL;

	return t ? t : &fair.link;
}

/* Where class c shares: with the members of its group, or on the link. */
static __always_inline struct tier *tier_of(struct weir_class *c)
{
	return tier_at(c->parent);
}

/* The first in the wheel of mins, which is not empty; 0 = none is due yet. */
static __always_inline class_ref floors_first(struct tier *t, __u64 now)
{
	__u64 at = wheel_first(&t->floors);

	t->floors_at = (at + 1) << TICK_SHIFT;
	if (before(now, t->floors_at))
		return 0;
	t->floors.cursor = at;
	return bucket_at(&t->floors, at)->head;
}

/* The first in the wheel of shares, which is not empty. */
static __always_inline class_ref share_first(struct tier *t)
{
	class_ref first = bucket_at(&t->share, t->share.cursor)->head;
	__u64 at;

	if (likely(first))
		return first;
	at = wheel_first(&t->share);
	t->share_v += (at - t->share.cursor) << link_now.share_shift;
	t->share.cursor = at;
	return bucket_at(&t->share, at)->head;
}

/*
 * The class that is first in the wheel of mins, or of shares, has got something
 * since it was put there: it and others like it are put where they belong now. A
 * function of its own: seldom needed, and the verifier need not follow it for each
 * packet's ways.
 */
__noinline int floors_sort(__u32 group, __u64 now)
{
	struct tier *t = tier_at(group);

	keep(now);
	for (int i = 0; i < RETRIES && t->floors.count; i++) {
		__u32 id = floors_first(t, now) - 1;
		struct weir_class *c = class_at(id);

		if (id == (__u32)-1 || before(c->floor_at, now))
			break;
		wheel_pop(&t->floors, 1, c);
		tick_add(&t->floors, &t->floors_at, 1, c, id, c->floor_at, now);
	}
	return 0;
}

__noinline int share_sort(__u32 group)
{
	struct tier *t = tier_at(group);

	for (int i = 0; i < RETRIES && t->share.count; i++) {
		__u32 id = share_first(t) - 1;
		struct weir_class *c = class_at(id);

		if (share_ahead(t, c) <= 0)
			break;
		wheel_pop(&t->share, 0, c);
		wheel_add(&t->share, 0, c, id, share_ahead(t, c));
	}
	return 0;
}

/*
 * Takes a class whose min is owed out of the wheels, which hold the classes of
 * `group` (0 = of the link); 0 = there is none.
 */
static __always_inline class_ref fair_owed(struct tier *t, __u32 group, __u64 now)
{
	struct weir_class *c;
	__u32 id;

	if (!t->floors.count)
		return 0;
	id = floors_first(t, now);
	if (!id)
		return 0;
	c = class_at(id - 1);
	if (unlikely(!before(c->floor_at, now))) {
		floors_sort(group, now);
		id = floors_first(t, now);
		c = class_at(id - 1);
		if (!id || !before(c->floor_at, now))
			return 0;
	}
	fair_leave(t, c);
	return id;
}

/*
 * An epoch of the classes of `group` (0 = of the link) may be over. A group that has little takes
 * longer for its bytes than the link does.
 */
static __always_inline void fair_epoch(struct tier *t, __u32 group, __u64 now)
{
	if (t->choices < EPOCH_TURNS)
		return;
	if (group) {
		__u64 sent = class_at(group)->sent_bytes;

		if (sent - t->sent_mark < EPOCH_BYTES)
			return;
		t->sent_mark = sent;
	}
	t->v_span = t->v_now - t->v_mark;
	t->v_mark = t->v_now;
	t->epoch_end = now + EPOCH_NS;
	t->choices = 0;
}

/* The class that is chosen by its share has this v: virtual time goes on to it. */
static __always_inline void fair_reach(struct tier *t, __u32 group, __u64 v, __u64 now)
{
	if (before(t->v_now, v))
		t->v_now = v;
	t->choices++;
	if (!before(now, t->epoch_end))
		fair_epoch(t, group, now);
}

/* Takes the class with the smallest v out of the wheels; 0 = there is none. */
static __always_inline class_ref fair_next(struct tier *t, __u32 group, __u64 now)
{
	struct weir_class *c;
	__u64 v;
	__u32 id;

	if (!t->share.count)
		return 0;
	id = share_first(t) - 1;
	c = class_at(id);
	v = c->v;
	if (unlikely(share_ahead(t, c) > 0)) {
		__u64 most;

		share_sort(group);
		id = share_first(t) - 1;
		c = class_at(id);
		/* Never past the bucket: some there may be earlier than this one. */
		most = t->share_v + (1ULL << link_now.share_shift) - 1;
		v = before(c->v, most) ? c->v : most;
	}
	fair_reach(t, group, v, now);
	wheel_pop(&t->share, 0, c);
	fair_out(t, c);
	return id + 1;
}

/*
 * Among the classes of `group` that are throttled from `id` on in one tick, which is
 * not over: one with a schedule that may send; 0 = there is none. Notes when to look
 * again.
 */
__noinline class_ref fst_first(__u32 group, __u32 id, __u64 now)
{
	struct tier *t = tier_at(group);

	keep(now);
	for (int i = 0; i < FST_LOOKS; i++) {
		struct weir_class *c = class_at(id);

		if (fst_paced(c)) {
			if (!before(now, c->ceil_at)) {
				t->throttled_at = now; /* there may be more */
				return id + 1;
			}
			if (before(c->ceil_at, t->throttled_at))
				t->throttled_at = c->ceil_at;
		}
		if (!c->node[0].next)
			break;
		id = c->node[0].next - 1;
	}
	return 0;
}

/*
 * Throttled classes whose time has come wait for their turn again. If no other class may
 * send, which `alone` says of those that are in no wheel, the first does not wait and is
 * returned; else 0.
 */
static __always_inline class_ref fair_unthrottle(struct tier *t, __u32 group, __u64 now, bool alone)
{
	for (int i = 0; i < 2; i++) {
		struct weir_class *c;
		__u64 at, due;
		__u32 id;

		if (!t->throttled.count)
			return 0;
		at = wheel_first(&t->throttled);
		id = bucket_at(&t->throttled, at)->head - 1;
		t->throttled_at = (at + 1) << TICK_SHIFT;
		if (before(now, t->throttled_at)) {
			id = fst_first(group, id, now);
			if (!id--)
				return 0;
		} else {
			t->throttled.cursor = at;
		}
		c = class_at(id);
		wheel_del(&t->throttled, 0, c);
		due = fair_due(c, id);
		if (before(now, due)) {
			throttled_add(t, c, id, due, now);
			continue;
		}
		fair_clamp_lag(t, c);
		if (alone && !tier_ready(t) && !c->floor_cost) {
			fair_reach(t, group, c->v, now);
			fair.early = 0;
			c->where = WEIR_OUT;
			return id + 1;
		}
		fair_wait(t, c, id, now);
	}
	return 0;
}

#endif /* WEIR_FAIR_TIER_H */
