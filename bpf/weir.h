/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel side and the Go side of Weir share: limits, the layout of
 * every map value, the reasons for a drop. Go reads the structs and enums from
 * the object's BTF (bpf2go), so this is the only place where they are written.
 *
 * Two kinds of data, never mixed in one map:
 *   configuration  the agent writes it, the qdisc only reads it
 *                  (weir_class_config, weir_link_config, the change ring,
 *                  whose sockets are whose);
 *   state          the qdisc writes it under the qdisc lock, the agent only
 *                  reads it (weir_class, weir_flow, weir_queue_stats).
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

#ifndef WEIR_SMALL
#define WEIR_MAX_CLASSES 4096 /* class numbers 0 (the host) to 4095 */
#define WEIR_SLOTS 32768 /* of packets that wait on one link: one for each class, and */
#define WEIR_SHARED_SLOTS 28672 /* these for all */
#define WEIR_FLOWS 32768 /* hashed flows of all classes that are remembered */
#else /* the profile for boards with little memory: an eighth of it all */
#define WEIR_MAX_CLASSES 512
#define WEIR_SLOTS 4096
#define WEIR_SHARED_SLOTS 3584
#define WEIR_FLOWS 4096
#endif
#define WEIR_RING 1024 /* changes on their way to the kernel; a power of two */
#define WEIR_RING_LINK 0xffff /* ring entry: the link's own configuration */
#define WEIR_MAX_WEIGHT 10000
#define WEIR_COST_ONE 1024 /* virtual time per byte at WEIR_MAX_WEIGHT */
#define WEIR_NS_SHIFT 20 /* time costs are ns per byte times 2^20 */
#define WEIR_NAME_LEN 64
#define WEIR_QUEUE_NAME_LEN 24
#define WEIR_MAX_QUEUES 8 /* queues with rules that a class can have */
#define WEIR_HASHED 256 /* flows that sfq tells apart in a class */
#define WEIR_OWNERS 4096 /* cgroups of workloads */
#define WEIR_DELAY_BINS 480 /* of the histogram of delays */
#define WEIR_CREDIT_PERIOD_NS 30000000ULL /* qcon, ancs: credits are handed out every 30 ms */

/* Why a packet was dropped. The Go side turns WEIR_DROP_X_Y into "x_y". */
enum weir_drop {
	WEIR_DROP_CLASS_PACKETS, /* the class holds its limit of packets */
	WEIR_DROP_CLASS_BYTES, /* the class holds its limit of bytes, or of answers of the kernel's */
	WEIR_DROP_LINK_PACKETS, /* the link is full and this class holds its part */
	WEIR_DROP_LINK_BYTES, /* the link holds its limit of bytes */
	WEIR_DROP_RESET, /* the qdisc was removed or the device went down */
	WEIR_DROP_QUEUE_PACKETS, /* the queue inside the class holds its limit of packets */
	WEIR_DROP_POLICED, /* llq's strict queue is above its rate while others wait */
	WEIR_DROP_AQM, /* CoDel: packets have waited too long for too long */
	WEIR_DROP_REASONS,
};
#define NOT_DROPPED WEIR_DROP_REASONS

