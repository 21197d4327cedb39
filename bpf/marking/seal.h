/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The seal: the class of a packet that came by a port, in skb->tc_index, beside the
 * mark. The mark may be overwritten on its way: Calico's rules write 0x000f0000 into it,
 * and Cilium assigns the whole mark of a pod's packet. Bridges, routing, masquerading
 * and tunnels keep tc_index. What sockets of a workload without a port send is sealed at lo and
 * at the devices above a link (owner.h). So where a packet that came by a device has a seal, that says
 * the class, and the mark is only asked for the queue. Of a packet that came by none,
 * owner.h says when the seal counts.
 *
 *     bit 15   14 ... 5     4 ... 0
 *     1        class        of Cilium (TC_INDEX_F_*: "skip the proxy" and the like)
 *
 * Example: class 5 -> 0x80a0, whatever the mark says at the link.
 *
 * A class above 1023 has no place there: its seal is 0x8000, and the mark says which
 * class it is.
 *
 * What it does not survive: a filter of tc (not tcx) that ends with TC_ACT_OK writes its
 * class id there, 0 if it has none. Then the mark counts, as without a seal. Hence bit
 * 15: class ids of filters are small numbers. A filter of the host's administrator, at a port
 * or at the link, whose class id has a minor number of 0x8020 or more assigns a class of
 * Weir's: 1:8040 is class 2. The kernel runs filters of tc behind all programs of tcx, so
 * Weir cannot take that back.
 */
#ifndef WEIR_SEAL_H
#define WEIR_SEAL_H

#include <linux/types.h>
#include <stdbool.h>

#define WEIR_SEAL 0x8000
#define WEIR_SEAL_SHIFT 5
#define WEIR_SEAL_OTHERS ((1 << WEIR_SEAL_SHIFT) - 1) /* bits that are not Weir's */

/* Did the packet come by a port? */
static __always_inline bool weir_sealed(__u32 tc_index)
{
	return tc_index & WEIR_SEAL;
}

/* The packet's class; `marked` is the one in its mark. */
static __always_inline __u32 weir_class_of(__u32 tc_index, __u32 marked)
{
	__u32 seal = tc_index >> WEIR_SEAL_SHIFT;

	return seal > WEIR_SEAL >> WEIR_SEAL_SHIFT ? seal - (WEIR_SEAL >> WEIR_SEAL_SHIFT) : marked;
}

/* The seal of a class. */
static __always_inline __u32 weir_seal_of(__u32 class)
{
	return class >= WEIR_SEAL >> WEIR_SEAL_SHIFT ? WEIR_SEAL
						     : WEIR_SEAL | class << WEIR_SEAL_SHIFT;
}

#endif /* WEIR_SEAL_H */
