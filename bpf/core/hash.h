/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * By what a flow is told from others: a hash of addresses, protocol and ports.
 *
 * A packet that has a hash keeps it: TCP of a socket, a network card that makes them,
 * isolation of hosts (marking/rules.h). The kernel needs 650 instructions to make one of any
 * other packet. Here plain TCP and UDP get theirs in a sixth of that: the sum of all parts
 * times secret keys (Dietzfelbinger 1996; it is universal: two flows collide as seldom as if
 * their hashes were drawn).
 *
 * Example: UDP from 10.0.0.2 port 5000 to 10.9.0.2 port 9: the upper half of
 * k0 + k1 * 5000 + k2 * 9 + k3 * 17 + k4 * 10.0.0.2 + k5 * 10.9.0.2.
 *
 * Not done here: fragments, options, extension headers, tunnels, headers that do not lie in one
 * piece. Those get the kernel's.
 */
#ifndef WEIR_HASH_H
#define WEIR_HASH_H

#include <linux/in.h>

#include "kernel.h"

/* Drawn by the loader. */
const volatile __u64 hash_keys[12];

/* The part of a hash that is of the ports and of the protocol. */
static __always_inline __u64 ports_hash(__u64 at, __u8 protocol)
{
	struct udphdr *ports = lying_at(at, struct udphdr);

	return hash_keys[0] + hash_keys[1] * ports->source + hash_keys[2] * ports->dest +
	       hash_keys[3] * protocol;
}

static __always_inline bool has_ports(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP;
}

/* The hash of a packet. */
static __noinline __u32 flow_hash(struct sk_buff *skb)
{
	__u64 at = (__u64)skb->head + skb->network_header;

	if (skb->hash)
		return bpf_skb_get_hash(skb);
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = lying_at(at, struct iphdr);

		if (skb->network_header + 24 <= skb->tail && BPF_CORE_READ_BITFIELD(ip, ihl) == 5 &&
		    !(ip->frag_off & bpf_htons(0x3fff)) && has_ports(ip->protocol))
			return (ports_hash(at + 20, ip->protocol) + hash_keys[4] * ip->saddr +
				hash_keys[5] * ip->daddr) >>
			       32;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = lying_at(at, struct ipv6hdr);

		if (skb->network_header + 44 <= skb->tail && has_ports(ip->nexthdr)) {
			__u64 sum = ports_hash(at + 40, ip->nexthdr);

#pragma unroll
			for (int i = 0; i < 4; i++)
				sum += hash_keys[4 + i] * ip->saddr.in6_u.u6_addr32[i] +
				       hash_keys[8 + i] * ip->daddr.in6_u.u6_addr32[i];
			return sum >> 32;
		}
	}
	return bpf_skb_get_hash(skb);
}

#endif /* WEIR_HASH_H */
