/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What one shard does (core/shard.h): it publishes, takes its leases, and says how much its
 * scheduler's next batch may be.
 *
 * A lease is a batch of the line (core/line.h): the bytes of the grant, given as fast as the line
 * takes them. Then the shard waits for the next epoch. A boosted class that comes upon that
 * may have a part of the link's reserve, with one atomic operation; the link has
 * that much less in the next epoch. A class that finds its shard empty may have one packet
 * in advance, which is the shard's debt.
 */
#ifndef WEIR_FAIR_LEASE_H
#define WEIR_FAIR_LEASE_H

#include "../core/divide.h"
#include "fair_tier.h"

/* A clock that is ahead of `from` is so by what was sent: at another cost, by more or less. */
static __always_inline __u64 reprice_clock(__u64 at, __u64 from, __u64 old, __u64 cost)
{
	if (!old || !before(from, at) || old == cost)
		return at;
	if (at - from < 1ULL << 40)
		return from + (at - from) * ((cost << 8) / old) / 256;
	return from + (at - from) / old * cost;
}

/*
 * Class id, or a group, has other costs from now on. What its clocks are ahead is made of the
 * bytes that it sent, which are as many; so it goes to another place in its wheel.
 */
static __noinline int reprice(__u32 id, __u32 of, __u32 pace)
{
	struct weir_class_config *cfg = bpf_map_lookup_elem(&class_config, &id);
	struct weir_class *c = class_at(id);
	__u64 share = c->share_cost, floor = c->floor_cost, ceil = c->ceil_cost;
	__u64 now = bpf_ktime_get_ns();
	struct tier *t = tier_of(c);
	__u32 where = c->where;

	if (!cfg || !cfg->share_cost || !of)
		return 0;
	shard_leased[bounded(id, WEIR_MAX_CLASSES)] = shard_leases;
	if (where == WEIR_WAITING || where == WEIR_EARLY)
		fair_leave(t, c);
	else if (where == WEIR_THROTTLED)
		wheel_del(&t->throttled, 0, c);
	c->share_cost = (cfg->share_cost * pace >> 8) + 1;
	c->v = reprice_clock(c->v, t->v_now, share, c->share_cost);
	if (cfg->floor_cost) {
		c->floor_cost = (cfg->floor_cost << 16) / of;
		c->floor_at = reprice_clock(c->floor_at, now, floor, c->floor_cost);
	}
	fst_apply(c, cfg);
	if (c->ceil_cost) {
		c->ceil_cost = (c->ceil_cost << 16) / of;
		c->ceil_at = reprice_clock(c->ceil_at, now, ceil, c->ceil_cost);
	}
	if (where == WEIR_WAITING || where == WEIR_EARLY)
		fair_wait(t, c, id, now);
	else if (where == WEIR_THROTTLED)
		fair_throttle(t, c, id, now);
	return c->parent;
}

/* Class id of this shard has got its first packet. */
static __noinline int shard_enters(__u32 id)
{
	struct shard_head *head = shard_head(shard);
	__u32 group;

	if (!head)
		return 0;
	bits_set(&head->classes, id);
	if (shard_leased[bounded(id, WEIR_MAX_CLASSES)] == (__u32)shard_leases)
		return 0;
	/* It was idle in the last division: what other shards have of it is not known yet. */
	group = reprice(id, 1 << 16, 1 << 8);
	if (group && shard_leased[bounded(group, WEIR_MAX_CLASSES)] != (__u32)shard_leases)
		reprice(group, 1 << 16, 1 << 8);
	return 0;
}

/* `len` bytes have left, `left` packets wait. */
static __always_inline void shard_sends(__u32 len, __u32 left)
{
	shard_sent += len;
	if (!left) {
		struct shard_head *head = shard_head(shard);

		if (!head)
			return;
		head->waiting = 0;
		head->sent = shard_sent;
		shard_emptied = true;
	}
}

struct shard_publishing {
	struct shard_head *head;
	__u32 from;
};

static long publish_one(__u64 i, struct shard_publishing *p)
{
	__u32 id = p->from < BITS ? bits_next(&p->head->classes, p->from) : BITS_NONE;
	struct shard_line *line;
	struct weir_class *c;

	if (id >= BITS || id < p->from)
		return 1;
	p->from = id + 1;
	line = shard_line(shard, id);
	if (!line)
		return 1;
	c = class_at(id);
	if (!c->qlen && line->sent == c->sent_bytes)
		bits_clear(&p->head->classes, id);
	if (shard_emptied)
		line->left = 0;
	line->waiting = c->backlog;
	line->sent = c->sent_bytes;
	return 0;
}

