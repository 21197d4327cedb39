// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Weir's qdisc: divides one link among up to 4,096 classes, each with a weight,
 * a min and a max.
 *
 *   enqueue   the class number is in the packet's mark (mark.bpf.c put it
 *             there when the packet left its container); a class that does not
 *             exist, or no mark, means class 0, the host. The packet joins its
 *             class's queue (queue.h) or is dropped and counted with a reason.
 *   dequeue   the scheduler says whose turn it is (fair.h, qcon.h or ancs.h,
 *             chosen when the object is loaded); the first packet of that class leaves.
 *             If nobody may send although packets wait, the scheduler has armed
 *             the watchdog, which makes the kernel call dequeue again.
 *
 * One packet's way: container -> veth -> mark program (mark |= 3 << 16) ->
 * bridge, routing, NAT -> enqueue on the uplink: class 3 -> its queue -> its
 * turn -> wire.
 *
 * The object is loaded once per link; the loader gives each load its own name
 * (`.id`, the "kind" that tc shows) and its own constants. So nothing here asks
 * which link this is, and no state is shared. A BPF qdisc has no options and no
 * dump: configuration comes by maps (weir.h tells how), counters leave by them.
 *
 * Every packet ends as sent, dropped (with a reason) or still waiting; for each
 * class and at every moment: enqueued = sent + drops + qlen.
 *
 * Not done here: splitting segmentation-offload packets (the kernel offers no
 * way; the agent keeps them small on slow links instead), ECN.
 */
#include "kernel.h"
#include "weir.h"
#include "queue.h"

/* Brings into force what the agent has published; defined below. */
static void take_changes(void);

#include "fair.h"
#include "qcon.h"
#include "ancs.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* Set by the loader; the verifier removes the scheduler that was not chosen. */
const volatile enum weir_scheduler scheduler = WEIR_SCHED_FAIR;
const volatile __u32 mark_mask = 0xffff0000; /* class bits of skb->mark */
const volatile __u32 mark_shift = 16;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_MAX_CLASSES);
	__type(key, __u32);
	__type(value, struct weir_class_config);
} class_config SEC(".maps");

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

/* Only so that the names of the reasons get into the object's type information. */
const enum weir_drop *drop_names __attribute__((unused));

static __always_inline void lift(struct weir_class *c, __u32 id)
{
	if (scheduler == WEIR_SCHED_FAIR)
		fair_lift(c, id);
}

static __always_inline void settle(struct weir_class *c, __u32 id)
{
	if (scheduler == WEIR_SCHED_FAIR)
		fair_settle(c, id);
}

static __always_inline void apply_class(__u32 id)
{
	struct weir_class_config *cfg = bpf_map_lookup_elem(&class_config, &id);
	struct weir_class *c = class_at(id);

	if (!cfg)
		return;
	c->exists = cfg->share_cost != 0;
	if (!c->exists)
		return; /* what still waits leaves at the old rates */
	lift(c, id);
	c->share_cost = cfg->share_cost;
	c->floor_cost = cfg->floor_cost;
	c->ceil_cost = cfg->ceil_cost;
	c->weight = cfg->weight;
	c->min_credit = cfg->min_credit;
	c->max_credit = cfg->max_credit;
	c->limit_packets = cfg->limit_packets;
	c->limit_bytes = cfg->limit_bytes;
	settle(c, id);
}

static long lift_one(__u64 id, void *ctx)
{
	lift(class_at(id), id);
	return 0;
}

