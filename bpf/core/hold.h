/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Future service times of queues: packets of a queue with an `interval` (fst.h) wait
 * here, before their queue, until the schedule says that they may be sent; then they
 * join it as if they had just come. So no scheduler and no discipline knows of it.
 *
 *     enqueue ──► due? ──► queue ──► discipline ──► scheduler
 *                  │ no      ▲
 *                  ▼         │ when FST has passed
 *                held ───────┘
 *
 * A packet that is held stays in its slot. The class counts it in `held`, not in
 * `qlen`, which is what schedulers and disciplines look at; the qdisc counts it in
 * its length.
 *
 * Classes with held packets are in a wheel by the earliest time at which one of
 * their (up to 8) queues is due. User space makes a `struct hold` for each such queue
 * before it announces the class.
 *
 * CoDel sees how long a packet waits in its queue. What waits here is bounded by the limits
 * of queue, class and link, and behind a max by 100 ms of it.
 */
#ifndef WEIR_HOLD_H
#define WEIR_HOLD_H

#include "depart.h"
#include "fst.h"
#include "wheel.h"

#define HOLDS 1024 /* queues with an interval that a link can have */
#define HOLD_SHIFT 13 /* 8.2 us a bucket, 34 ms in all */
#define HOLD_NODE 2 /* of weir_class.node */
#define HOLD_NS 100000000ULL /* of packets that wait behind a max, */
#define HOLD_LEAST                                                                                 \
	(8 * FRAME) /* but not less: TCP needs some on their way to see that one was lost */

struct hold {
	__u64 fst; /* of the last packet that was let through */
	__u64 interval; /* ns << WEIR_NS_SHIFT per byte; 0 = no longer */
	__u64 most; /* bytes that may wait; 0 = what the limits allow */
	struct weir_list list;
	__u32 qlen;
	__u32 backlog; /* bytes */
	__u32 part; /* of span_exact */
};

/* By the queue's number (rule_queue). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, HOLDS);
	__type(key, __u32);
	__type(value, struct hold);
} holds SEC(".maps");

static struct {
	__u64 at; /* nothing is due before */
	struct wheel wheel; /* of classes, by hold_at */
} held;

static __always_inline struct hold *hold_of(__u32 queue)
{
	return bpf_map_lookup_elem(&holds, &queue);
}

/* Bytes that are held for a queue. */
static __always_inline __u32 hold_backlog(__u32 queue)
{
	struct hold *h = hold_of(queue);

	return h ? h->backlog : 0;
}

/* Is a packet held, or does one wait for its time of departure? */
static __always_inline bool hold_some(void)
{
	return held.wheel.count || departures.count;
}

/* `at`, or when the first such packet is due if that is earlier. */
static __always_inline __u64 hold_before(__u64 at)
{
	at = depart_before(at);
	return held.wheel.count && before(held.at, at) ? held.at : at;
}

/* Class id is to be looked at `at`, or earlier if it is in the wheel for that already. */
__noinline int hold_plan(__u32 id, __u64 at, __u64 now)
{
	struct weir_class *c = class_at(id);

	if (c->planned) {
		if (!before(at, c->hold_at))
			return 0;
		wheel_del(&held.wheel, HOLD_NODE, c);
	}
	if (!held.wheel.count)
		held.wheel.cursor = now >> HOLD_SHIFT;
	if (!held.wheel.count || before(at, held.at))
		held.at = at;
	c->hold_at = at;
	c->planned = 1;
	wheel_add(&held.wheel, HOLD_NODE, c, id, (at >> HOLD_SHIFT) - held.wheel.cursor);
	return 0;
}

/* May a packet that joins queue q of class id do so now? If so, that is its FST. */
__noinline int hold_passes(__u32 id, __u32 q, __u32 len, __u64 now)
{
	struct hold *h = hold_of(rule_queue(id, q));

	keep(len);
	keep(now);
	if (!h || (!h->interval && !h->qlen))
		return 1;
	if (h->qlen || before(now, h->fst))
		return 0;
	h->fst = now + span_exact(len, h->interval, &h->part);
	return 1;
}

/* Puts a packet of `len` bytes behind those that are held. */
__noinline int hold_add(__u32 id, __u32 q, slot_ref s, __u32 len)
{
	__u64 now = bpf_ktime_get_ns();
	struct hold *h = hold_of(rule_queue(id, q));
	struct weir_class *c = class_at(id);

	keep(len);
	if (!h)
		return 0; /* cannot be: hold_passes found it */
	list_add(&h->list, h->qlen, s, len);
	packet_at(s - 1)->since = now >> AGE_SHIFT;
	h->backlog += len;
	c->held++;
	c->held_bytes += len;
	if (!h->qlen++)
		hold_plan(id, h->fst, now);
	return 0;
}

