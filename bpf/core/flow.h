/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The queues inside a class, flows for short: lists of packets that keep their order.
 *
 * There are two sorts in one array. Each class has WEIR_MAX_QUEUES queues that
 * packets are sorted into by rules (the number is in the packet's seal):
 *
 *     flows[class * WEIR_MAX_QUEUES + queue]
 *
 * The rest is a store of hashed flows for sfq. Each of a class's 256 flows is
 * given an entry in it when it gets a packet; `hashed` says which. A flow that runs
 * empty keeps its entry, with what CoDel has learned of it, until the store runs
 * out: then the one that has been empty for longest is taken. The store has more
 * entries than packets may wait (WEIR_SHARED_SLOTS); should flows that are empty, but
 * wait for their turn, have all the others, the packet is refused (sfq_refuses).
 *
 * In one of a class's queues with rules, the one for all other packets, flows take turns if
 * WEIR_TURNS says so. Its packets are in hashed flows; the queue itself counts them and has
 * no list.
 *
 * Not done here: which queue a packet joins and which one sends. That is a
 * discipline (disciplines/table.h).
 */
#ifndef WEIR_FLOW_H
#define WEIR_FLOW_H

#include "bits.h"
#include "class.h"

#define RULE_QUEUES (WEIR_MAX_CLASSES * WEIR_MAX_QUEUES)
#define ALL_FLOWS (RULE_QUEUES + WEIR_FLOWS) /* a power of two */
#define AGE_SHIFT 10 /* ages are counted in 1,024 ns */

struct weir_flow flows[ALL_FLOWS];
struct weir_queue_stats queue_stats[RULE_QUEUES];

static __u16 hashed[WEIR_MAX_CLASSES * WEIR_HASHED]; /* entry in the store, plus one */
static __u16 idle_head, idle_tail; /* of the store: empty ones, plus one */
static __u16 fresh_flows; /* how many of the store were ever used */
static bool spilled; /* some flow has ever been at one of its further places */

static __always_inline struct weir_flow *flow_at(__u64 f)
{
	return &flows[bounded(f, ALL_FLOWS)];
}

/* Number of the queue q of class id. */
static __always_inline __u32 rule_queue(__u32 id, __u32 q)
{
	return id * WEIR_MAX_QUEUES + q;
}

/* The queue of class id in which flows take turns, which it has. */
static __always_inline __u32 turns_queue(struct weir_class *c, __u32 id)
{
	return rule_queue(id, c->other_queue & (WEIR_MAX_QUEUES - 1));
}

/* Flow f of class id, or the queue with rules that it is in. */
static __always_inline __u32 queue_around(struct weir_class *c, __u32 id, __u32 f)
{
	return f >= RULE_QUEUES && c->other_queue & WEIR_TURNS ? turns_queue(c, id) : f;
}

/* Flow f's counters; NULL if it is none of the queues with rules. */
static __always_inline struct weir_queue_stats *stats_of(__u32 f)
{
	return f < RULE_QUEUES ? &queue_stats[bounded(f, RULE_QUEUES)] : NULL;
}

/* Entry i (from 0) of the store. */
static __always_inline struct weir_flow *stored(__u64 i)
{
	return &flows[RULE_QUEUES + bounded(i, WEIR_FLOWS)];
}

static __always_inline __u16 *hashed_at(__u64 owner)
{
	return &hashed[bounded(owner, WEIR_MAX_CLASSES * WEIR_HASHED)];
}

static __always_inline void idle_add(__u32 i)
{
	struct weir_flow *f = stored(i);

	f->next = 0;
	f->prev = idle_tail;
	if (idle_tail)
		stored(idle_tail - 1)->next = i + 1;
	else
		idle_head = i + 1;
	idle_tail = i + 1;
}

static __always_inline void idle_del(struct weir_flow *f)
{
	if (f->prev)
		stored(f->prev - 1)->next = f->next;
	else
		idle_head = f->next;
	if (f->next)
		stored(f->next - 1)->prev = f->prev;
	else
		idle_tail = f->prev;
}

/*
 * Where in `hashed` the flow `hash` of class id may be: in WAYS places that begin here (a
 * set-associative hash, as in CAKE), and where all of these are taken by flows that have
 * packets, in as many at each of FURTHER sets. Two flows share a queue only if all are taken.
 * The last of 129 flows with packets finds all its first places taken with a chance of 5 %,
 * all of them with one of 0.1 %.
 */
#define WAYS 8
#define FURTHER 2

static __always_inline __u32 hashed_set(__u32 id, __u32 hash)
{
	return id * WEIR_HASHED + (hash & (WEIR_HASHED - WAYS));
}

/* The n-th of the further sets, from 1; it is not the first one. */
static __always_inline __u32 hashed_further(__u32 id, __u32 hash, int n)
{
	return hashed_set(id, hash ^ (hash >> 8 * n | WAYS));
}

/* The entry in the store, plus one, of the flow `hash` if it is in this set; 0 = it is not. */
static __always_inline __u16 flow_among(__u32 set, __u32 hash)
{
	for (int way = 0; way < WAYS; way++) {
		__u16 at = *hashed_at(set + way);

		if (at && stored(at - 1)->hash == hash)
			return at;
	}
	return 0;
}

__noinline int flow_look_further(__u32 id, __u32 hash)
{
	for (int n = 1; n <= FURTHER; n++) {
		__u16 at = flow_among(hashed_further(id, hash, n), hash);

		if (at)
			return at;
	}
	return 0;
}

/* The entry in the store, plus one, of the flow `hash` of class id; 0 = it has none. */
static __always_inline __u16 flow_look(__u32 id, __u32 hash)
{
	__u16 at = flow_among(hashed_set(id, hash), hash);

	if (at || likely(!spilled))
		return at;
	return flow_look_further(id, hash);
}

/* Entry i of the store is the flow's of this owner from now on. */
static __always_inline void flow_own(__u32 i, __u32 owner, __u32 hash)
{
	struct weir_flow *f = stored(i);

	f->count = f->last_count = f->dropping = f->ecn = 0;
	f->first_above = f->drop_next = 0;
	f->owner = owner;
	f->hash = hash;
	*hashed_at(owner) = i + 1;
}

/*
 * Gives the flow `hash`, which has no entry in the store and is about to get a packet, a place
 * in this set. Returns the entry, plus one; 0 = all places are of flows with packets.
 */
static __always_inline __u32 flow_place(__u32 set, __u32 hash)
{
	__u32 empty = 0, idle = 0, spare = 0; /* one bit for each way */
	struct weir_flow *f;
	__u32 i;

	for (int way = 0; way < WAYS; way++) {
		__u32 at = *hashed_at(set + way);
		__u32 none = (at - 1) >> 31;

		empty |= none << way;
		idle |= (~none & ~stored(at - 1)->listed & 1) << way;
		spare |= (~none & (stored(at - 1)->qlen - 1) >> 31) << way;
	}
	empty = empty ? lowest(empty) + 1 : 0; /* now the first of them, plus one */
	idle = idle ? lowest(idle) + 1 : 0;
	if (empty && fresh_flows < WEIR_FLOWS - 1) {
		i = fresh_flows++;
		flow_own(i, set + empty - 1, hash);
		return i + 1;
	}
	if (empty && idle_head) {
		i = idle_head - 1;
		f = stored(i);
		idle_del(f);
		*hashed_at(f->owner) = 0;
		flow_own(i, set + empty - 1, hash);
		return i + 1;
	}
	if (idle) {
		i = *hashed_at(set + idle - 1) - 1;
		idle_del(stored(i));
		flow_own(i, set + idle - 1, hash);
		return i + 1;
	}
	if (spare) { /* one that waits for its turn without packets: its place, not its debts */
		spare = set + lowest(spare);
		i = *hashed_at(spare) - 1;
		flow_own(i, spare, hash);
		stored(i)->deficit = FRAME;
		return i + 1;
	}
	return 0;
}

__noinline int flow_place_further(__u32 id, __u32 hash)
{
	spilled = true;
	for (int n = 1; n <= FURTHER; n++) {
		__u32 at = flow_place(hashed_further(id, hash, n), hash);

		if (at)
			return at;
	}
	return 0;
}

/* The entry in the store (from 0) of the flow `hash` of class id, which has none yet. */
static __always_inline __u32 flow_new(__u32 id, __u32 hash)
{
	__u32 set = hashed_set(id, hash);
	__u32 at = flow_place(set, hash);

	if (unlikely(!at))
		at = flow_place_further(id, hash);
	if (unlikely(!at)) /* it shares the queue of another */
		at = *hashed_at(set + (hash & (WAYS - 1)));
	return at - 1;
}

/* The entry in the store (from 0) of the flow `hash` of class id, which gets a packet. */
static __always_inline __u32 flow_find(__u32 id, __u32 hash)
{
	__u16 at = flow_look(id, hash);

	if (!at)
		return flow_new(id, hash);
	if (!stored(at - 1)->listed)
		idle_del(stored(at - 1));
	return at - 1;
}

/* Puts a packet of `len` bytes behind those of flow f. */
static __always_inline void flow_add(struct weir_flow *f, slot_ref s, __u64 len, __u64 now)
{
	list_add(&f->list, f->qlen, s, len);
	packet_at(s - 1)->since = now >> AGE_SHIFT;
	f->qlen++;
	f->backlog += len;
}

/* Takes the first packet off flow f, which is not empty. */
static __always_inline slot_ref flow_del(struct weir_flow *f, __u32 *len)
{
	slot_ref s = list_del(&f->list, len);

	f->qlen--;
	f->backlog -= *len;
	return s;
}

/* Moves all packets of flow f, which is not empty, to the end of class c's front. */
static __always_inline void flow_splice(struct weir_class *c, struct weir_flow *f)
{
	list_splice(&c->front, &f->list);
	f->qlen = 0;
	f->backlog = 0;
}

/* Flow f of class id, if it is in a queue with rules, has `packets` and `bytes` more there. */
static __always_inline void queue_counts(struct weir_class *c, __u32 id, __u32 f, __u32 packets,
					 __u32 bytes)
{
	struct weir_flow *q;

	if (f < RULE_QUEUES || likely(!(c->other_queue & WEIR_TURNS)))
		return;
	q = flow_at(turns_queue(c, id));
	q->qlen += packets;
	q->backlog += bytes;
}

/*
 * A packet joins flow f of class id, is counted there and in the class; and leaves it
 * from its head.
 */
static __always_inline void flow_gains(struct weir_class *c, __u32 id, __u32 f, slot_ref s,
				       __u64 len, __u64 now)
{
	flow_add(flow_at(f), s, len, now);
	queue_counts(c, id, f, 1, len);
	c->sorted++;
	class_gains(c, len);
}

static __always_inline slot_ref flow_loses(struct weir_class *c, __u32 id, __u32 f, __u32 *len)
{
	slot_ref s = flow_del(flow_at(f), len);

	queue_counts(c, id, f, -1, -*len);
	c->sorted--;
	class_loses(c, *len);
	return s;
}

#endif /* WEIR_FLOW_H */
