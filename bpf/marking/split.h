/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Is this packet too long for the link? With segmentation offload a sender hands down packets of up
 * to 64 KB, and a qdisc can only send them whole: 5 ms of a link of 100 Mbit/s, in which no other
 * class sends. So the program at the link carries what is longer than 1.2 ms of the link to a
 * device where the kernel cuts it into frames, since the device takes none that is longer than one
 * (gso_max_size), and the frames come back to the link:
 *
 *     44 frames in one ──► link [weir_rules_link] ──► weir-gso, a macvlan: the kernel cuts
 *                           │  ▲                        │
 *                           │  └── weir-gso-out [weir_rules_segm] ◄── 44 frames
 *                           ▼ 44 frames
 *                        programs of others, the qdisc
 *
 * All that is one call within the next: nothing waits on the way, and nothing is lost there.
 * Traffic within the host does not meet the link's program, and keeps its packets of 64 KB.
 *
 * A macvlan hands its frames to the device below by dev_queue_xmit and changes nothing in them:
 * mark, priority, seal and the 20 bytes of skb->cb arrive. Of a pair of veths the second end takes
 * packets by the backlog of the CPU, which has room for 1,000: a burst of offloaded packets would
 * be lost.
 *
 * skb->cb says at which device a packet was taken. The kernel clears it in what a packet socket
 * sends, so such packets do not pass weir_rules_segm.
 *
 * Example: a link of 100 Mbit/s, split_over = 15,000: a packet of 9,000 bytes passes as it is, one
 * of 64,000 is 44 frames.
 *
 * What it does not do: cut into anything but frames.
 */
#ifndef WEIR_SPLIT_H
#define WEIR_SPLIT_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#define WEIR_SPLIT_AT 0x77e17a70 /* in the place of WEIR_TAKEN_AT */

static __always_inline bool weir_is_long(struct __sk_buff *skb)
{
	return weir_here.split_over && skb->gso_size && skb->len > weir_here.split_over;
}

/* Is the packet a frame that comes back? Then this device's programs have seen it in the whole. */
static __always_inline bool weir_was_split(struct __sk_buff *skb)
{
	if (skb->cb[3] != WEIR_SPLIT_AT || skb->cb[4] != skb->ifindex)
		return false;
	skb->cb[3] = 0;
	skb->cb[4] = 0;
	return true;
}

#endif /* WEIR_SPLIT_H */
