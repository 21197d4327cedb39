/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Waiting packets: slots, and lists of them.
 *
 * A waiting packet sits in a slot: an element of the array map `slots` with
 * one kernel pointer to the skb. A list of packets is a list of slots; the free
 * slots are a list too. So there is no allocation and no lock per packet: the
 * qdisc lock, which the kernel holds around every operation, is enough. The
 * length of a packet and its successor live in plain global memory (`packets`),
 * which costs no map lookup.
 *
 * Example: a queue of two packets in slots 4101 and 4096 is
 *
 *     list {head 4102, tail 4097}, packets[4101].next = 4097, packets[4096].next = 0
 *
 * The first WEIR_MAX_CLASSES slots belong to one class each (class.h), so that no
 * flood of other classes can take them. The rest is for all.
 *
 * Not done here: counting. The class and the qdisc that a packet waits in count it
 * (class.h).
 */
#ifndef WEIR_PACKETS_H
#define WEIR_PACKETS_H

#include "kernel.h"
#include "../weir.h"

#define FRAME 1514 /* bytes of a full Ethernet frame */

/*
 * References, here and in all of bpf/: a number plus one, 0 = none. They fit where 0
 * is what memory begins with.
 */
typedef __u32 slot_ref;
typedef __u32 class_ref;

struct slot {
	struct sk_buff __kptr *skb;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WEIR_SLOTS);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

/* The packet in slot i. */
struct packet {
	slot_ref next;
	__u32 len; /* bytes charged */
	/* When it joined its flow, ns >> AGE_SHIFT; not kept at the front. Before that, while it
	 * waits for its time of departure, that time. */
	__u32 since;
};

static struct packet packets[WEIR_SLOTS];
static slot_ref free_slot; /* list of free slots that belong to no class */
static __u32 fresh_slots; /* how many of those were ever used */

static __always_inline struct packet *packet_at(__u64 slot)
{
	return &packets[bounded(slot, WEIR_SLOTS)];
}

/* A free slot, 0 if there is none. */
static __always_inline slot_ref slot_take(void)
{
	slot_ref s = free_slot;

	if (s)
		free_slot = packet_at(s - 1)->next;
	else if (fresh_slots < WEIR_SHARED_SLOTS)
		s = WEIR_MAX_CLASSES + ++fresh_slots;
	return s;
}

static __always_inline void slot_give(slot_ref s)
{
	if (s <= WEIR_MAX_CLASSES)
		return; /* a class's own */
	packet_at(s - 1)->next = free_slot;
	free_slot = s;
}

/* Puts the packet into slot i (from 0). False, and skb is still ours: no such slot. */
#define slot_fill(i, skb, to_free)                                                                 \
	({                                                                                         \
		__u32 __key = (i);                                                                 \
		struct slot *__slot = bpf_map_lookup_elem(&slots, &__key);                         \
		if (likely(__slot)) {                                                              \
			struct sk_buff *__old = bpf_kptr_xchg(&__slot->skb, skb);                  \
			if (unlikely(__old)) /* an ACK that gave way; other slots were free */     \
				bpf_qdisc_skb_drop(__old, to_free);                                \
		}                                                                                  \
		__slot != NULL;                                                                    \
	})

/* The packet in slot i (from 0), which becomes ours; NULL if there is none. */
#define slot_empty(i)                                                                              \
	({                                                                                         \
		__u32 __key = (i);                                                                 \
		struct slot *__slot = bpf_map_lookup_elem(&slots, &__key);                         \
		__slot ? bpf_kptr_xchg(&__slot->skb, NULL) : NULL;                                 \
	})

/* Puts a packet of `len` bytes at the end of a list. `some` = the list is not empty. */
static __always_inline void list_add(struct weir_list *l, bool some, slot_ref s, __u64 len)
{
	struct packet *p = packet_at(s - 1);

	p->next = 0;
	p->len = len;
	if (some)
		packet_at(l->tail - 1)->next = s;
	else
		l->head = s;
	l->tail = s;
}

/* Takes the first packet, of *len bytes, off a list that is not empty. */
static __always_inline slot_ref list_del(struct weir_list *l, __u32 *len)
{
	slot_ref s = l->head;
	struct packet *p = packet_at(s - 1);

	*len = p->len;
	l->head = p->next;
	return s;
}

/* Moves all of `from`, which is not empty, to the end of `to`. */
static __always_inline void list_splice(struct weir_list *to, struct weir_list *from)
{
	if (to->head)
		packet_at(to->tail - 1)->next = from->head;
	else
		to->head = from->head;
	to->tail = from->tail;
	from->head = 0;
}

#endif /* WEIR_PACKETS_H */
