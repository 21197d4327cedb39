/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel side and the Go side of Weir share: limits, the layout of
 * every map value, the reasons for a drop. Go reads the structs and enums from
 * the object's BTF (bpf2go), so this is the only place where they are written.
 *
 * Two kinds of data, never mixed in one map:
 *   configuration  the agent writes it, the qdisc only reads it
 *                  (weir_class_config, weir_link_config, the change ring);
 *   state          the qdisc writes it under the qdisc lock, the agent only
 *                  reads it (weir_class, weir_link).
 * A change travels like a letter: the agent writes the new configuration, puts
 * the class number into the ring and raises `published`; the next enqueue or
 * dequeue, holding the qdisc lock, copies it into the state and raises
 * `applied`. So no packet ever sees half a change, and none is lost to one.
 *
 * Example: weight 3, min 20 Mbit/s, no max on a link becomes
 *   share_cost     = WEIR_COST_ONE * WEIR_MAX_WEIGHT / 3 per byte
 *   floor_cost = 8e9 / 20e6 = 400 ns per byte, times 2^WEIR_NS_SHIFT
 *   ceil_cost  = 0
 */
#ifndef WEIR_H
#define WEIR_H

#define WEIR_MAX_CLASSES 4096 /* class numbers 0 (the host) to 4095 */
#define WEIR_PLACES 32768 /* packets that may wait on one link: */
#define WEIR_MAX_SLOTS 28672 /* beside one of each class */
#define WEIR_RING 1024 /* changes on their way to the kernel; a power of two */
#define WEIR_RING_LINK 0xffff /* ring entry: the link's own configuration */
#define WEIR_MAX_WEIGHT 10000
#define WEIR_COST_ONE 1024 /* virtual time per byte at WEIR_MAX_WEIGHT */
#define WEIR_NS_SHIFT 20 /* time costs are ns per byte times 2^20 */
#define WEIR_NAME_LEN 64
#define WEIR_CREDIT_PERIOD_NS 30000000ULL /* qcon, ancs: credits are handed out every 30 ms */

/* Why a packet was dropped. The Go side turns WEIR_DROP_X_Y into "x_y". */
enum weir_drop {
	WEIR_DROP_CLASS_PACKETS, /* the class's queue holds its limit of packets */
	WEIR_DROP_CLASS_BYTES, /* the class's queue holds its limit of bytes */
	WEIR_DROP_LINK_PACKETS, /* the link is full and this class holds its part */
	WEIR_DROP_LINK_BYTES, /* the link holds its limit of bytes */
	WEIR_DROP_RESET, /* the qdisc was removed or the device went down */
	WEIR_DROP_REASONS,
};

enum weir_scheduler {
	WEIR_SCHED_FAIR,
	WEIR_SCHED_QCON,
	WEIR_SCHED_ANCS,
};

/* Which wheel a class is in. */
enum weir_where {
	WEIR_OUT, /* in none: idle, being served, or the newcomer */
	WEIR_WAITING, /* in the share wheel, and in the floor wheel if it has a min */
	WEIR_PARKED, /* at its max, in the park wheel */
};

/* One class as the agent wants it; element of the map `class_config`. */
struct weir_class_config {
	__u64 share_cost; /* virtual time per byte; 0 = class does not exist */
	__u64 floor_cost; /* ns << WEIR_NS_SHIFT per byte at its min; 0 = no min */
	__u64 ceil_cost; /* the same at its max; 0 = no max */
	__u64 weight; /* qcon, ancs: 1 to WEIR_MAX_WEIGHT */
	__u64 min_credit; /* qcon, ancs: bytes per period; 0 = no min */
	__u64 max_credit; /* qcon, ancs: bytes per period; 0 = no max */
	__u64 limit_bytes;
	__u64 limit_packets;
	/* What the costs were made of, for people and for an agent that adopts. */
	__u64 min_bps, max_bps;
	__u8 name[WEIR_NAME_LEN]; /* cut off if longer */
};

/* The link as the agent wants it; the only element of `link_config`. */
struct weir_link_config {
	__u64 link_cost; /* ns << WEIR_NS_SHIFT per byte at the link's capacity */
	__u64 batch_ns; /* fair: how far ahead of the line a batch may run */
	__u64 quantum; /* fair: bytes a class sends before the next one's turn */
	__u64 bulk_batch_ns; /* fair: the same two while nobody is in a hurry */
	__u64 bulk_quantum;
	__u64 share_shift; /* fair: virtual time per bucket of the share wheel, log 2 */
	__u64 total_credit; /* qcon, ancs: bytes of one period at the link's capacity */
	__u64 limit_bytes; /* all classes together */
	__s64 overhead; /* added to the length of each packet, bytes */
	/* What the costs were made of. */
	__u64 capacity_bps;
	__u64 reserve_ppm; /* share of the capacity that mins may take, millionths */
};

/* A class's links in one wheel; class numbers plus one, 0 = none. */
struct weir_node {
	__u16 next;
	__u16 prev;
	__u16 bucket;
	__u16 pad;
};

/*
 * One class as it is. Times are CLOCK_MONOTONIC ns, virtual times count
 * share_cost per byte and may wrap: compare them by their difference only.
 */
struct weir_class {
	/* queue: every packet */
	__u32 head, tail; /* slot numbers plus one, 0 = empty */
	__u32 qlen; /* packets waiting */
	__u32 limit_packets;
	__u64 backlog; /* bytes waiting */
	__u64 limit_bytes;

	/* schedule: every packet that is sent */
	__u64 v; /* virtual time at which its next byte is due */
	__u64 share_cost;
	__u64 floor_at; /* when its min is owed the next packet */
	__u64 floor_cost;
	__u64 ceil_at; /* when its max permits the next packet */
	__u64 ceil_cost;
	__s64 credit; /* qcon, ancs: what it may still send, bytes */
	__s64 granted; /* qcon, ancs: credit at the start of the period, bytes */
	struct weir_node node[2]; /* [0] share or park wheel, [1] floor wheel */
	__u32 where; /* enum weir_where */
	__u32 exists; /* configured: packets may carry this number */
	__u32 seen; /* qcon, ancs: had packets in this period */
	__u32 pad;

	/* counters: enqueued = sent + drops + waiting, for packets and bytes */
	__u64 enqueued_packets, enqueued_bytes;
	__u64 sent_packets, sent_bytes;
	__u64 dropped_bytes;
	__u64 drops[WEIR_DROP_REASONS];

	/* qcon, ancs: seldom */
	__u64 weight, min_credit, max_credit;
};

#endif /* WEIR_H */
