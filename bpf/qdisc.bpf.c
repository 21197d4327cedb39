// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Weir's qdisc: divides one link among up to 4,096 classes, each with a weight,
 * a min and a max.
 *
 *   enqueue   the class number is in the packet's seal (marking/seal.h: marking/mark.bpf.c
 *             put it there when the packet left its container), or is that of its socket's
 *             cgroup (core/sockets.h); a class that does not exist, or no
 *             seal, means class 0, the host. The packet joins its
 *             class's front (core/class.h) or the queue that the class's discipline
 *             names (disciplines/table.h), or is dropped and counted with a reason
 *             (drop.h). A packet that is to leave later waits for its time before
 *             that (departures.h).
 *   dequeue   the scheduler says whose turn it is (schedulers/table.h; chosen
 *             when the object is loaded), the class's discipline says which of
 *             its packets goes first, and CoDel whether that one is too late.
 *             If no class may send although packets wait, the scheduler has armed
 *             the watchdog, which makes the kernel call dequeue again.
 *
 * One packet's way: container -> veth -> mark program (seal of class 3) ->
 * bridge, routing, NAT -> enqueue on the uplink: class 3 -> its queue -> its
 * turn -> wire.
 *
 * The object is loaded once per link; the loader gives each load its own name
 * (`.id`, the "kind" that tc shows) and its own constants. So nothing here asks
 * which link this is, and no state is shared. A BPF qdisc has no options and no
 * dump: configuration comes by maps (weir.h tells how), counters leave by them.
 *
 * The qdisc's backlog counts what a packet is charged, the link's overhead
 * included, like everything here.
 *
 * Every packet ends as sent, dropped (with a reason) or still waiting; for each
 * class and at every moment: enqueued = sent + drops + qlen.
 *
 * Not done here: splitting segmentation-offload packets (the kernel offers no
 * way; the agent keeps them small on slow links instead), writing into a packet
 * (a BPF qdisc may not; ecn.h marks by proxy), looking for rules into packets
 * (marking/rules.h did that where they came from; the seal holds the result).
 */
#include "core/kernel.h"
#include "weir.h"
#include "core/sockets.h"
#include "schedulers/table.h"
#include "changes.h"
#include "core/delay.h"
#include "core/framing.h"
#include "core/hash.h"
#include "core/waiting.h"
#include "departures.h"
#include "drop.h"
#include "release.h"
#include "reset.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* Where packets carry class and queue. */
const volatile struct weir_carrier carrier = {};

#include "ecn.h"

/* Only so that these names get into the object's type information. */
const enum weir_drop *drop_names __attribute__((unused));
const enum weir_discipline *discipline_names __attribute__((unused));

#define NO_FLOW ALL_FLOWS /* no queue with rules to count for */

/*
 * Is class c empty, and of a discipline (fifo, sfq) that does not sort a packet which
 * finds it so? Both fields are read at once.
 */
static __always_inline bool begins_alone(struct weir_class *c)
{
	_Static_assert(offsetof(struct weir_class, qlen) == 4, "it follows the discipline");
	__u64 both; /* qlen is the upper half */

	__builtin_memcpy(&both, &c->discipline, sizeof(both));
	return both - WEIR_FIFO <= WEIR_SFQ - WEIR_FIFO; /* not WEIR_NONE */
}

/*
 * Everything but the first packet of a class that begins at its front. A function of
 * its own, so that the usual case keeps its registers; `place` is the class's
 * number and, above WEIR_LANE_QUEUE, the queue that the packet names.
 */
static __noinline int enqueue_behind(struct sk_buff *skb, struct Qdisc *sch,
				     struct bpf_sk_buff_ptr *to_free, __u32 place, __u64 len)
{
	__u32 id = place & (WEIR_MAX_CLASSES - 1);
	struct weir_class *c = class_at(id);
	bool sorts = c->discipline > WEIR_FIFO;
	bool first = !c->qlen;
	__u32 why = NOT_DROPPED;
	bool holds_it = false, alone;
	__u32 flow = NO_FLOW;
	__u32 key = 0, hash = 0, q = 0;
	__u64 now = 0;
	slot_ref s;

