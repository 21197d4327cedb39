/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Is the packet's address in the area that this program is for? An area is a set of
 * prefixes of which the longest decides: one of the zones behind a link, or what they
 * leave (docs/zones.md).
 *
 * The table is a trie in an array of chunks of 256 entries, which Go makes
 * (internal/core/policy/zone/trie.go). An entry is 0 (not in the area), 1 (in it), or the
 * number of the chunk that decides by the next byte. IPv4 begins with two bytes at chunk
 * 0, IPv6 with two at chunk 256.
 *
 * Example: only 10.1.2.0/24 is in the area. 10.1.2.7: entry 0x0a01 is 512, entry 2 of
 * chunk 512 is 1.
 *
 * The table is constants of the program: other prefixes are another program, which takes
 * the place of this one in one step. So no packet sees half a table.
 *
 * Cost with 10,000 prefixes, beside an area of all addresses: 24 instructions more for an
 * IPv4 address that takes three steps, 39 for an IPv6 address that takes more, none for
 * one that takes the first step alone (BenchmarkZones in internal/host/dataplane/mark).
 */
#ifndef WEIR_ZONE_H
#define WEIR_ZONE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define WEIR_ROOT_IPV6 65536 /* entry of IPv6's first chunk */
#define WEIR_CHUNK_BITS 8

/* Set before the load, frozen after it. */
const volatile struct weir_area {
	__u32 entries; /* of the table; 0 = every packet is in the area */
	__u32 bare; /* a packet without an address is in it */
} weir_whose SEC(".rodata.area");

/* Loaded with weir_whose.entries elements. */
const volatile __u16 weir_table[2] SEC(".rodata.table");

static __always_inline __u32 weir_entry(__u32 at)
{
	const volatile __u16 *table = weir_table;

	asm volatile("" : "+r"(table)); /* the compiler would go by its size here */
	return at < weir_whose.entries ? table[at] : 0;
}

/* One step down from entry e. */
static __always_inline __u32 weir_below(__u32 e, __u8 byte)
{
	return weir_entry(e << WEIR_CHUNK_BITS | byte);
}

static __always_inline bool weir_has_ipv4(const __u8 *a)
{
	__u32 e = weir_entry((__u32)a[0] << 8 | a[1]);

	if (e > 1)
		e = weir_below(e, a[2]);
	if (e > 1)
		e = weir_below(e, a[3]);
	return e == 1;
}

static __always_inline bool weir_has_ipv6(const __u8 *a)
{
	__u32 e = weir_entry(WEIR_ROOT_IPV6 + ((__u32)a[0] << 8 | a[1]));

	for (int i = 2; i < 16 && e > 1; i++)
		e = weir_below(e, a[i]);
	return e == 1;
}

/*
 * What the packet is: its frame's ethertype, where the device has frames. skb->protocol is what
 * a packet socket says (sll_protocol), whatever it sends: a sender would choose its zone by it.
 */
static __always_inline __be16 weir_protocol(struct __sk_buff *skb, __u32 at)
{
	const __u8 *data = (const __u8 *)(long)skb->data;

	if (at != ETH_HLEN || data + ETH_HLEN > (const __u8 *)(long)skb->data_end)
		return skb->protocol;
	return *(const __be16 *)(data + offsetof(struct ethhdr, h_proto));
}

/* What weir_in_area does not find at its usual place: behind VLAN tags, or in the
 * fragments of an skb. */
static __noinline bool weir_in_area_slow(struct __sk_buff *skb, __u32 at, bool source)
{
	__be16 proto = weir_protocol(skb, at);
	__u8 a[16];

	for (int tags = 0; tags < 2; tags++) {
		if (proto != bpf_htons(ETH_P_8021Q) && proto != bpf_htons(ETH_P_8021AD))
			break;
		/* Of a tag: its control information, and the type of what follows. */
		if (bpf_skb_load_bytes(skb, at + 2, &proto, sizeof(proto)))
			return weir_whose.bare;
		at += 4;
	}
	if (proto == bpf_htons(ETH_P_IP)) {
		at += source ? offsetof(struct iphdr, saddr) : offsetof(struct iphdr, daddr);
		if (!bpf_skb_load_bytes(skb, at, a, 4))
			return weir_has_ipv4(a);
	}
	if (proto == bpf_htons(ETH_P_IPV6)) {
		at += source ? offsetof(struct ipv6hdr, saddr) : offsetof(struct ipv6hdr, daddr);
		if (!bpf_skb_load_bytes(skb, at, a, 16))
			return weir_has_ipv6(a);
	}
	return weir_whose.bare;
}

/*
 * Is the address of the packet's sender, or of its receiver, in the area? `at` is where
 * its first header behind the device's own begins.
 */
static __always_inline bool weir_in_area(struct __sk_buff *skb, __u32 at, bool source)
{
	const __u8 *data = (const __u8 *)(long)skb->data + at;
	const __u8 *end = (const __u8 *)(long)skb->data_end;
	__be16 proto;

	if (!weir_whose.entries)
		return true;
	proto = weir_protocol(skb, at);
	if (proto == bpf_htons(ETH_P_IP) && data + sizeof(struct iphdr) <= end)
		return weir_has_ipv4(data + (source ? offsetof(struct iphdr, saddr)
						    : offsetof(struct iphdr, daddr)));
	if (proto == bpf_htons(ETH_P_IPV6) && data + sizeof(struct ipv6hdr) <= end)
		return weir_has_ipv6(data + (source ? offsetof(struct ipv6hdr, saddr)
						    : offsetof(struct ipv6hdr, daddr)));
	return weir_in_area_slow(skb, at, source);
}

#endif /* WEIR_ZONE_H */
