/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Classes and the packets that wait in them.
 *
 * A waiting packet sits in a slot: an element of the array map `slots` with
 * one kernel pointer to the skb. A list of packets is a list of slot numbers;
 * free slots are a list too. So there is no allocation and no lock per packet:
 * the qdisc lock, which the kernel holds around every operation, is enough.
 * Length and successor of a slot live in plain global memory (`line`), which
 * costs no map lookup.
 *
 * Each class has a list of its own, the front, whose packets leave before those
 * in the queues of its discipline (flow.h). All packets of a fifo are there; of
 * sfq the one that found the class empty, which needs no sorting; and after a
 * change of discipline whatever waited then.
 *
 * The first WEIR_MAX_CLASSES slots belong to one class each: the packet of a fifo
 * or sfq that finds its class empty takes that slot, so it needs no search, and no
 * flood of others can take its place. While it is alone its length is the class's
 * backlog, and nothing is written down about it.
 *
 * One load of the object serves one link, so plain globals are that link's.
 *
 * Not done here: deciding which class sends. That is fair.h, qcon.h and ancs.h.
 */
#ifndef WEIR_QUEUE_H
#define WEIR_QUEUE_H

#include "kernel.h"
#include "weir.h"

#define FRAME 1514 /* bytes of a full Ethernet frame */

struct slot {
	struct sk_buff __kptr *skb;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_PLACES);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

/* What is known of the packet in slot i. */
struct place {
	__u32 next; /* slot number plus one */
	__u32 len; /* bytes charged */
	__u32 since; /* when it joined its flow, ns >> AGE_SHIFT; at the front nobody asks */
};

/* The state that user space reads: one array of classes, one link. */
struct weir_class classes[WEIR_MAX_CLASSES];

static struct place line[WEIR_PLACES];
static __u32 free_slot; /* list of free slots that belong to no class, number plus one */
static __u32 fresh_slots; /* how many of those were ever used */

/* The link's configuration in force, copied under the qdisc lock. */
struct weir_link_config link_now;

static __always_inline struct weir_class *class_at(__u64 id)
{
	return &classes[bounded(id, WEIR_MAX_CLASSES)];
}

static __always_inline struct place *place_at(__u64 slot)
{
	return &line[bounded(slot, WEIR_PLACES)];
}

/* ns that `len` bytes take at `cost`, rounded. */
static __always_inline __u64 span(__u64 len, __u64 cost)
{
	return (len * cost + (1 << (WEIR_NS_SHIFT - 1))) >> WEIR_NS_SHIFT;
}

/*
 * Bytes that a packet is charged: pkt_len plus the link's overhead, which may be
 * negative. At least 1: ARP (42 bytes) is shorter than an overhead of -64, and a
 * sum below 0 would wrap to four billion. With 0 such packets would be free, and a
 * flood of them would move no clock.
 */
static __always_inline __u32 charged(__u32 pkt_len)
{
	__s64 len = pkt_len + link_now.overhead;

	return likely(len > 0) ? len : 1;
}

/*
 * Does a class that has `waiting` bytes leave room for `len` more on the link? It
 * may hold at most as many bytes as are still free there.
 */
static __always_inline bool link_has_room(__u64 waiting, __u64 on_link, __u64 len)
{
	return waiting + on_link + len <= link_now.limit_bytes;
}

/*
 * Why a packet of `len` bytes may not join class c, where others wait;
 * WEIR_DROP_REASONS if it may. When slots or bytes run short a class may hold at
 * most as many as are still free, so that a flood never takes the last ones
 * (dynamic threshold of Choudhury and Hahne with alpha = 1). Example: two floods
 * hold 42 MiB each of a limit of 128, and leave 42 to others.
 */
static __always_inline __u32 class_refuses(struct weir_class *c, struct Qdisc *sch, __u64 len)
{
	if (c->qlen >= c->limit_packets)
		return WEIR_DROP_CLASS_PACKETS;
	if (sch->q.qlen >= WEIR_MAX_SLOTS || c->qlen >= WEIR_MAX_SLOTS - sch->q.qlen)
		return WEIR_DROP_LINK_PACKETS;
	if (c->backlog + len > c->limit_bytes)
		return WEIR_DROP_CLASS_BYTES;
	if (!link_has_room(c->backlog, sch->qstats.backlog, len))
		return WEIR_DROP_LINK_BYTES;
	return WEIR_DROP_REASONS;
}

/* A free slot plus one, 0 if there is none. */
static __always_inline __u32 slot_take(void)
{
	__u32 s = free_slot;

	if (s)
		free_slot = place_at(s - 1)->next;
	else if (fresh_slots < WEIR_MAX_SLOTS)
		s = WEIR_MAX_CLASSES + ++fresh_slots;
	return s;
}

static __always_inline void slot_give(__u32 s)
{
	if (s <= WEIR_MAX_CLASSES)
		return; /* a class's own */
	place_at(s - 1)->next = free_slot;
	free_slot = s;
}

/* The first packet of class id, in the class's own slot. */
static __always_inline void front_begin(struct weir_class *c, __u32 id, __u64 len)
{
	c->head = c->tail = id + 1;
	c->qlen = 1;
	c->backlog = len;
}

/*
 * Class c, at whose front a packet waits alone, gets a second one: what the
 * first one's slot is to say of it is written down.
 */
static __always_inline void front_note(struct weir_class *c)
{
	struct place *p = place_at(c->head - 1);

	p->next = 0;
	p->len = c->backlog;
}

/* Puts slot s (plus one) behind those at the front of class c, which is not empty. */
static __always_inline void front_add(struct weir_class *c, __u32 s, __u64 len)
{
	struct place *p = place_at(s - 1);

	p->next = 0;
	p->len = len;
	place_at(c->tail - 1)->next = s;
	c->tail = s;
	c->qlen++;
	c->backlog += len;
}

/* Takes the first slot (plus one) off the front of class c, which is not empty. */
static __always_inline __u32 front_del(struct weir_class *c, __u32 *len)
{
	__u32 s = c->head;
	struct place *p;

	if (c->qlen == 1) {
		*len = c->backlog;
		c->head = 0;
		c->qlen = 0;
		c->backlog = 0;
		return s;
	}
	p = place_at(s - 1);
	*len = p->len;
	c->head = p->next;
	c->qlen--;
	c->backlog -= *len;
	return s;
}

#endif /* WEIR_QUEUE_H */
