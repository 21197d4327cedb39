/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Emptying the qdisc: the device went down, or another qdisc takes its place.
 *
 * The kernel calls this with the qdisc locked while the device sends nothing, so
 * it visits what was used (known_classes, fresh_slots, fresh_flows), not all that
 * may be: a million hashed flows alone would cost milliseconds of traffic.
 */
#ifndef WEIR_RESET_H
#define WEIR_RESET_H

#include "changes.h"
#include "core/delay.h"
#include "core/depart.h"

/* Frees the packet in slot i of those that begin at *from. */
static long reset_slot(__u64 i, __u32 *from)
{
	struct slot *slot;
	struct sk_buff *skb;
	__u32 key = *from + i;

	*drawn_at(key) = 0;
	slot = bpf_map_lookup_elem(&slots, &key);
	if (!slot)
		return 1;
	skb = bpf_kptr_xchg(&slot->skb, NULL);
	if (skb)
		bpf_kfree_skb(skb);
	return 0;
}

static long reset_class(__u64 id, void *ctx)
{
	struct weir_class *c = class_at(id);

	scheduler_lift(c, id);
	if (!c->group)
		c->drops[WEIR_DROP_RESET] += c->qlen + c->held;
	c->dropped_bytes += c->backlog + c->held_bytes;
	if (c->planned)
		wheel_del(&held.wheel, HOLD_NODE, c);
	c->planned = 0;
	c->draws = 0;
	c->held = c->held_bytes = 0;
	c->front.head = c->front.tail = c->qlen = c->sorted = 0;
	c->new_head = c->new_tail = c->old_head = c->old_tail = 0;
	c->fat = c->active = 0;
	c->queue_v = c->police_at = 0;
	c->backlog = c->wait_since = 0;
	c->v = c->floor_at = c->ceil_at = 0;
	c->credit = c->granted = 0;
	c->seen = 0;
	return 0;
}

static __always_inline void flow_clear(struct weir_flow *f)
{
	f->list.head = f->list.tail = f->qlen = f->backlog = 0;
	f->v = 0;
	f->deficit = 0;
	f->next = f->prev = f->next_new = f->listed = 0;
	f->count = f->last_count = f->dropping = f->ecn = 0;
	f->first_above = f->drop_next = 0;
}

/* A queue with rules. */
static long reset_queue(__u64 i, void *ctx)
{
	struct weir_queue_stats *stats = &queue_stats[bounded(i, RULE_QUEUES)];
	struct hold *h = class_at(i / WEIR_MAX_QUEUES)->paced_queues ? hold_of(i) : NULL;
	struct weir_flow *f = flow_at(i);
	__u32 why = WEIR_DROP_RESET;

	if (h) {
		stats->drops[why] += h->qlen;
		stats->dropped_bytes += h->backlog;
		h->fst = h->list.head = h->list.tail = h->qlen = h->backlog = 0;
	}
	stats->drops[why] += f->qlen;
	stats->dropped_bytes += f->backlog;
	flow_clear(f);
	return 0;
}

/* Entry i of the store. */
static long reset_stored(__u64 i, void *ctx)
{
	struct weir_flow *f = stored(i);

	*hashed_at(f->owner) = 0;
	flow_clear(f);
	return 0;
}

static __always_inline void reset(void)
{
	__u32 own = 0, shared = WEIR_MAX_CLASSES;

	bpf_loop(known_classes, reset_slot, &own, 0);
	bpf_loop(fresh_slots, reset_slot, &shared, 0);
	bpf_loop(known_classes, reset_class, NULL, 0);
	bpf_loop(known_classes * WEIR_MAX_QUEUES, reset_queue, NULL, 0);
	bpf_loop(fresh_flows, reset_stored, NULL, 0);
	free_slot = fresh_slots = 0;
	idle_head = idle_tail = fresh_flows = 0;
	depart_reset();
	scheduler_reset();
}

#endif /* WEIR_RESET_H */