/* The first packet of queue q of class id if it is due; 0 = none is. */
__noinline slot_ref hold_take(__u32 id, __u32 q, __u64 now)
{
	struct hold *h = hold_of(rule_queue(id, q));
	struct weir_class *c = class_at(id);
	slot_ref s;
	__u32 len;

	keep(now);
	if (!h || !h->qlen)
		return 0;
	if (h->interval && before(now, h->fst)) {
		hold_plan(id, h->fst, now);
		return 0;
	}
	s = list_del(&h->list, &len);
	h->qlen--;
	h->backlog -= len;
	h->fst += span_exact(len, h->interval, &h->part);
	c->held--;
	c->held_bytes -= len;
	return s;
}

/*
 * Why a packet of `len` bytes cannot be held; `waiting` packets with `bytes` are in
 * the qdisc. What is held counts as the class's own, as in class_refuses, and a queue may
 * hold at most as many bytes as are still free in the class, so that a flood leaves room to
 * the class's other queues.
 */
__noinline __u32 hold_refuses(__u32 id, __u32 q, __u32 len, __u32 waiting, __u32 bytes)
{
	struct hold *h = hold_of(rule_queue(id, q));
	struct weir_class *c = class_at(id);

	keep(len);
	keep(waiting);
	keep(bytes);
	if (!h || h->qlen >= flow_at(rule_queue(id, q))->limit_packets)
		return WEIR_DROP_QUEUE_PACKETS;
	if (h->most && h->backlog + len > h->most)
		return WEIR_DROP_QUEUE_PACKETS;
	if (c->qlen + c->held >= c->limit_packets)
		return WEIR_DROP_CLASS_PACKETS;
	if (c->backlog + c->held_bytes + h->backlog + len > c->limit_bytes)
		return WEIR_DROP_CLASS_BYTES;
	if (waiting + c->qlen + c->held >= WEIR_SHARED_SLOTS)
		return WEIR_DROP_LINK_PACKETS;
	if (!link_has_room(c->backlog + c->held_bytes, bytes, len))
		return WEIR_DROP_LINK_BYTES;
	return NOT_DROPPED;
}

/* Takes the first class that is due out of the wheel; 0 = none is. */
__noinline class_ref hold_next(__u64 now)
{
	keep(now);
	for (int i = 0; i < RETRIES && held.wheel.count; i++) {
		__u64 at = wheel_first(&held.wheel);
		__u32 id = bucket_at(&held.wheel, at)->head - 1;
		struct weir_class *c = class_at(id);

		held.at = c->hold_at;
		if (before(now, c->hold_at)) {
			if (!before(at << HOLD_SHIFT, c->hold_at & ~((1ULL << HOLD_SHIFT) - 1)))
				return 0;
			/* Further ahead than the wheel reached. */
			if (before(now, at << HOLD_SHIFT)) {
				held.at = at << HOLD_SHIFT;
				return 0;
			}
			wheel_del(&held.wheel, HOLD_NODE, c);
			held.wheel.cursor = at; /* others may be between it and now */
			wheel_add(&held.wheel, HOLD_NODE, c, id,
				  (c->hold_at >> HOLD_SHIFT) - held.wheel.cursor);
			continue;
		}
		held.wheel.cursor = at;
		c->planned = 0;
		wheel_pop(&held.wheel, HOLD_NODE, c);
		return id + 1;
	}
	return 0;
}

/* Queue q of class id has this interval from now on. 1 = it is one with an interval. */
__noinline int hold_set(__u32 id, __u32 q, __u64 interval, bool is_max)
{
	struct hold *h = hold_of(rule_queue(id, q));

	if (!h)
		return 0;
	h->interval = interval;
	h->most = 0;
	if (is_max && interval) {
		h->most = (HOLD_NS << WEIR_NS_SHIFT) / interval;
		if (h->most < HOLD_LEAST)
			h->most = HOLD_LEAST;
	}
	if (h->qlen) {
		__u64 now = bpf_ktime_get_ns();

		hold_plan(id, now, now);
	}
	return interval != 0;
}

static __always_inline void hold_apply(struct weir_class *c, __u32 id,
				       struct weir_class_config *cfg)
{
	__u32 paced = 0;

	if (!c->paced_queues && !cfg->paced_queues)
		return;
	for (__u32 q = 0; q < WEIR_MAX_QUEUES; q++)
		paced |= (__u32)hold_set(id, q, cfg->queue[q].interval, !cfg->queue[q].reserve_bps)
			 << q;
	c->paced_queues = paced;
}

#endif /* WEIR_HOLD_H */