	c->enqueued_packets++;
	if (unlikely(skb->tstamp) && depart_later(skb->tstamp) && depart_room(c, sch, len))
		return depart_hold(skb, sch, to_free, place, len);
	front_note(c);
	if (sorts) {
		bool hashes = discipline_key(c) == HASH;

		key = place >> WEIR_LANE_QUEUE;
		if (hashes || takes_turns(c, key))
			/* ecn.h has the kernel's. */
			hash = c->ce_above ? bpf_skb_get_hash(skb) : flow_hash(skb);
		if (hashes)
			key = hash;
		else
			flow = rule_queue(id, queue_of(c, key));
		if (unlikely(c->ack_filter) && (hashes || takes_turns(c, key))) {
			s = ack_before(skb, id, hash);
			if (s && slot_fill(s - 1, skb, to_free)) {
				c->enqueued_packets--;
				c->thinned++;
				return NET_XMIT_SUCCESS;
			}
		}
		now = bpf_ktime_get_ns();
		why = discipline_refuses(id, key, hash, len, now);
		if (unlikely(why == WEIR_DROP_QUEUE_PACKETS) && takes_turns(c, key) &&
		    turns_give_way(sch, to_free, id))
			why = NOT_DROPPED;
	}
	if (!first)
		wait_begin(c, now);
	if (unlikely(c->paced_queues) && flow < RULE_QUEUES && why == NOT_DROPPED) {
		q = flow & (WEIR_MAX_QUEUES - 1);
		holds_it = c->paced_queues & 1 << q && !hold_passes(id, q, len, now);
	}
	if (why == NOT_DROPPED && (holds_it || !first)) {
		struct shortage r = {
			.sch = sch, .id = id, .held_for = holds_it ? q : NOT_HELD, .len = len};

		why = room_for(&r);
		if (unlikely(why != NOT_DROPPED) && why != WEIR_DROP_QUEUE_PACKETS)
			why = make_room(sch, to_free, id, r.held_for, len);
	}
	if (flow < RULE_QUEUES)
		stats_of(flow)->enqueued_packets++;
	if (unlikely(why != NOT_DROPPED))
		goto lost;
	s = slot_take();
	why = WEIR_DROP_LINK_PACKETS;
	if (unlikely(!s) || unlikely(!slot_fill(s - 1, skb, to_free)))
		goto lost;
	if (unlikely(delay_drawn(c)))
		delay_begin(id, s);
	if (holds_it) {
		hold_add(id, q, s, len);
		qdisc_gains(sch, len);
		return NET_XMIT_SUCCESS;
	}
	if (sorts) {
		flow = discipline_join(id, key, hash, len, now);
		flow_gains(c, id, flow, s, len, now);
	} else {
		front_add(c, !first, s, len);
	}
	alone = qdisc_gains(sch, len);
	if (first)
		scheduler_activate(c, id, alone);
	if (sorts)
		scheduler_boost(c, id, len, now);
	return NET_XMIT_SUCCESS;
lost:
	if (unlikely(delay_drawn(c)))
		delay_missed(id);
	count_drop(c, sch, flow, why, len);
	wait_look(c, id, now); /* room may have been made, and not have been enough */
	bpf_qdisc_skb_drop(skb, to_free);
	return NET_XMIT_DROP;
}

/* A function of its own, so that the usual case keeps its registers. */
static __noinline __u32 lane_carried(struct sk_buff *skb)
{
	return weir_lane_in(&carrier, skb->tc_index, skb->mark);
}

/* An answer of the kernel's is lost (core/sockets.h). */
static __noinline int refuse_answer(struct sk_buff *skb, struct Qdisc *sch,
				    struct bpf_sk_buff_ptr *to_free, __u32 lane)
{
	struct weir_class *c = class_at(lane & WEIR_LANE_CLASS);

	if (!c->discipline)
		c = class_at(0);
	c->enqueued_packets++;
	count_drop(c, sch, NO_FLOW, WEIR_DROP_CLASS_BYTES, charged(skb));
	bpf_qdisc_skb_drop(skb, to_free);
	return NET_XMIT_DROP;
}

/* The usual case on an idle link is kept short. */
SEC("struct_ops/weir_enqueue")
int BPF_PROG(weir_enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	struct weir_class *c;
	__u64 id, len;
	__u32 lane;

	take_changes();
	lane = skb->tc_index ^ WEIR_SEAL;
	/* Most have a seal, a class below 1024 and no queue, which all carriers say alike. */
	if (likely(lane && !(lane & (WEIR_SEAL | 0x1f))))
		lane >>= 5;
	else
		lane = lane_carried(skb);
	if (unlikely((__u32)skb->skb_iif <= WEIR_LOOPBACK)) {
		lane = lane_of_socket(skb, lane);
		if (unlikely(lane & WEIR_LANE_REFUSED))
			return refuse_answer(skb, sch, to_free, lane);
	}
	id = bounded(lane, WEIR_MAX_CLASSES);
	c = &classes[id];
	len = charged(skb);
	if (!begins_alone(c) || (unlikely(skb->tstamp) && depart_later(skb->tstamp))) {
		if (unlikely(!c->discipline))
			lane &= ~WEIR_LANE_CLASS;
		return enqueue_behind(skb, sch, to_free, lane, len);
	}
	c->enqueued_packets++;
	front_begin(c, id + 1, len);
	if (unlikely(delay_drawn(c)))
		delay_begin(id, id + 1);
	scheduler_activate(c, id, qdisc_gains(sch, len));
	/* Last, so that little has to be kept meanwhile. */
	if (unlikely(!slot_fill(id, skb, to_free))) /* cannot be: every class has a slot */
		bpf_qdisc_skb_drop(skb, to_free);
	return NET_XMIT_SUCCESS;
}

