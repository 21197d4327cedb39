/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The division of a link among its classes, over the sums of all shards (shard.h), and of
 * each class's part among the shards. One CPU makes it, once an epoch.
 *
 *   gather   what each shard says of each class: what it sends of late, and what was left
 *            when its last grant was used up. The sum is what the class wants
 *   level    finds L, such that x = min(cap, max(floor, L * weight)) adds up, for the link
 *            and then for each group: Newton's way, held between two bounds
 *   correct  what a class that wants more lacks of its parts of the past is added to its part,
 *            by and by: so no rounding, no packet and no late shard makes it lose over time.
 *            At most 32 ms of its part and 8 frames are remembered
 *   spread   a class's part goes to its shards in proportion to what waits there, to
 *            none more than it wants
 *   grant    what the parts of a shard's classes add up to
 *
 * Example: 62,500 bytes are left for three classes of weights 1, 1 and 2, of which
 * the last wants 10,000: L is 26,250.
 *
 * Known weaknesses: a class that its max binds and that sends to several shards may have less
 * than its max, half of it at worst, since each shard keeps a part of the max; a flow that
 * has just come to a shard has a packet there before the division knows of it; and while
 * the CPU that divides is stopped (by a hypervisor), no shard gets a lease.
 *
 * Not done here: which packet leaves. The shard's scheduler divides its grant.
 */
#ifndef WEIR_DIVIDE_H
#define WEIR_DIVIDE_H

#include "shard.h"

#define SHARD_ROUNDS 16 /* in which L is found */
#define SHARD_SPREADS 3 /* in which a class's part finds its shards */
#define SHARD_SAVED 4 /* epochs of the link that no shard used, and that are made good */
#define SHARD_MEAN 3 /* a mean forgets an eighth each epoch */
#define SHARD_LAGS 64 /* parts that a class may lack, or have had in advance, */
#define SHARD_LAG_FRAMES 8 /* and frames, which may be more */
#define SHARD_MENDS 8 /* of what it lacks, one part in so many is added */
#define SHARD_RESERVE 4 /* one part of an epoch in so many is for boosted classes */

/* A walk over the active classes of all shards, over the classes of the link, or over shards. */
struct shard_walk {
	struct shard_link *link;
	__u32 q, from;
	__u32 members; /* of groups, not those without a group and the groups themselves */
	__u32 active; /* shards */
	__u32 last_active;
	__u64 now, elapsed; /* ns; elapsed: since the last division */
	__s64 lags; /* since the last division, of classes that have their share, */
	__u64 owed; /* and what it gave them, bytes */
	__u64 open; /* of `parts`, those of classes that have their share */
	__u64 budget, parts; /* bytes to be divided and divided, times 2^SHARD_FINE */
};

#define SHARD_WALK(walk, n, step)                                                                  \
	do {                                                                                       \
		(walk)->q = (walk)->from = 0;                                                      \
		bpf_loop(n, step, walk, 0);                                                        \
	} while (0)
#define EACH_CLASS(walk, step) SHARD_WALK(walk, BITS, step)
#define EACH_CELL(walk, step) SHARD_WALK(walk, SHARDS *(BITS + 1), step)

/* Bytes of the link in `ns`. */
static __always_inline __u64 link_bytes(__u64 ns)
{
	return (ns << WEIR_NS_SHIFT) / (link_now.link_cost ? link_now.link_cost : 1);
}

/* Bytes that a cost per byte lets pass in `ns`, times 2^SHARD_FINE. */
static __always_inline __u64 bytes_at(__u64 ns, __u64 cost)
{
	return (ns << (WEIR_NS_SHIFT + SHARD_FINE)) / cost;
}

/*
 * What shard q may still have of the past. One that no longer wants what it was granted gives
 * it back; so does one whose CPU is held up, but for its last grant. A debt stays.
 */