/* Writes what the CPU that divides wants to know of this shard. */
static __noinline int shard_publish(__u32 waiting)
{
	struct shard_publishing p = {.head = shard_head(shard)};

	if (!p.head)
		return 0;
	bpf_loop(BITS, publish_one, &p, 0);
	p.head->sent = shard_sent;
	p.head->boosted = shard_boosted;
	p.head->waiting = waiting;
	shard_emptied = false;
	return 0;
}

static long leave_one(__u64 i, struct shard_publishing *p)
{
	__u32 id = p->from < BITS ? bits_next(&p->head->classes, p->from) : BITS_NONE;
	struct shard_line *line;

	if (id >= BITS || id < p->from)
		return 1;
	p->from = id + 1;
	line = shard_line(shard, id);
	if (line)
		line->left = class_at(id)->backlog;
	return 0;
}

/* Gives class id the costs of its part: so its share, its min and its max are the shard's. */
static __always_inline __u32 take_lease(__u32 id)
{
	struct shard_cell *cell = shard_cell(shard, id);

	if (shard_was_alone || !cell || !cell->of)
		return reprice(id, 1 << 16, 1 << 8);
	return reprice(id, cell->of, cell->pace);
}

static long take_one(__u64 i, struct shard_publishing *p)
{
	__u32 id = p->from < BITS ? bits_next(&p->head->classes, p->from) : BITS_NONE;
	__u32 group;

	if (id >= BITS || id < p->from)
		return 1;
	p->from = id + 1;
	group = take_lease(id);
	if (group && shard_leased[bounded(group, WEIR_MAX_CLASSES)] != (__u32)shard_leases)
		take_lease(bounded(group, WEIR_MAX_CLASSES));
	return 0;
}

static __noinline int shard_take_leases(struct shard_link *link, __u32 alone)
{
	struct shard_publishing p = {.head = shard_head(shard)};

	shard_leases = link->divisions;
	shard_was_alone = alone;
	if (p.head)
		bpf_loop(BITS, take_one, &p, 0);
	return 0;
}

/* Bytes that this shard may send now, less what it owes. */
static __always_inline __s64 shard_credit(void)
{
	struct shard_grant *g = shard_grant(shard);

	return g ? g->granted + (shard_boosted - g->boosted) - shard_sent : 0;
}

/*
 * The line is free, `waiting` packets wait: for how long may a batch be that would have
 * been `batch` ns? 0 = it has to wait for the next epoch.
 */
static __noinline __u64 shard_batch(struct line *l, __u64 now, __u64 batch, __u32 waiting)
{
	struct shard_link *link = shard_link();
	__s64 credit;

	if (!link)
		return 0;
	shard_publish(waiting);
	if (link->alone != shard + 1 && (link->alone || !before(now, link->ends)))
		shard_divide(now);
	credit = shard_credit();
	if (link->alone == shard + 1) {
		if (shard_was_alone)
			return batch;
		shard_take_leases(link, true);
		if (credit >= 0)
			return batch;
		l->free = now + span(-credit, link_now.link_cost);
		return 0;
	}
	if (shard_leases != link->divisions)
		shard_take_leases(link, false);
	if (credit <= 0 || !before(now, link->ends))
		return 0;
	l->busy = 0; /* what it missed is in its grant */
	shard_waits = false;
	return span(credit, link_now.link_cost) + 1;
}

/*
 * The line is busy, or the grant is used up: when to look again? The line is busy until
 * then. What waits now the grant was too small for.
 */
static __noinline __u64 shard_until(struct line *l, __u64 now)
{
	struct shard_publishing p = {.head = shard_head(shard)};
	struct shard_link *link = shard_link();

	if (!link || !p.head)
		return now + SHARD_EPOCH_NS;
	p.head->sent = shard_sent;
	p.head->boosted = shard_boosted;
	if (link->alone == shard + 1 && shard_was_alone) {
		p.head->busy_until = l->free;
		return l->free;
	}
	if (shard_waits && before(now, l->free))
		return l->free;
	if (!shard_waits)
		bpf_loop(BITS, leave_one, &p, 0);
	shard_waits = true;
	l->free = before(now, link->ends) ? link->ends : now + SHARD_RETRY_NS;
	return l->free;
}

/* May the first class of a shard that was empty have a packet in advance? */
static __always_inline bool shard_begins(void)
{
	return shard_credit() >= 0;
}

/* May a boosted class have `len` bytes of the link's reserve? */
static __noinline bool shard_boosts(__u32 len)
{
	struct shard_link *link = shard_link();

	if (!link || link->alone == shard + 1)
		return link;
	if (__sync_fetch_and_add(&link->reserve, -(__s64)len) < (__s64)len) {
		__sync_fetch_and_add(&link->reserve, len);
		return false;
	}
	shard_boosted += len;
	return true;
}

#endif /* WEIR_FAIR_LEASE_H */
