/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Classes: the packets at their front, what they count, how much they may hold.
 *
 * Each class has a list of its own, the front, whose packets leave before those
 * in the queues of its discipline (flow.h). All packets of a fifo are there; of
 * sfq the one that found the class empty, which needs no sorting; and after a
 * change of discipline those that waited then.
 *
 * The packet of a fifo or sfq that finds its class empty takes the slot that belongs to
 * the class (packets.h), so it needs no search. While it is alone its length is the
 * class's backlog, and nothing is written down about it.
 *
 * The lengths of class and qdisc change in four functions here and nowhere else:
 * class_gains, class_loses, qdisc_gains, qdisc_loses.
 *
 * One load of the object serves one link, so plain globals are that link's.
 *
 * Not done here: deciding which class sends. That is a scheduler
 * (schedulers/table.h).
 */
#ifndef WEIR_CLASS_H
#define WEIR_CLASS_H

#include "packets.h"

/* The state that user space reads: one array of classes, one link. */
struct weir_class classes[WEIR_MAX_CLASSES];

/* What the agent wants of them (changes.h). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_MAX_CLASSES);
	__type(key, __u32);
	__type(value, struct weir_class_config);
} class_config SEC(".maps");

/* The link's configuration in force, copied under the qdisc lock. */
struct weir_link_config link_now;

static __always_inline struct weir_class *class_at(__u64 id)
{
	return &classes[bounded(id, WEIR_MAX_CLASSES)];
}

/* ns that `len` bytes take at `cost`, rounded. */
static __always_inline __u64 span(__u64 len, __u64 cost)
{
	return (len * cost + (1 << (WEIR_NS_SHIFT - 1))) >> WEIR_NS_SHIFT;
}

/*
 * The same for a clock, which loses nothing by rounding: `part`, ns << WEIR_NS_SHIFT, is
 * what it lacks. Small packets add up: 84 bytes at 9 Gbit/s take 74.67 ns.
 */
static __always_inline __u64 span_exact(__u64 len, __u64 cost, __u32 *part)
{
	__u64 sum = *part + len * cost;

	*part = sum & ((1 << WEIR_NS_SHIFT) - 1);
	return sum >> WEIR_NS_SHIFT;
}

/* A packet of `len` bytes is among those that the scheduler sees of class c. */
static __always_inline void class_gains(struct weir_class *c, __u64 len)
{
	c->qlen++;
	c->backlog += len;
}

static __always_inline void class_loses(struct weir_class *c, __u64 len)
{
	c->qlen--;
	c->backlog -= len;
}

/* A packet of `len` bytes has come to wait in the qdisc. Says whether it is alone. */
static __always_inline bool qdisc_gains(struct Qdisc *sch, __u64 len)
{
	__u32 waiting = sch->q.qlen;

	sch->q.qlen = waiting + 1;
	sch->qstats.backlog += len;
	return !waiting;
}

static __always_inline void qdisc_loses(struct Qdisc *sch, __u64 len)
{
	sch->q.qlen--;
	sch->qstats.backlog -= len;
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
 * NOT_DROPPED if it may. When slots or bytes run short a class may hold at
 * most as many as are still free, so that a flood never takes the last ones
 * (dynamic threshold of Choudhury and Hahne with alpha = 1). Example: two floods
 * hold 42 MiB each of a limit of 128, and leave 42 to others.
 */
static __always_inline __u32 class_refuses(struct weir_class *c, struct Qdisc *sch, __u64 len)
{
	if (c->qlen >= c->limit_packets)
		return WEIR_DROP_CLASS_PACKETS;
	if (sch->q.qlen >= WEIR_SHARED_SLOTS || c->qlen >= WEIR_SHARED_SLOTS - sch->q.qlen)
		return WEIR_DROP_LINK_PACKETS;
	if (c->backlog + len > c->limit_bytes)
		return WEIR_DROP_CLASS_BYTES;
	if (!link_has_room(c->backlog, sch->qstats.backlog, len))
		return WEIR_DROP_LINK_BYTES;
	return NOT_DROPPED;
}

/* The first packet of a class, which is in the class's own slot s. */
static __always_inline void front_begin(struct weir_class *c, slot_ref s, __u64 len)
{
	c->front.head = s;
	c->qlen = 1;
	c->backlog = len;
}

/*
 * Class c gets another packet. If one waits alone at its front, what is known of that one
 * is written down now.
 */
static __always_inline void front_note(struct weir_class *c)
{
	struct packet *p;

	if (c->qlen != 1 || !c->front.head)
		return;
	c->front.tail = c->front.head;
	p = packet_at(c->front.head - 1);
	p->next = 0;
	p->len = c->backlog;
}

/* Puts a packet at the end of the front of class c. `some` = there are packets. */
static __always_inline void front_add(struct weir_class *c, bool some, slot_ref s, __u64 len)
{
	list_add(&c->front, some, s, len);
	class_gains(c, len);
}

/*
 * Between stores of 0 side by side: the compiler would make one of them and then, since it
 * does not know that they are aligned, many small ones.
 */
#define apart() asm volatile("" : : : "memory")

/* Takes the first packet off the front of class c, which is not empty. */
static __always_inline slot_ref front_del(struct weir_class *c, __u32 *len)
{
	slot_ref s = c->front.head;

	if (c->qlen == 1) {
		*len = c->backlog;
		c->backlog = 0;
		apart();
		c->qlen = 0;
		apart();
		c->front.head = 0;
		return s;
	}
	list_del(&c->front, len);
	class_loses(c, *len);
	return s;
}

#endif /* WEIR_CLASS_H */
