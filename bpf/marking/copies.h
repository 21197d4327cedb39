/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Is this frame a copy? A frame to many (multicast, broadcast) that a link brought once is copied
 * by a bridge to each of its ports, and comes to the link's IFB once for each port that is a
 * workload's. The line carried one:
 *
 *     link 6 Mbit/s ──► bridge ──► port of a ──► IFB: 6 Mbit/s, class a
 *                            └───► port of b ──► a copy: straight on to b
 *
 * So the first copy counts, in the class of its workload, and the others go on at once. A bridge
 * makes all copies of one frame before it looks at the next, on one CPU: a frame is a copy if it is
 * like the one before and goes to another port than the first of these. A sender that sends the
 * same frame twice has each of them counted at that first port.
 *
 * What it does not do: look at a frame to one address, which a bridge copies for as long as it does
 * not know the port; or at one of less than 56 bytes.
 */
#ifndef WEIR_COPIES_H
#define WEIR_COPIES_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#define WEIR_COPY_WORDS 7 /* headers of Ethernet, IPv4 and UDP, and 14 bytes of what UDP carries */

/* The last frame to many on this CPU. */
struct weir_copied {
	__u64 hash;
	__u32 port; /* index of the device that the first copy goes to */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_copied);
} weir_last SEC(".maps");

static __always_inline bool weir_to_many(struct __sk_buff *skb)
{
	__u8 *to = (__u8 *)(long)skb->data;

	return to + 1 <= (__u8 *)(long)skb->data_end && to[0] & 1;
}

/* To be asked of each frame at the IFB once; port is where it is to go. */
static __always_inline bool weir_is_copy(struct __sk_buff *skb, __u32 port)
{
	__u64 words[WEIR_COPY_WORDS], hash = skb->len;
	struct weir_copied *last;
	__u32 key = 0;

	if (!weir_to_many(skb) || bpf_skb_load_bytes(skb, 0, words, sizeof(words)))
		return false;
	for (int i = 0; i < WEIR_COPY_WORDS; i++)
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15;
	last = bpf_map_lookup_elem(&weir_last, &key);
	if (!last)
		return false;
	if (last->hash == hash && last->port != port)
		return true;
	last->hash = hash;
	last->port = port;
	return false;
}

#endif /* WEIR_COPIES_H */
