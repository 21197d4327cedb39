/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a change of policy comes into force, without loss and without a lock of its
 * own.
 *
 *   agent    writes class_config or link_config, puts the class's number (or
 *            WEIR_RING_LINK) into the ring `changes`, and then raises `published`
 *   qdisc    under its lock, which the kernel holds around every operation: if
 *            `applied` is behind, takes the entries in order. The class is lifted
 *            out of the scheduler's order, gets its new costs, and is put back
 *            where it belongs by them; packets stay where they are.
 *
 * Should the ring run over, everything is taken anew. weir.h says why it is done so
 * (a map is written by the agent while packets move).
 *
 * Not done here: what a rate means to a scheduler. The agent turns rates into costs.
 */
#ifndef WEIR_CHANGES_H
#define WEIR_CHANGES_H

#include "schedulers/table.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_link_config);
} link_config SEC(".maps");

/* Numbers of changed classes, or WEIR_RING_LINK, in order. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_RING);
	__type(key, __u32);
	__type(value, __u32);
} changes SEC(".maps");

volatile __u64 published SEC(".data.control"); /* changes written by the agent */
__u64 applied; /* changes that are in force */
static __u32 known_classes; /* classes from here on were never configured */

static __always_inline void apply_discipline(struct weir_class *c, __u32 id,
					     struct weir_class_config *cfg)
{
	if (c->discipline != cfg->discipline ||
	    (c->other_queue ^ cfg->other_queue && (c->other_queue | cfg->other_queue) & WEIR_TURNS))
		discipline_leave(c, id);
	c->discipline = cfg->discipline;
	c->queues = cfg->queues;
	c->other_queue = cfg->other_queue;
	c->police_cost = cfg->police_cost;
	c->police_burst = cfg->police_burst;
	c->aqm_target = cfg->aqm_target;
	c->aqm_interval = cfg->aqm_interval;
	c->ce_above = cfg->ce_above;
	c->ack_filter = cfg->ack_filter;
	for (int q = 0; q < WEIR_MAX_QUEUES; q++) {
		struct weir_flow *f = flow_at(rule_queue(id, q));

		__u64 most;

		f->cost = cfg->queue[q].cost;
		f->limit_packets = cfg->queue[q].limit_packets;
		c->peers[q] = cfg->queue[q].peers;
		/* A queue does not wait for what it had at another weight. */
		most = c->queue_v + FRAME * f->cost;
		if (before(most, f->v))
			f->v = most;
	}
}

static __always_inline void apply_class(__u32 id)
{
	struct weir_class_config *cfg = bpf_map_lookup_elem(&class_config, &id);
	struct weir_class *c = class_at(id);

	if (!cfg)
		return;
	if (!cfg->share_cost) { /* what still waits leaves at the old rates */
		discipline_leave(c, id);
		hold_apply(c, id, cfg);
		c->discipline = WEIR_NONE;
		return;
	}
	if (known_classes <= id)
		known_classes = id + 1;
	if (!c->draw_at)
		c->draw_at = c->draw_place = 1;
	scheduler_lift(c, id);
	c->share_cost = cfg->share_cost;
	c->floor_cost = cfg->floor_cost;
	fst_apply(c, cfg);
	c->group = cfg->group;
	scheduler_move(c, id, bounded(cfg->parent, WEIR_MAX_CLASSES));
	c->rates = (c->floor_cost | c->ceil_cost ? WEIR_RATES : 0) |
		   (c->parent ? WEIR_GROUPED : 0) |
		   (c->ceil_cost && !c->ceil_ahead ? WEIR_PACED : 0);
	c->weight = cfg->weight;
	c->min_credit = cfg->min_credit;
	c->max_credit = cfg->max_credit;
	c->limit_packets = cfg->limit_packets;
	c->limit_bytes = cfg->limit_bytes;
	apply_discipline(c, id, cfg);
	hold_apply(c, id, cfg);
	scheduler_settle(c, id);
}

static long lift_one(__u64 id, void *ctx)
{
	scheduler_lift(class_at(id), id);
	return 0;
}

static long settle_one(__u64 id, void *ctx)
{
	scheduler_settle(class_at(id), id);
	return 0;
}

static long apply_one(__u64 id, void *ctx)
{
	apply_class(id);
	return 0;
}

/* The wheels are built anew, because their scale may change. */
static __always_inline void apply_link(void)
{
	struct weir_link_config *cfg;
	__u32 zero = 0;

	cfg = bpf_map_lookup_elem(&link_config, &zero);
	if (!cfg)
		return;
	bpf_loop(known_classes, lift_one, NULL, 0);
	link_now = *cfg;
	sfq_apply_link();
	bpf_loop(known_classes, settle_one, NULL, 0);
}

static long apply_next(__u64 i, void *ctx)
{
	__u32 key = applied & (WEIR_RING - 1);
	__u32 *id = bpf_map_lookup_elem(&changes, &key);

	if (applied == published || !id)
		return 1;
	if (*id == WEIR_RING_LINK)
		apply_link();
	else
		apply_class(*id);
	applied++;
	return 0;
}

/* Brings into force what the agent published, or all of it if the ring ran over. */
__noinline int apply_changes(void)
{
	__u64 upto = published;

	if (upto - applied > WEIR_RING) {
		apply_link();
		bpf_loop(WEIR_MAX_CLASSES, apply_one, NULL, 0);
		applied = upto;
		return 0;
	}
	bpf_loop(WEIR_RING, apply_next, NULL, 0);
	return 0;
}

static __always_inline void take_changes(void)
{
	if (unlikely(applied != published))
		apply_changes();
}

#endif /* WEIR_CHANGES_H */
