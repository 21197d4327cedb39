/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */

/*
 * What a packet is charged: the bytes that the line takes for it. Names of framings and their
 * numbers are internal/core/policy/framing's, the calculation is tc-cake(8)'s.
 */
#ifndef WEIR_FRAMING_H
#define WEIR_FRAMING_H

#define VLAN_TAG 4
#define ETHERNET_HEADER 14
#define GSO_BY_FRAGS 0xffff /* gso_size of SCTP: each segment has a size of its own */

/*
 * Bytes of the line for a frame of `len`. At least `least`, which is 1 or more: ARP (42 bytes) is
 * shorter than an overhead of -64, and a sum below 0 would wrap to four billion. With 0 such
 * packets would be free, and a flood of them would move no clock.
 */
static __always_inline __u64 frame_takes(__s64 len)
{
	__u32 bytes;

	len += link_now.overhead;
	bytes = len > link_now.least ? len : link_now.least;
	if (link_now.cells == WEIR_ATM)
		return (bytes + 47) / 48 * 53;
	if (link_now.cells == WEIR_PTM)
		return bytes + (bytes + 63) / 64;
	return bytes;
}

/* How many segments an offloaded packet will become. A guest leaves it to the host to count. */
static __always_inline __u32 segments(struct sk_buff *skb, const struct skb_shared_info *info,
				      __u32 size)
{
	__u32 said = info->gso_segs;

	if (said || !size || size == GSO_BY_FRAGS)
		return said;
	return (packet_bytes(skb) - packet_headers(skb, info) + size - 1) / size;
}

/*
 * All but the usual case: a line that takes other bytes than the kernel counts, or a tag.
 * pkt_len has the headers of each segment, so that they need not be looked for.
 */
static __noinline __u64 framed(struct sk_buff *skb, __u32 pkt_len)
{
	const struct skb_shared_info *info = packet_segments(skb);
	__u32 size = info->gso_size, n, headers, frame;
	__s64 each = 0;

	if (link_now.from_ip) {
		__u32 at = packet_ip_at(skb);

		each = -(__s64)(at <= 64 ? at : ETHERNET_HEADER); /* no header is where it says */
	} else if (packet_tagged(skb)) {
		each = VLAN_TAG;
	}
	n = segments(skb, info, size);
	if (n <= 1)
		return frame_takes(pkt_len + each);
	headers = (pkt_len - packet_bytes(skb)) / (n - 1);
	frame = size == GSO_BY_FRAGS ? pkt_len / n : headers + size;
	return (n - 1) * frame_takes(frame + each) +
	       frame_takes((__s64)pkt_len - (__u64)(n - 1) * frame + each);
}

/* Bytes that a packet is charged. */
static __always_inline __u64 charged(struct sk_buff *skb)
{
	__u32 pkt_len = qdisc_pkt_len(skb);

	if (likely(!(link_now.framed | packet_tagged(skb))))
		return pkt_len;
	return framed(skb, pkt_len);
}

#endif