/* Which class sends next: number and name of the functions (schedulers/table.h). */
#define WEIR_SCHEDULERS(ROW, ...)                                                                  \
	ROW(WEIR_SCHED_FAIR, fair, ##__VA_ARGS__)                                                  \
	ROW(WEIR_SCHED_QCON, qcon, ##__VA_ARGS__)                                                  \
	ROW(WEIR_SCHED_ANCS, ancs, ##__VA_ARGS__)                                                  \
	WEIR_EXTRA_SCHEDULER(ROW, ##__VA_ARGS__)

#ifndef WEIR_EXTRA_SCHEDULER /* one more by -D, to try it: docs/write-a-scheduler.md */
#define WEIR_EXTRA_SCHEDULER(ROW, ...)
#endif

enum weir_scheduler {
#define ROW(number, name) number,
	WEIR_SCHEDULERS(ROW)
#undef ROW
};

/*
 * Which of a class's packets goes first: number, name of the functions, and what
 * tells flows apart (disciplines/table.h). sfq stays the first one.
 */
#define WEIR_DISCIPLINES(ROW)                                                                      \
	ROW(WEIR_SFQ, sfq, HASH)                                                                   \
	ROW(WEIR_PQ, pq, QUEUE)                                                                    \
	ROW(WEIR_CBWFQ, cbwfq, QUEUE)                                                              \
	ROW(WEIR_LLQ, llq, QUEUE)                                                                  \
	WEIR_EXTRA_ROW(ROW)

#ifndef WEIR_EXTRA_ROW /* one more by -D, to try it: docs/write-a-discipline.md */
#define WEIR_EXTRA_ROW(ROW)
#endif

/* Go knows WEIR_X as "x". */
enum weir_discipline {
	WEIR_NONE, /* the class does not exist */
	WEIR_FIFO, /* all its packets are at the front (core/class.h), so it needs no functions */
#define ROW(number, name, key) number,
	WEIR_DISCIPLINES(ROW)
#undef ROW
};

/* Which wheel a class is in. */
enum weir_where {
	WEIR_OUT, /* in none: idle, being served, or the newcomer */
	WEIR_WAITING, /* in the share wheel, and in the floor wheel if it has a min */
	WEIR_THROTTLED, /* at its max, in the throttled wheel */
	WEIR_URGENT, /* boosted: behind the newcomer, */
	WEIR_EARLY, /* or as WEIR_WAITING, until it may be */
};

/* What most classes do not have: bits of weir_class.rates. */
#define WEIR_RATES 1 /* a min or a max */
#define WEIR_GROUPED 2 /* a group */
#define WEIR_PACED 4 /* an interval: core/fst.h */

#define WEIR_TURNS 8 /* bit of other_queue: that queue's flows take turns, as those of sfq */

/* One queue inside a class, one that rules fill, as the agent wants it. */
struct weir_queue_config {
	__u64 cost; /* cbwfq, llq: virtual time per byte, WEIR_COST_ONE for the heaviest */
	__u64 limit_packets;
	__u64 peers; /* pq: bit i = queue i has the same priority, or is this one */
	__u64 interval; /* ns << WEIR_NS_SHIFT per byte of its schedule; 0 = none */
	/* For people and for an agent that adopts. */
	__u64 priority;
	__u64 weight_bps; /* what the cost was made of */
	__u64 reserve_bps; /* goodput that the interval is to hold */
	__u8 name[WEIR_QUEUE_NAME_LEN]; /* cut off if longer */
};

/* One class as the agent wants it; element of the map `class_config`. */
struct weir_class_config {
	__u64 share_cost; /* virtual time per byte; 0 = class does not exist */
	__u64 floor_cost; /* ns << WEIR_NS_SHIFT per byte at its min; 0 = no min */
	__u64 ceil_cost; /* the same at its max; 0 = no max */
	__u64 ceil_burst; /* ns of its max that it may save up while it is quiet */
	__u64 interval; /* the same of its schedule of future service times; 0 = none */
	__u64 weight; /* qcon, ancs: 1 to WEIR_MAX_WEIGHT */
	__u64 min_credit; /* qcon, ancs: bytes per period; 0 = no min */
	__u64 max_credit; /* qcon, ancs: bytes per period; 0 = no max */
	__u64 limit_bytes;
	__u64 limit_packets;
	__u64 group; /* it is a group: packets cannot carry its number */
	__u64 parent; /* the group that it is in; 0 = none */
	__u64 discipline; /* enum weir_discipline */
	__u64 queues; /* of pq, cbwfq and llq: 1 to WEIR_MAX_QUEUES */
	__u64 other_queue; /* the one for a packet that names none of them, and WEIR_TURNS */
	struct weir_queue_config queue[WEIR_MAX_QUEUES];
	__u64 paced_queues; /* bit i = queue i has an interval */
	__u64 police_cost; /* llq: ns << WEIR_NS_SHIFT per byte at the strict queue's rate */
	__u64 police_burst; /* llq: ns that it may be ahead of its rate */
	__u64 aqm_target; /* CoDel: ns a packet may wait; 0 = off */
	__u64 aqm_interval; /* CoDel: ns for which it may wait longer */
	__u64 ce_above; /* ECN: ns, an ECT packet behind one that waited for longer is marked; ~0 = CoDel alone marks; 0 = no ECN */
	__u64 ack_filter; /* an ACK that waits gives way to a newer one: core/ack.h */
	/* What the costs were made of, for people and for an agent that adopts. */
	__u64 min_bps, max_bps, police_bps;
	__u64 burst_bytes;
	__u64 reserve_bps; /* goodput that the interval is to hold */
	__u8 name[WEIR_NAME_LEN]; /* cut off if longer */
};

/* In what a line carries frames. */
enum {
	WEIR_FRAMES,
	WEIR_ATM, /* whole cells of 53 bytes for 48 */
	WEIR_PTM, /* 65 bytes for each 64 */
};

/* The link as the agent wants it; the only element of `link_config`. */
struct weir_link_config {
	__u64 link_cost; /* ns << WEIR_NS_SHIFT per byte at the link's capacity */
	__u64 batch_ns; /* fair: how far ahead of the line a batch may run */
	__u64 quantum; /* fair: bytes a class sends before the next one's turn */
	__u64 bulk_batch_ns; /* fair: the same two while no class is boosted */
	__u64 bulk_quantum;
	__u64 share_shift; /* fair: virtual time per bucket of the share wheel, log 2 */
	__u64 total_credit; /* qcon, ancs: bytes of one period at the link's capacity */
	__u64 limit_bytes; /* all classes together */
	/* What the line takes of each frame (core/framing.h), bytes. */
	__s64 overhead; /* added to its length */
	__s32 tag; /* the part of `overhead` that is of the device: VLANs that it adds, a header that it lacks */
	__u32 least; /* of the shortest frame */
	__u32 cells; /* WEIR_FRAMES, WEIR_ATM or WEIR_PTM */
	__u8 from_ip; /* `overhead` is added to the length from the IP header on */
	__u8 framed; /* 0 = what the kernel counts is what the line takes */
	__u16 unused;
	/* What the costs were made of. */
	__u64 capacity_bps;
	__u64 reserve_ppm; /* share of the capacity that mins may take, millionths */
};

/* How packets of local sockets are looked at; the only element of `sockets` (core/sockets.h). */
struct weir_sockets {
	__u32 levels; /* bit i = `owners` has cgroups that are i below the top */
	__u32 steered; /* 0 = what their packets carry is believed: no socket sends to an IFB */
};

/* A class's links in one wheel; class numbers plus one, 0 = none. */
struct weir_node {
	__u16 next;
	__u16 prev;
	__u16 bucket;
	__u16 pad;
};

/* A list of packets (core/packets.h). Slot numbers plus one; head 0 = empty. */
struct weir_list {
	__u32 head, tail;
};

/*
 * One class as it is. Times are CLOCK_MONOTONIC ns, virtual times count
 * share_cost per byte and may wrap: compare them by their difference only.
 */
struct weir_class {
	/* queue: every packet */
	__u32 discipline; /* enum weir_discipline; WEIR_NONE = not configured */
	__u32 qlen; /* packets waiting, wherever */
	__u64 backlog; /* bytes waiting */
	struct weir_list front; /* packets that leave before those of the discipline */
	__u32 rates; /* WEIR_RATES, WEIR_GROUPED, WEIR_PACED */
	__u32 limit_packets;
	__u64 limit_bytes;

	/* schedule: every packet that is sent */
	__u64 v; /* virtual time at which its next byte is due */
	__u64 share_cost;
	__u64 floor_at; /* when its min is owed the next packet */
	__u64 floor_cost;
	__u64 ceil_at; /* when its max permits the next packet; paced: FST of the last one */
	__u64 ceil_cost;
	__u32 ceil_ahead; /* ns that it may be ahead of that, */
	__u32 ceil_part; /* of span_exact (core/class.h), as the other parts */
	__u64 ceil_burst; /* and behind, which it makes good: core/fst.h */
	__s64 credit; /* qcon, ancs: what it may still send, bytes */
	__s64 granted; /* qcon, ancs: credit at the start of the period, bytes */
	struct weir_node
		node[3]; /* [0] share or throttled wheel, [1] floor wheel, [2] core/hold.h */
	__u8 where; /* enum weir_where */
	__u8 group; /* it is a group; qlen counts its members that have packets */
	__u16 seen; /* qcon, ancs: had packets in this period */
	__u32 parent; /* the group that it is in */
	__u32 floor_part;
	__u32 boost_ns; /* fair: ns that it had of a busy line, */
	__u32 boost_batch; /* in the batch of this number */
	__u32 round; /* fair: how seldom its turn comes, ticks, */
	__u32 sent_tick; /* and when it sent last; kept for classes with a min or a max */
	__u32 row; /* sfq: bytes that new flows have sent since the circle's last turn */

	/* counters: enqueued = sent + drops + qlen + held; bytes offered alike */
	__u64 enqueued_packets;
	__u64 sent_packets, sent_bytes;
	__u64 dropped_bytes;
	__u64 drops[WEIR_DROP_REASONS];
	/* waiting (core/waiting.h) */
	__u64 wait_since; /* ns; two packets waited then, and one has ever since; 0 = so it is not */
	__u64 wait_from; /* sent_bytes at that time */
	__u64 waited; /* ns, in such times that are over */
	__u64 waited_bytes; /* sent in them */
	/* delays (core/delay.h) */
	__u64 draw_at; /* the packet that is drawn next, by enqueued_packets */
	__u32 drawn_when; /* when the last one was, ns >> AGE_SHIFT */
	__u16 draws; /* packets that wait and were drawn */
	__u8 draw_run; /* a run has 1 << draw_run packets */
	__u8 draw_place; /* which of them is drawn, from 1 on */
	__u64 thinned; /* ACKs that gave way to newer ones; counted nowhere else */
	__u64 marked; /* ECN: packets with CE; counted before enqueue, outside of the qdisc's lock */

	/* discipline: packets that find others waiting */
	__u32 sorted; /* packets in the discipline's queues; the rest is at the front */
	__u16 new_head, new_tail, old_head, old_tail; /* sfq: entries in the store plus one */
	__u16 active; /* pq, cbwfq, llq: bit i = queue i has packets */
	__u8 queues, other_queue;
	__u8 peers[WEIR_MAX_QUEUES]; /* pq: bit i = queue i has the same priority, or is this one */
	__u32 largest; /* sfq: bytes of the largest packet that came of late, times 2^SFQ_SCALE */
	__u32 police_part; /* llq */
	__u64 queue_v; /* cbwfq, llq: virtual time among the queues */
	__u64 police_at; /* llq: up to when the strict queue has used its rate */
	__u64 police_cost, police_burst;
	__u64 aqm_target, aqm_interval, ce_above;
	__u64 ack_filter;

	/* queues with an interval (core/hold.h) */
	__u32 held; /* packets that are not among qlen yet */
	__u8 paced_queues; /* bit i = queue i has one */
	__u8 planned; /* it is in the wheel of those with held packets */
	__u16 fat; /* sfq: a flow with much waiting, an entry as the ones above; here it fills a gap */
	__u64 held_bytes; /* not among the backlog */
	__u64 hold_at; /* when to look at it */

	/* qcon, ancs: seldom */
	__u64 weight, min_credit, max_credit;
};

/*
 * Packets inside a class that keep their order among themselves: one of its
 * queues with rules, or one hashed flow of sfq.
 */
struct weir_flow {
	struct weir_list list; /* not of a queue whose flows take turns */
	__u32 qlen;
	__u32 backlog; /* bytes */
	__u64 v; /* cbwfq, llq: virtual time at which its next byte is due */
	__u64 cost; /* the same per byte */
	union {
		__u32 limit_packets; /* of a queue with rules */
		__u32 hash; /* sfq: whose it is */
	};
	__s32 deficit; /* sfq: bytes left of its turn */
	__u16 next; /* sfq: in the circle; idle: least recently used first */
	__u16 prev; /* idle */
	__u16 next_new; /* sfq: among the new */
	__u16 listed; /* sfq: SFQ_LISTED, SFQ_NEW */
	__u32 owner; /* sfq: its index in `hashed` */
	/* CoDel (RFC 8289) */
	__u32 count, last_count; /* drops since it began to drop, and the time before */
	__u8 dropping;
	__u8 ecn; /* ECN_ABOVE, ECN_DROP */
	__u64 first_above; /* when the delay will have been above the target for an interval; 0 = it is not */
	__u64 drop_next; /* when to drop the next one, while dropping; else the last such time */
};

/* How long packets of a class or queue waited (core/delay.h): how many, by bins of delays. */
struct weir_delays {
	__u32 packets[WEIR_DELAY_BINS]; /* may wrap */
};

/* Counters of one queue with rules: enqueued = sent + drops + qlen. */
struct weir_queue_stats {
	__u64 enqueued_packets;
	__u64 sent_packets, sent_bytes;
	__u64 dropped_bytes;
	__u64 drops[WEIR_DROP_REASONS];
};

#endif /* WEIR_H */