static long settle_shard(__u64 i, struct shard_walk *w)
{
	struct shard_head *head = shard_head(i);
	struct shard_grant *g = shard_grant(i);
	struct shard_link *link = w->link;
	__u64 boosted;
	__s64 credit, most;

	if (!head || !g || i >= shards)
		return 1;
	boosted = head->boosted - g->boosted;
	g->boosted += boosted;
	g->granted += boosted;
	link->account -= boosted;
	if (link->alone) { /* sent without grants until now */
		g->granted = head->sent;
		if (link->alone == i + 1 && before(w->now, head->busy_until))
			g->granted -= link_bytes(head->busy_until - w->now);
	}
	credit = g->granted - head->sent;
	most = head->waiting ? g->last + FRAME : 0;
	if (credit > most) {
		link->account += credit - most;
		g->granted -= credit - most;
	}
	g->active = head->waiting || head->sent != g->sent || credit < 0;
	g->debt = credit < 0 ? -credit : 0;
	g->sent = head->sent;
	g->parts = 0;
	if (g->active) {
		w->active++;
		w->last_active = i + 1;
	}
	return 0;
}

/* The next class of an active shard, which is w->q before this; BITS_NONE = the next shard's. */
static __always_inline __u32 cell_next(struct shard_walk *w)
{
	struct shard_head *head = shard_head(w->q);
	struct shard_grant *g = shard_grant(w->q);
	__u32 id = BITS_NONE;

	if (head && g && g->active && w->from < BITS)
		id = bits_next(&head->classes, w->from);
	if (id >= BITS || id < w->from) {
		w->q++;
		w->from = 0;
		return BITS_NONE;
	}
	w->from = id + 1;
	return id;
}

static __always_inline struct shard_sum *sum_next(struct shard_walk *w)
{
	__u32 id = w->from < BITS ? bits_next(&w->link->classes, w->from) : BITS_NONE;

	if (id >= BITS || id < w->from)
		return NULL;
	w->from = id + 1;
	return shard_sum(id);
}

/* Class id is in this division. Returns its group. */
static __noinline __u32 sum_begin(__u32 id, __u64 elapsed)
{
	struct weir_class_config *cfg = bpf_map_lookup_elem(&class_config, &id);
	struct shard_link *link = shard_link();
	struct shard_sum *s = shard_sum(id);
	__u64 most;

	keep(elapsed);
	if (!cfg || !s || !link)
		return 0;
	if (bits_has(&link->classes, id))
		return s->parent;
	bits_set(&link->classes, id);
	if (s->division + 1 != link->divisions)
		s->lag = s->busy = 0;
	s->division = link->divisions;
	s->wants = s->waiting = s->sent = s->part = s->spread = s->open = 0;
	s->weight = cfg->weight ? cfg->weight : 1;
	s->parent = bounded(cfg->parent, WEIR_MAX_CLASSES);
	s->group = cfg->group;
	s->floor = cfg->floor_cost ? bytes_at(elapsed, cfg->floor_cost) : 0;
	most = cfg->interval > cfg->ceil_cost ? cfg->interval : cfg->ceil_cost;
	s->cap = most ? bytes_at(elapsed, most) : ~0ULL;
	__builtin_memset(&s->tier, 0, sizeof(s->tier));
	return s->parent;
}

static long gather_one(__u64 i, struct shard_walk *w)
{
	__u32 q = w->q, id = cell_next(w);
	struct shard_head *head = shard_head(q);
	struct shard_grant *g = shard_grant(q);
	struct shard_line *line;
	struct shard_cell *cell;
	struct shard_sum *s;
	__u64 waiting, came;
	__u32 group;

	if (id >= BITS)
		return w->q >= shards;
	group = sum_begin(id, w->elapsed);
	if (group) {
		sum_begin(group, w->elapsed);
		cell = shard_cell(q, group);
		if (cell)
			cell->part = 0;
	}
	line = shard_line(q, id);
	cell = shard_cell(q, id);
	s = shard_sum(id);
	if (!line || !cell || !s || !g || !head)
		return 1;
	waiting = ((head->waiting ? line->waiting : 0) + g->debt) << SHARD_FINE;
	came = line->sent - cell->sent;
	cell->sent += came;
	s->sent += came;
	came <<= SHARD_FINE;
	cell->rate += (came >> SHARD_MEAN) - (cell->rate >> SHARD_MEAN);
	cell->waiting += (waiting >> SHARD_MEAN) - (cell->waiting >> SHARD_MEAN);
	/* What leaves of late, a little more, and what was left; or all that waits, if new. */
	cell->wants = cell->rate + cell->rate / 64 +
		      ((head->waiting ? line->left : 0) << SHARD_FINE) + (1 << SHARD_FINE);
	if (cell->wants < waiting)
		cell->wants = waiting;
	cell->part = 0;
	s->wants += cell->wants;
	s->waiting += cell->waiting + (1 << SHARD_FINE);
	return 0;
}

