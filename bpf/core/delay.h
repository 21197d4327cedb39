/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Delays: how long packets wait in the qdisc, as a histogram for each class and for each of
 * its queues that rules fill.
 *
 * To read the clock twice and to count costs more than all else that the qdisc does with a
 * packet of an idle link. So a class's packets are sampled. They are cut into runs of `run`
 * packets, 1 to 128, and one packet of each run is drawn, each with the same chance. When it
 * leaves, it counts for all `run` packets. So the histogram is without bias, whatever the traffic's
 * rhythm and however long the runs are: they depend on what came before, never on the packets
 * in them. A drawn packet that is dropped counts for nothing.
 *
 *     packets    . . x . | . . . . . x . . | x . . . | ...
 *     counts         4             8         4
 *
 * How long the next run is:
 *   - twice as long, if the class had a sample less than DELAY_ENOUGH ago, or the link has
 *     drawn more than one in DELAY_ONE_IN packets and more than one in 4.2 ms (DELAY_FREE_SHIFT);
 *   - half as long, if it had none for four times as long.
 * So 8,000 packets a second have about 250 samples, and a ping each second is seen each time.
 *
 * A bin is a range of delays, counted in units of 4.1 us: one unit wide up to 131 us, from
 * there on a 32nd of the octave: its middle is at most 1.6 % off. The last one has all that is
 * longer than 2.1 s.
 *
 * Example: 5 ms are 1220 units; shifted by 5 that is below 64: bin 5 * 32 + (1220 >> 5) = 198,
 * which has 4.981 to 5.112 ms.
 *
 * User space makes the histogram (map `delays`) before it announces a class; without one
 * nothing is counted.
 */
#ifndef WEIR_DELAY_H
#define WEIR_DELAY_H

#include "flow.h"

#define DELAY_UNIT_SHIFT 2 /* of 1 << AGE_SHIFT ns */
#define DELAY_LONGEST 7 /* a run has 1 << DELAY_LONGEST packets at most */
#define DELAY_ONE_IN 32
#define DELAY_ENOUGH 3906 /* 4 ms, in 1 << AGE_SHIFT ns */
#define DELAY_FREE_SHIFT 7 /* so long counts as one packet: 4.2 ms are DELAY_ONE_IN of them */
#define DELAY_CREDIT 4096 /* packets */

/* By number of the class, or WEIR_MAX_CLASSES + rule_queue; half of them are for queues. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 2 * WEIR_MAX_CLASSES);
	__type(key, __u32);
	__type(value, struct weir_delays);
} delays SEC(".maps");

/* When the packet in a slot came if it was drawn, << 4, and 1 + the run's shift; 0 = it was not. */
static __u32 drawn[WEIR_SLOTS];
#define DRAWN_SHIFT 4

static struct {
	__s32 credit; /* packets that went by without a sample, less DELAY_ONE_IN for each sample */
	__u32 at; /* the last sample, ns >> AGE_SHIFT */
	__u32 random;
} delay_link;

static __always_inline __u32 *drawn_at(__u64 slot)
{
	return &drawn[bounded(slot, WEIR_SLOTS)];
}

/* Is the packet that has just come to class c the one that was drawn? */
static __always_inline bool delay_drawn(struct weir_class *c)
{
	return c->enqueued_packets == c->draw_at;
}