#define AQM_DROPS 2 /* at most, for each packet that is sent */

/* A packet of `len` bytes, of class id, leaves. */
static __always_inline void count_sent(struct weir_class *c, struct Qdisc *sch, __u32 id, __u64 len)
{
	c->sent_packets++;
	c->sent_bytes += len;
	scheduler_charge(c, id, len, sch->q.qlen);
}

/* The packet that the discipline of class id sends next. */
static __noinline struct sk_buff *send_sorted(struct Qdisc *sch, __u32 id)
{
	struct weir_class *c = class_at(id);
	__u32 flow = discipline_next(id), queue = queue_around(c, id, flow);
	struct weir_flow *f = flow_at(flow);
	__u64 now = c->aqm_target ? bpf_ktime_get_ns() : 0;
	struct weir_queue_stats *stats;
	struct sk_buff *skb;
	slot_ref s;
	__u32 len;

#pragma unroll
	for (int i = 0; i <= AQM_DROPS; i++) {
		__u32 since = packet_at(f->list.head - 1)->since;

		s = flow_loses(c, id, flow, &len);
		skb = leave(s, len, sch);
		if (!c->aqm_target || i == AQM_DROPS)
			break;
		if (unlikely(c->ce_above)
			    ? ecn_keeps(skb, id, flow, since, now)
			    : !codel_drops(c, f, codel_age(since, now), f->backlog, now, now))
			break;
		count_drop(c, sch, queue, WEIR_DROP_AQM, len);
		delay_lost(c, s);
		if (skb)
			bpf_kfree_skb(skb);
	}
	discipline_sent(id, flow, len);
	if (delay_waits(c, s))
		delay_end(id, s, queue);
	stats = stats_of(queue);
	if (stats) {
		stats->sent_packets++;
		stats->sent_bytes += len;
	}
	count_sent(c, sch, id, len);
	wait_look(c, id, now);
	if (unlikely(!skb))
		return NULL; /* cannot be: the flow held this slot */
	bpf_qdisc_bstats_update(sch, skb);
	return skb;
}

SEC("struct_ops/weir_dequeue")
struct sk_buff *BPF_PROG(weir_dequeue, struct Qdisc *sch)
{
	struct weir_class *c;
	struct sk_buff *skb;
	slot_ref s;
	__u64 id;
	__u32 len;

	if (!sch->q.qlen)
		return NULL;
	id = scheduler_next_at_once();
	if (!id) {
		if (unlikely(departures.count))
			depart_due(sch);
		if (unlikely(held.wheel.count))
			release_due();
		take_changes();
		id = scheduler_choose(sch);
	}
	if (!id) {
		sch->qstats.overlimits++;
		return NULL;
	}
	id--;
	c = class_at(id);
	if (unlikely(!c->front.head)) {
		if (c->group) {
			id = scheduler_member(sch, id);
			if (!id)
				return NULL;
			id--;
			c = class_at(id);
		}
		if (!c->front.head)
			return send_sorted(sch, id);
	}
	s = front_del(c, &len);
	qdisc_loses(sch, len);
	if (delay_waits(c, s))
		delay_end(id, s, ALL_FLOWS);
	count_sent(c, sch, id, len);
	wait_look(c, id, 0);
	skb = slot_empty(s - 1); /* late, so that little has to be kept meanwhile */
	slot_give(s);
	if (unlikely(!skb))
		return NULL; /* cannot be: the front held this slot */
	bpf_qdisc_bstats_update(sch, skb);
	return skb;
}

/* Before the qdisc, where a class of the link asks for ECN (ecn.h). */
SEC("tcx/egress")
int weir_mark_ce(struct __sk_buff *skb)
{
	if (unlikely(owed_until))
		ecn_pay(skb);
	return TC_ACT_UNSPEC; /* the same number as TCX_NEXT */
}

SEC("struct_ops/weir_init")
int BPF_PROG(weir_init, struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	sch->limit = WEIR_SLOTS;
	apply_changes();
	return 0;
}

SEC("struct_ops/weir_reset")
void BPF_PROG(weir_reset, struct Qdisc *sch)
{
	reset();
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
