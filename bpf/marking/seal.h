/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The seal: class and queue of a packet, in skb->tc_index. The programs at ports and at the
 * link write it, and the qdisc reads it. Bridges, routing, NAT, fragments, tunnels but
 * WireGuard, bonds and VLANs keep tc_index, and no rule of netfilter or of routing reads or
 * writes it. So skb->mark is left to others: not one bit of it is written or read, unless
 * mark_mask names some.
 *
 *     bit 15   14 ... 5             4 3                  2 1 0
 *     1        class, lower 10 bits  class, upper 2 bits  queue
 *
 * Example: class 5, queue 3 -> 0x80a3.
 *
 * The lowest five bits are Cilium's (TC_INDEX_F_*: "skip the proxy" and the like). A class
 * below 1024 without queues leaves them clear. Where Cilium runs, all classes are such, and
 * what stands in these bits is not read (weir_carrier.others): 1024 classes, no queues.
 *
 * With mark_mask the same stands in bits of skb->mark, too. They are asked where a packet has
 * no seal, and beside Cilium for queues and for classes above 1023, whose seal is 0x8000.
 *
 * A lane, here and in bpf/: a class and, above it, a queue.
 *
 * TCX_PASS, by which a program of tcx ends its chain, writes skb->tc_classid into tc_index: 0, if
 * no program has set it. So Weir's programs, which are first, write the seal there, too.
 *
 * What the seal does not survive: WireGuard, which clears the header of its packets, the mark
 * with it; Open vSwitch, for the packets that its daemon decides on; and a filter of tc (not tcx)
 * that ends with TC_ACT_OK, which writes its class id there, 0 if it has none. Such packets are
 * the host's, or, but for WireGuard's, those that the mark says. Hence bit
 * 15: class ids of filters are small numbers. A filter of the host's administrator, at a port
 * or at the link, whose class id has a minor number of 0x8001 or more assigns a class of
 * Weir's: 1:8040 is class 2. The kernel runs filters of tc behind all programs of tcx, so
 * Weir cannot take that back.
 */
#ifndef WEIR_SEAL_H
#define WEIR_SEAL_H

#include <linux/types.h>
#include <stdbool.h>

#define WEIR_SEAL 0x8000
#define WEIR_LANE_QUEUE 16 /* how far the queue of a lane is from bit 0 */
#define WEIR_LANE_CLASS 0xffff

/* Where packets carry class and queue; constants of the programs. */
struct weir_carrier {
	__u32 more; /* 0 = all of tc_index and nothing else: the rest need not be looked at */
	__u32 others; /* bits of tc_index that are not Weir's */
	__u32 classes; /* the class bits of the mark; 0 = no bit of it is Weir's */
	__u32 shift; /* how far they are from bit 0 */
	__u32 queue_shift; /* how far the queue above them is from bit 0 */
};

/* Has the packet a seal? */
static __always_inline bool weir_sealed(__u32 tc_index)
{
	return tc_index & WEIR_SEAL;
}

/* The lane in a seal. */
static __always_inline __u32 weir_lane_of(__u32 seal)
{
	return (seal >> 5 & 0x3ff) | (seal & 0x18) << 7 | (seal & 7) << WEIR_LANE_QUEUE;
}

/* The packet's lane where all of tc_index and nothing else is Weir's. */
static __always_inline __u32 weir_lane_sealed(__u32 tc_index)
{
	if ((tc_index & (WEIR_SEAL | 0x1f)) == WEIR_SEAL) /* most: no queue */
		return tc_index >> 5 & 0x3ff;
	return weir_sealed(tc_index) ? weir_lane_of(tc_index) : 0;
}

/* The seal of a lane. */
static __always_inline __u32 weir_seal_of(__u32 lane)
{
	return WEIR_SEAL | (lane & 0x3ff) << 5 | (lane >> 7 & 0x18) | (lane >> WEIR_LANE_QUEUE & 7);
}

/* The lane in a mark. */
static __always_inline __u32 weir_marked(const volatile struct weir_carrier *in, __u32 mark)
{
	return (mark & in->classes) >> in->shift | (mark >> in->queue_shift & 7) << WEIR_LANE_QUEUE;
}

/* The packet's lane. */
static __always_inline __u32 weir_lane_in(const volatile struct weir_carrier *in, __u32 tc_index,
					  __u32 mark)
{
	__u32 lane;

	if (!in->more) /* the verifier knows, and leaves the rest out */
		return weir_lane_sealed(tc_index);
	if (!in->classes)
		return weir_sealed(tc_index) ? weir_lane_of(tc_index & ~in->others) : 0;
	if (!weir_sealed(tc_index))
		return weir_marked(in, mark);
	if (!in->others)
		return weir_lane_of(tc_index);
	lane = weir_lane_of(tc_index & ~in->others);
	mark = weir_marked(in, mark);
	return lane ? lane | (mark & ~WEIR_LANE_CLASS) : mark;
}

#endif /* WEIR_SEAL_H */