/* What a member wants its group wants. */
static long want_one(__u64 i, struct shard_walk *w)
{
	struct shard_sum *s = sum_next(w), *g;

	if (!s)
		return 1;
	if (s->group)
		return 0;
	if (s->cap > s->wants)
		s->cap = s->wants;
	g = s->parent ? shard_sum(s->parent) : NULL;
	if (g)
		g->wants += s->cap;
	return 0;
}

static __always_inline struct shard_tier *tier_with(struct shard_walk *w, struct shard_sum *s)
{
	struct shard_sum *g = s->parent ? shard_sum(s->parent) : NULL;

	return g ? &g->tier : &w->link->tier;
}

static long tier_gains(__u64 i, struct shard_walk *w)
{
	struct shard_sum *s = sum_next(w);
	struct shard_tier *t;

	if (!s)
		return 1;
	if (!s->parent == !!w->members)
		return 0;
	if (s->cap > s->wants)
		s->cap = s->wants;
	if (s->floor > s->cap)
		s->floor = s->cap;
	t = tier_with(w, s);
	t->weights += s->weight;
	t->caps += s->cap;
	return 0;
}

static long part_one(__u64 i, struct shard_walk *w)
{
	struct shard_sum *s = sum_next(w);
	struct shard_tier *t;
	__u64 part;

	if (!s)
		return 1;
	if (!s->parent == !!w->members)
		return 0;
	t = tier_with(w, s);
	part = (t->level * s->weight) >> SHARD_LEVEL;
	if (t->caps <= t->target)
		part = s->cap;
	else if (part <= s->floor)
		part = s->floor;
	else if (part >= s->cap)
		part = s->cap;
	else
		t->slope += s->weight;
	s->part = part;
	t->sum += part;
	return 0;
}

static __always_inline void tier_begin(struct shard_tier *t, __u64 target)
{
	t->target = target;
	t->low = t->sum = t->slope = 0;
	t->high = target << SHARD_LEVEL;
	t->level = t->high / (t->weights ? t->weights : 1);
}

/* The next guess at L. */
static __always_inline void tier_guess(struct shard_tier *t)
{
	__u64 level = t->level, off;

	if (!t->sum || t->sum == t->target || t->caps <= t->target)
		return; /* the first one, or there is no better one */
	if (t->sum > t->target) {
		t->high = level;
		off = ((t->sum - t->target) << SHARD_LEVEL) / (t->slope ? t->slope : 1);
		level = off < level ? level - off : 0;
	} else {
		t->low = level;
		level += ((t->target - t->sum) << SHARD_LEVEL) / (t->slope ? t->slope : 1);
	}
	if (!t->slope || level <= t->low || level >= t->high)
		level = t->low + (t->high - t->low) / 2;
	t->level = level;
}

static long tier_begin_one(__u64 i, struct shard_walk *w)
{
	struct shard_sum *s = sum_next(w);

	if (s && s->group)
		tier_begin(&s->tier, s->part);
	return !s;
}

static long tier_guess_one(__u64 i, struct shard_walk *w)
{
	struct shard_sum *s = sum_next(w);

	if (s && s->group) {
		tier_guess(&s->tier);
		s->tier.sum = s->tier.slope = 0;
	}
	return !s;
}

/* The parts by a guess at L that is better than the one before. */
static long round_one(__u64 i, struct shard_walk *w)
{
	struct shard_tier *t = &w->link->tier;

	if (w->members) {
		EACH_CLASS(w, tier_guess_one);
	} else {
		if (t->sum == t->target)
			return 1;
		tier_guess(t);
		t->sum = t->slope = 0;
	}
	EACH_CLASS(w, part_one);
	return 0;
}

/* Finds L of the link, or of each group. */
static __noinline int find_levels(struct shard_walk *w, __u32 members)
{
	w->members = members;
	EACH_CLASS(w, tier_gains);
	if (members)
		EACH_CLASS(w, tier_begin_one);
	else
		tier_begin(&w->link->tier, w->budget);
	bpf_loop(SHARD_ROUNDS, round_one, w, 0);
	return 0;
}

/*
 * A class that wants more than it gets has a claim to what it lacks of its past parts. For
 * those that have their share it is a claim on each other: what a third one did not use
 * all of them had.
 */
