/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Times of departure: a packet may carry the time before which it must not leave
 * (skb->tstamp). An application asks for it (SO_TXTIME), or the kernel does: TCP's pacing
 * where the socket has met the qdisc fq, and programs that set a rate by such times (EDT).
 * Here is the timing wheel in which packets wait for theirs; departures.h holds and
 * releases them.
 *
 * As in fq the time is one of CLOCK_MONOTONIC. It counts if it is less than 10 s ahead. A
 * time of another clock is decades ahead, a stamp of a packet that was received as well.
 *
 * A packet waits in the bucket of its time: 33 us wide, first in, first out, so that
 * packets of a flow keep their order; the time itself, in steps of 1,024 ns, is with the
 * packet. None leaves before its time, and none waits for longer than a bucket beyond it.
 * What is further ahead than the wheel reaches (134 ms) is in the last bucket, and is
 * added again once that one is reached.
 *
 * Example: a packet comes at 7.000 ms and asks for 12.000 ms: bucket 366, since 11,719
 * steps are 12.0003 ms. The watchdog fires then, and it joins its class.
 */
#ifndef WEIR_DEPART_H
#define WEIR_DEPART_H

#include "flow.h"

#define DEPART_HORIZON_NS 10000000000ULL
#define DEPART_SHIFT 5 /* steps of a bucket, log 2; a step is 1 << AGE_SHIFT ns */

static struct {
	__u64 at; /* none is due before */
	__u64 seen; /* when the clock was read last for one */
	__u64 cursor; /* number of the bucket where the search begins */
	__u32 count; /* packets */
	struct bits used;
	struct {
		__u16 head, tail; /* slot_ref */
	} bucket[BITS];
} departures;

static __u16
	depart_lanes[WEIR_SLOTS]; /* of the packet in a slot: its class, and its queue from here: */
#define DEPART_QUEUE 12

static __always_inline __u16 *depart_lane(slot_ref s)
{
	return &depart_lanes[bounded(s - 1, WEIR_SLOTS)];
}

/* The time of the packet in slot s, in steps; it is less than half an hour from `now`. */
static __always_inline __u64 depart_step(slot_ref s, __u64 now)
{
	__u64 steps = now >> AGE_SHIFT;

	return steps + (__s32)(packet_at(s - 1)->since - (__u32)steps);
}

/* Puts the packet in slot s, which is to leave at `step`, into the wheel. */
static __always_inline void depart_add(slot_ref s, __u64 step)
{
	__u64 ahead = (step >> DEPART_SHIFT) - departures.cursor;
	__u32 i = (departures.cursor + (ahead < BITS ? ahead : BITS - 1)) & (BITS - 1);
	__u16 tail = departures.bucket[bounded(i, BITS)].tail;

	packet_at(s - 1)->next = 0;
	if (tail)
		packet_at(tail - 1)->next = s;
	else
		departures.bucket[bounded(i, BITS)].head = s;
	departures.bucket[bounded(i, BITS)].tail = s;
	bits_set(&departures.used, i);
	departures.count++;
}

/* Takes the first packet out of bucket i, which is not empty. */
static __always_inline void depart_del(__u32 i)
{
	__u16 next = packet_at(departures.bucket[bounded(i, BITS)].head - 1)->next;

	departures.bucket[bounded(i, BITS)].head = next;
	if (!next) {
		departures.bucket[bounded(i, BITS)].tail = 0;
		bits_clear(&departures.used, i);
	}
	departures.count--;
}

/*
 * Is `at` a time of departure for which to wait? A time that was met before need not be
 * compared with the clock.
 */
__noinline int depart_later(__u64 at)
{
	__u64 now;

	keep(at);
	if (!before(departures.seen, at))
		return 0;
	now = departures.seen = bpf_ktime_get_ns();
	return at - now - 1 < DEPART_HORIZON_NS;
}

/* The packet in slot s waits until `at`, which is later than `seen`. */
static __always_inline void depart_wait(slot_ref s, __u64 at)
{
	__u64 step = (at + (1 << AGE_SHIFT) - 1) >> AGE_SHIFT;

	packet_at(s - 1)->since = step;
	if (!departures.count)
		departures.cursor = departures.seen >> AGE_SHIFT >> DEPART_SHIFT;
	if (!departures.count || before(at, departures.at))
		departures.at = at;
	depart_add(s, step);
}

#define DEPART_TRIES 4 /* packets that are added again, for one that is due */

/* Takes a packet that is due out of the wheel; 0 = none is. */
__noinline slot_ref depart_take(__u64 now)
{
	__u64 steps = now >> AGE_SHIFT;

	keep(now);
	for (int n = 0; n < DEPART_TRIES && departures.count; n++) {
		__u32 i = bits_next(&departures.used, departures.cursor & (BITS - 1));
		__u64 number = departures.cursor + ((i - departures.cursor) & (BITS - 1));
		slot_ref s = departures.bucket[bounded(i, BITS)].head;
		__u64 step = depart_step(s, now);

		if (step <= steps) {
			departures.cursor = number;
			depart_del(i);
			return s;
		}
		if (step >> DEPART_SHIFT == number) {
			departures.at = step << AGE_SHIFT;
			return 0;
		}
		/* Further ahead than the wheel reached. */
		if (steps >> DEPART_SHIFT < number) {
			departures.at = number << DEPART_SHIFT << AGE_SHIFT;
			return 0;
		}
		departures.cursor = number;
		depart_del(i);
		depart_add(s, step);
	}
	return 0;
}

/* `at`, or when the first packet is due if that is earlier. */
static __always_inline __u64 depart_before(__u64 at)
{
	return departures.count && before(departures.at, at) ? departures.at : at;
}

static long depart_clear(__u64 i, void *ctx)
{
	departures.bucket[bounded(i, BITS)].head = 0;
	departures.bucket[bounded(i, BITS)].tail = 0;
	departures.used.word[bounded(i >> 6, 64)] = 0;
	return 0;
}

/* The packets are gone. */
static __always_inline void depart_reset(void)
{
	if (departures.count)
		bpf_loop(BITS, depart_clear, NULL, 0);
	departures.used.top = 0;
	departures.count = 0;
}

#endif /* WEIR_DEPART_H */
