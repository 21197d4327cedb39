/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ACK filter, for a line that is much slower in one direction: an ACK that waits gives way to the
 * next one of its connection.
 *
 * Each ACK of a TCP connection says all that those before it said. A download of 100 Mbit/s asks
 * for 4,100 ACKs a second, 2.2 Mbit/s of them; with 1 Mbit/s of upload they wait, and the download
 * with them. So while the last packet of a flow is an ACK, and the one that comes is an ACK of the
 * same connection that says more, it takes the slot of the older one, which is gone:
 *
 *     flow: data, ACK 3000        ACK 5896 comes        flow: data, ACK 5896
 *
 * It is sent when the older one would have been, and waits as long for CoDel. The one that is
 * gone counts in `thinned`, and as neither enqueued nor dropped.
 *
 * Only ACKs that say nothing else give way: no data, no flag but ACK, no option but time stamps
 * (SACK says what is missing), and never to one that acknowledges as much (three such tell the
 * sender of a loss), is marked otherwise (DSCP, ECN, VLAN) or has older time stamps, which the
 * sender may not believe (RFC 7323, PAWS).
 *
 * Not done here: ACKs with others between them (CAKE looks at all that wait in the flow); flows in
 * queues of rules that do not take turns, where connections mix; tunnels.
 */
#ifndef WEIR_ACK_H
#define WEIR_ACK_H

#include <linux/in.h>

#include "kernel.h"

#define ACK_BARE 0x5010 /* TCP's length of the header and flags: 5 words, ACK */
#define ACK_STAMPED 0x8010 /* 8 words, */
#define ACK_STAMP 0x0101080a /* which begin with: no-op, no-op, time stamps of 10 bytes */

/* The i-th word of 4 bytes, of 4, in what lies at an address. */
#define word_at(address, i) (lying_at(address, struct in6_addr)->in6_u.u6_addr32[i])

/* Where TCP begins if the packet is an ACK and nothing else; 0 if it is not. */
static __always_inline __u64 ack_alone(const struct sk_buff *skb)
{
	__u64 at = (__u64)skb->head + skb->network_header;
	__u32 before, total, kind;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		__u32 first = bpf_ntohl(word_at(at, 0)), second = bpf_ntohl(word_at(at, 1));

		if (first >> 24 != 0x45 || second & 0x3fff ||
		    (bpf_ntohl(word_at(at, 2)) >> 16 & 0xff) != IPPROTO_TCP)
			return 0;
		before = 20;
		total = first & 0xffff;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		__u32 second = bpf_ntohl(word_at(at, 1)); /* length, next header, hop limit */

		if ((second >> 8 & 0xff) != IPPROTO_TCP)
			return 0;
		before = 40;
		total = before + (second >> 16);
	} else {
		return 0;
	}
	if (skb->network_header + total > skb->tail)
		return 0;
	at += before;
	kind = bpf_ntohl(word_at(at, 3)) >> 16;
	if (kind == ACK_BARE)
		return total == before + 20 ? at : 0;
	if (kind != ACK_STAMPED || total != before + 32)
		return 0;
	return word_at(at + 20, 0) == bpf_htonl(ACK_STAMP) ? at : 0;
}

/* By how much the i-th word at one address is above that at another; numbers may wrap around. */
#define word_gain(at, old_at, i)                                                                   \
	((__s32)(bpf_ntohl(word_at(at, i)) - bpf_ntohl(word_at(old_at, i))))

/* Does the packet say all that the older one says, which lies in a slot, and more? */
static __always_inline bool ack_covers(const struct sk_buff *skb, const struct sk_buff *in_slot)
{
	const struct sk_buff *old = lying_at(in_slot, struct sk_buff);
	__u64 tcp = ack_alone(skb), old_tcp = tcp ? ack_alone(old) : 0;
	__u64 at = (__u64)skb->head + skb->network_header;
	__u64 old_at = (__u64)old->head + old->network_header;
	__u32 differ;

	if (!old_tcp || skb->protocol != old->protocol || skb->len != old->len)
		return false;
	differ = skb->vlan_all ^ old->vlan_all;
	differ |= word_at(at, 0) ^ word_at(old_at, 0); /* DSCP and ECN among others */
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		differ |= word_at(at, 3) ^ word_at(old_at, 3);
		differ |= word_at(at + 16, 0) ^ word_at(old_at + 16, 0);
	} else {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			differ |= word_at(at + 8, i) ^ word_at(old_at + 8, i);
			differ |= word_at(at + 24, i) ^ word_at(old_at + 24, i);
		}
	}
	differ |= word_at(tcp, 0) ^ word_at(old_tcp, 0); /* ports */
	differ |= word_at(tcp, 1) ^ word_at(old_tcp, 1); /* what it has sent itself */
	differ |= bpf_ntohl(word_at(tcp, 3) ^ word_at(old_tcp, 3)) >> 16; /* time stamps or none */
	if (differ || word_gain(tcp, old_tcp, 2) <= 0)
		return false;
	if (bpf_ntohl(word_at(tcp, 3)) >> 16 == ACK_BARE)
		return true;
	return word_gain(tcp + 16, old_tcp + 16, 2) >= 0 &&
	       word_gain(tcp + 16, old_tcp + 16, 3) >= 0;
}

#endif /* WEIR_ACK_H */