static long lag_one(__u64 i, struct shard_walk *w)
{
	struct shard_sum *s = sum_next(w);

	if (!s)
		return 1;
	if (s->group)
		return 0;
	s->lag += s->busy ? (__s64)(s->owed - s->sent) : -s->lag;
	if (s->shares) {
		w->lags += s->owed - s->sent;
		w->owed += s->owed;
	}
	return 0;
}

static __always_inline __s64 within_most(__s64 x, __s64 least, __s64 most)
{
	return x < least ? least : x > most ? most : x;
}

static long correct_one(__u64 i, struct shard_walk *w)
{
	struct shard_sum *s = sum_next(w);
	__s64 most, more;

	if (!s)
		return 1;
	if (s->group)
		return 0;
	if (s->shares && w->owed) {
		bool ahead = w->lags < 0;
		__u64 all = ahead ? -w->lags : w->lags;

		all = (s->owed * ((all << SHARD_FINE) / w->owed)) >> SHARD_FINE;
		s->lag += ahead ? all : -all;
	}
	s->busy = s->part < s->wants;
	s->owed = s->part >> SHARD_FINE;
	s->shares = s->busy && s->part > s->floor && s->part < s->cap;
	most = SHARD_LAGS * s->owed + SHARD_LAG_FRAMES * FRAME;
	s->lag = within_most(s->lag, -most, most);
	most = s->part;
	more = within_most(s->lag * ((1 << SHARD_FINE) / SHARD_MENDS), -(most >> 1), most);
	s->whole = s->part;
	s->part += more;
	w->parts += s->part;
	if (s->shares)
		w->open += s->part;
	return 0;
}

/* What that makes too much or too little of all parts those have whom nothing else binds. */
static long fill_one(__u64 i, struct shard_walk *w)
{
	struct shard_sum *s = sum_next(w);
	__u64 bound = w->parts - w->open;

	if (!s)
		return 1;
	if (s->group)
		return 0;
	if (s->shares && w->open && w->budget > bound)
		s->part =
			(s->part * (((w->budget - bound) << SHARD_LEVEL) / w->open)) >> SHARD_LEVEL;
	s->fill = (s->part << SHARD_LEVEL) / s->waiting;
	return 0;
}

static long spread_cell(__u64 i, struct shard_walk *w)
{
	__u32 q = w->q, id = cell_next(w);
	struct shard_cell *cell;
	struct shard_sum *s;

	if (id >= BITS)
		return w->q >= shards;
	cell = shard_cell(q, id);
	s = shard_sum(id);
	if (!cell || !s)
		return 1;
	cell->part = (s->fill * (cell->waiting + (1 << SHARD_FINE))) >> SHARD_LEVEL;
	if (cell->part >= cell->wants)
		cell->part = cell->wants;
	else
		s->open += cell->waiting + (1 << SHARD_FINE);
	s->spread += cell->part;
	return 0;
}

/* What the last round has left over goes to those that want more. */
static long spread_class(__u64 i, struct shard_walk *w)
{
	struct shard_sum *s = sum_next(w);

	if (!s)
		return 1;
	if (!s->group && s->open && s->spread < s->part)
		s->fill += ((s->part - s->spread) << SHARD_LEVEL) / s->open;
	s->spread = s->open = 0;
	return 0;
}

static long spread_one(__u64 i, struct shard_walk *w)
{
	EACH_CLASS(w, spread_class);
	EACH_CELL(w, spread_cell);
	return 0;
}

/* Adds up the parts of a shard, and of its groups. */
static long lease_one(__u64 i, struct shard_walk *w)
{
	__u32 q = w->q, id = cell_next(w);
	struct shard_cell *cell, *in;
	struct shard_sum *s, *group;
	struct shard_grant *g;

	if (id >= BITS)
		return w->q >= shards;
	cell = shard_cell(q, id);
	g = shard_grant(q);
	s = shard_sum(id);
	if (!cell || !s || !g)
		return 1;
	if (s->spread)
		cell->part = (cell->part * ((s->part << 8) / s->spread)) >> 8;
	cell->part++;
	g->parts += cell->part;
	if (!s->parent)
		return 0;
	in = shard_cell(q, s->parent);
	group = shard_sum(s->parent);
	if (!in || !group)
		return 1;
	in->part += cell->part;
	group->spread += cell->part;
	return 0;
}