static long settle_one(__u64 id, void *ctx)
{
	settle(class_at(id), id);
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
	bpf_loop(WEIR_MAX_CLASSES, lift_one, NULL, 0);
	link_now = *cfg;
	bpf_loop(WEIR_MAX_CLASSES, settle_one, NULL, 0);
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

static __always_inline int drop(struct sk_buff *skb, struct Qdisc *sch,
				struct bpf_sk_buff_ptr *to_free, struct weir_class *c, __u32 why,
				__u64 len)
{
	c->drops[why < WEIR_DROP_REASONS ? why : 0]++;
	c->dropped_bytes += len;
	sch->qstats.drops++;
	bpf_qdisc_skb_drop(skb, to_free);
	return NET_XMIT_DROP;
}

/* Puts the packet into slot i (from 0). False, and skb is still ours: no such slot. */
#define slot_fill(i, skb, to_free)                                                                 \
	({                                                                                         \
		__u32 __key = (i);                                                                 \
		struct slot *__slot = bpf_map_lookup_elem(&slots, &__key);                         \
		if (likely(__slot)) {                                                              \
			struct sk_buff *__old = bpf_kptr_xchg(&__slot->skb, skb);                  \
			if (unlikely(__old)) /* cannot be: the slot was free */                    \
				bpf_qdisc_skb_drop(__old, to_free);                                \
		}                                                                                  \
		__slot != NULL;                                                                    \
	})

static __always_inline void take_changes(void)
{
	if (unlikely(applied != published))
		apply_changes();
}

/* The usual case on an idle link is kept short. */
SEC("struct_ops/weir_enqueue")
int BPF_PROG(weir_enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	struct weir_class *c;
	__u64 id, len, pkt_len;
	__u32 why, s;

	take_changes();
	id = (skb->mark & mark_mask) >> mark_shift;
	c = class_at(id);
	if (unlikely(!c->exists)) {
		id = 0;
		c = class_at(0);
	}
	id = bounded(id, WEIR_MAX_CLASSES);
	pkt_len = qdisc_pkt_len(skb);
	len = pkt_len + link_now.overhead;
	c->enqueued_packets++;
	c->enqueued_bytes += len;
	if (c->qlen) {
		why = queue_refuses(c, sch, len);
		if (unlikely(why != WEIR_DROP_REASONS))
			return drop(skb, sch, to_free, c, why, len);
		s = slot_take();
		if (unlikely(!s) || unlikely(!slot_fill(s - 1, skb, to_free)))
			return drop(skb, sch, to_free, c, WEIR_DROP_LINK_PACKETS, len);
		queue_add(c, s, len);
		sch->q.qlen++;
		sch->qstats.backlog += pkt_len;
		return NET_XMIT_SUCCESS;
	}
	if (unlikely(!slot_fill(id, skb, to_free))) /* cannot be: every class has a slot */
		return drop(skb, sch, to_free, c, WEIR_DROP_LINK_PACKETS, len);
	queue_begin(c, id, len);
	sch->q.qlen++;
	sch->qstats.backlog += pkt_len;
	if (scheduler == WEIR_SCHED_FAIR)
		fair_activate(c, id, sch);
	else
		credit_activate(c, id);
	return NET_XMIT_SUCCESS;
}

SEC("struct_ops/weir_dequeue")
struct sk_buff *BPF_PROG(weir_dequeue, struct Qdisc *sch)
{
	struct weir_class *c;
	struct sk_buff *skb;
	struct slot *slot;
	__u32 key, len;
	__u64 id;

	if (!sch->q.qlen)
		return NULL;
	if (scheduler == WEIR_SCHED_FAIR)
		id = fair_choose(sch);
	else if (scheduler == WEIR_SCHED_QCON)
		id = qcon_choose(sch);
	else
		id = ancs_choose(sch);
	if (!id) {
		sch->qstats.overlimits++;
		return NULL;
	}
	id--;
	c = class_at(id);
	key = c->head - 1;
	slot = bpf_map_lookup_elem(&slots, &key);
	if (unlikely(!slot))
		return NULL; /* cannot be: every place has a slot */
	skb = bpf_kptr_xchg(&slot->skb, NULL);
	slot_give(queue_del(c, &len));
	sch->q.qlen--;
	c->sent_packets++;
	c->sent_bytes += len;
	if (scheduler == WEIR_SCHED_FAIR)
		fair_charge(c, id, len, sch);
	else if (scheduler == WEIR_SCHED_QCON)
		credit_charge(c, id, len);
	else
		ancs_charge(c, id, len, sch);
	if (unlikely(!skb))
		return NULL; /* cannot be: the queue held this slot */
	sch->qstats.backlog -= qdisc_pkt_len(skb);
	bpf_qdisc_bstats_update(sch, skb);
	return skb;
}

SEC("struct_ops/weir_init")
int BPF_PROG(weir_init, struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	sch->limit = WEIR_PLACES;
	apply_changes();
	return 0;
}

static long reset_slot(__u64 i, void *ctx)
{
	struct slot *slot;
	struct sk_buff *skb;
	__u32 key = i;

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

	c->drops[WEIR_DROP_RESET] += c->qlen;
	c->dropped_bytes += c->backlog;
	c->head = c->tail = c->qlen = 0;
	c->backlog = 0;
	c->v = c->floor_at = c->ceil_at = 0;
	c->credit = c->granted = 0;
	c->where = WEIR_OUT;
	c->seen = 0;
	fair_reset_bucket(id);
	if (id < 64)
		credit_reset_word(id);
	return 0;
}

/* Nothing checks that this empties the queues: slots that were used are few. */
SEC("struct_ops/weir_reset")
void BPF_PROG(weir_reset, struct Qdisc *sch)
{
	bpf_loop(WEIR_MAX_CLASSES + fresh_slots, reset_slot, NULL, 0);
	bpf_loop(WEIR_MAX_CLASSES, reset_class, NULL, 0);
	free_slot = fresh_slots = 0;
	fair_reset();
	credit_reset();
	qcon_reset();
	ancs_reset();
}

/* The kernel calls reset first, also for an instance that failed in init. */
SEC("struct_ops/weir_destroy")
void BPF_PROG(weir_destroy, struct Qdisc *sch)
{
}

SEC(".struct_ops.link")
struct Qdisc_ops weir = {
	.enqueue = (void *)weir_enqueue,
	.dequeue = (void *)weir_dequeue,
	.init = (void *)weir_init,
	.reset = (void *)weir_reset,
	.destroy = (void *)weir_destroy,
	.id = "weir",
};