/* The next run begins where this one ends; one of its packets is drawn. */
static __always_inline void delay_draw(struct weir_class *c, __u32 now)
{
	__u32 run = 1 << c->draw_run, quiet = now - c->drawn_when;
	__u32 since = (now - delay_link.at) >> DELAY_FREE_SHIFT;
	__s32 credit = delay_link.credit + (since > run ? since : run) - DELAY_ONE_IN;
	__u32 left = run - c->draw_place, x = delay_link.random + 0x9e3779b9;

	credit = credit > DELAY_CREDIT	  ? DELAY_CREDIT
		 : credit < -DELAY_CREDIT ? -DELAY_CREDIT
					  : credit;
	if (quiet < DELAY_ENOUGH || credit < 0)
		c->draw_run += c->draw_run < DELAY_LONGEST;
	else if (quiet > 4 * DELAY_ENOUGH)
		c->draw_run -= c->draw_run > 0;
	delay_link.credit = credit;
	delay_link.at = c->drawn_when = now;
	delay_link.random = x;
	x = (x ^ x >> 16) * 0x85ebca6b;
	x ^= x >> 13;
	c->draw_place = (x & ((1 << c->draw_run) - 1)) + 1;
	c->draw_at = c->enqueued_packets + left + c->draw_place;
}

/* The packet of class id in slot s was drawn. */
__noinline int delay_begin(__u32 id, slot_ref s)
{
	struct weir_class *c = class_at(id);
	__u32 now = bpf_ktime_get_ns() >> AGE_SHIFT;

	*drawn_at(s - 1) = now << DRAWN_SHIFT | (c->draw_run + 1);
	c->draws++;
	delay_draw(c, now);
	return 0;
}

/* The same of one that is to wait until `at`: what it waits beyond that counts. */
static __noinline int delay_begin_at(__u32 id, slot_ref s, __u64 at)
{
	__u32 *d = drawn_at(s - 1);

	delay_begin(id, s);
	*d = at >> AGE_SHIFT << DRAWN_SHIFT | (*d & ((1 << DRAWN_SHIFT) - 1));
	return 0;
}

/* The packet that was drawn did not get in: the next run begins. */
__noinline int delay_missed(__u32 id)
{
	delay_draw(class_at(id), bpf_ktime_get_ns() >> AGE_SHIFT);
	return 0;
}

/* Is the packet in slot s, of class c, one that was drawn? Mostly none waits. */
static __always_inline bool delay_waits(struct weir_class *c, slot_ref s)
{
	return unlikely(c->draws) && unlikely(*drawn_at(s - 1));
}

/* The packet in slot s of class c is gone, and is not counted. */
static __always_inline void delay_lost(struct weir_class *c, slot_ref s)
{
	if (!delay_waits(c, s))
		return;
	*drawn_at(s - 1) = 0;
	c->draws--;
}

static __always_inline __u32 delay_bin(__u32 age)
{
	__u32 units = age >> DELAY_UNIT_SHIFT, octave = 0, bin;

	if (units >= 32 << 8)
		octave = 8;
	for (int i = 0; i < 8; i++)
		octave += units >> octave >= 64;
	bin = octave * 32 + (units >> octave);
	return bin < WEIR_DELAY_BINS ? bin : WEIR_DELAY_BINS - 1;
}

static __always_inline void delay_count(__u32 key, __u32 bin, __u32 run)
{
	struct weir_delays *d = bpf_map_lookup_elem(&delays, &key);

	if (d && bin < WEIR_DELAY_BINS)
		d->packets[bin] += run;
}

/*
 * The packet in slot s, which was drawn, of class id and of the queue or hashed flow `flow`
 * (ALL_FLOWS = it was at the front), has left.
 */
__noinline int delay_end(__u32 id, slot_ref s, __u32 flow)
{
	struct weir_class *c = class_at(id);
	__u32 *d = drawn_at(s - 1), run, bin;

	run = 1 << ((*d & ((1 << DRAWN_SHIFT) - 1)) - 1);
	bin = delay_bin(((__u32)(bpf_ktime_get_ns() >> AGE_SHIFT << DRAWN_SHIFT) -
			 (*d & ~((1 << DRAWN_SHIFT) - 1))) >>
			DRAWN_SHIFT);
	*d = 0;
	c->draws--;
	delay_count(id, bin, run);
	if (flow < RULE_QUEUES)
		delay_count(WEIR_MAX_CLASSES + flow, bin, run);
	return 0;
}

#endif /* WEIR_DELAY_H */