/* What its part makes of a class's costs in a shard, or of a group's. */
static __always_inline void price(struct shard_walk *w, struct shard_sum *s,
				  struct shard_cell *cell, __u64 whole)
{
	__u64 level = (tier_with(w, s)->level * s->weight) >> SHARD_LEVEL;
	__u64 of = (cell->part << 16) / (whole ? whole : 1);
	__u64 pace = (level << 8) / cell->part;

	cell->of = of < 1 ? 1 : of > 2 << 16 ? 2 << 16 : of;
	cell->pace = pace < 1 ? 1 : pace > 1 << 24 ? 1 << 24 : pace;
}

static long price_one(__u64 i, struct shard_walk *w)
{
	__u32 q = w->q, id = cell_next(w);
	struct shard_cell *cell, *in;
	struct shard_sum *s, *group;

	if (id >= BITS)
		return w->q >= shards;
	cell = shard_cell(q, id);
	s = shard_sum(id);
	if (!cell || !s)
		return 1;
	price(w, s, cell, s->whole);
	in = s->parent ? shard_cell(q, s->parent) : NULL;
	group = s->parent ? shard_sum(s->parent) : NULL;
	if (in && group)
		price(w, group, in, group->part);
	return 0;
}

static long grant_one(__u64 i, struct shard_walk *w)
{
	struct shard_grant *g = shard_grant(i);

	if (!g || i >= shards)
		return 1;
	g->last = 0;
	if (g->active && w->parts)
		g->last = (g->parts * ((w->budget << 16) / w->parts)) >> (16 + SHARD_FINE);
	g->granted += g->last;
	w->link->account -= g->last;
	return 0;
}

static long total_one(__u64 i, struct shard_walk *w)
{
	struct shard_grant *g = shard_grant(i);

	if (!g || i >= shards)
		return 1;
	w->parts += g->parts;
	return 0;
}

/* Divides the link among the classes, and their parts among the shards. */
static __noinline int divide_parts(struct shard_walk *w)
{
	__u64 most;

	__builtin_memset(&w->link->classes, 0, sizeof(w->link->classes));
	__builtin_memset(&w->link->tier, 0, sizeof(w->link->tier));
	EACH_CELL(w, gather_one);
	EACH_CLASS(w, want_one);
	find_levels(w, 0);
	find_levels(w, 1);
	EACH_CLASS(w, lag_one);
	EACH_CLASS(w, correct_one);
	EACH_CLASS(w, fill_one);
	bpf_loop(SHARD_SPREADS, spread_one, w, 0);
	EACH_CELL(w, lease_one);
	EACH_CELL(w, price_one);
	w->parts = 0;
	bpf_loop(SHARDS, total_one, w, 0);
	/* What no class is expected to want is granted, too, but not what the link has saved. */
	most = link_bytes(SHARD_EPOCH_NS) << SHARD_FINE;
	if (most < w->parts)
		most = w->parts;
	if (w->budget > most)
		w->budget = most;
	bpf_loop(SHARDS, grant_one, w, 0);
	return 0;
}

/* A new epoch, unless another CPU makes it or has made it. */
static __noinline int shard_divide(__u64 now)
{
	struct shard_link *link = shard_link();
	struct shard_walk w = {.link = link, .now = now};
	__s64 most = SHARD_SAVED * link_bytes(SHARD_EPOCH_NS);

	if (!link || __sync_val_compare_and_swap(&link->dividing, 0, 1))
		return 0;
	if (link->alone == shard + 1 || (!link->alone && before(now, link->ends)))
		goto out;
	link->divisions++;
	w.elapsed = now - link->began;
	if (link->alone || w.elapsed > SHARD_SAVED * SHARD_EPOCH_NS) {
		w.elapsed = SHARD_EPOCH_NS;
		link->account = 0;
	}
	link->account += link_bytes(w.elapsed);
	bpf_loop(SHARDS, settle_shard, &w, 0);
	if (link->account > most)
		link->account = most;
	link->alone = w.active == 1 ? w.last_active : 0;
	link->reserve = link_bytes(SHARD_EPOCH_NS) / SHARD_RESERVE;
	w.budget = link->account > 0 ? link->account << SHARD_FINE : 0;
	if (!link->alone)
		divide_parts(&w);
	link->began = now;
	link->ends = now + SHARD_EPOCH_NS;
out:
	__sync_val_compare_and_swap(&link->dividing, 1, 0);
	return 0;
}

#endif /* WEIR_DIVIDE_H */
