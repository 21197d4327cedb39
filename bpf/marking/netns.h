/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * In which network namespace is it? For programs at the kernel's own functions, which run in all of
 * them, while Weir's links are in one.
 *
 * Example: the agent is in the namespace 4026531840. An error of ICMP that a container's kernel
 * makes, about a packet of its own namespace, is none of Weir's.
 */
#ifndef WEIR_NETNS_H
#define WEIR_NETNS_H

#include "../core/kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common___net {
	possible_net_t skc_net;
};

struct sock___net {
	struct sock_common___net __sk_common;
};

struct net_device___net {
	possible_net_t nd_net;
};

struct sk_buff___net {
	struct net_device___net *dev;
};

#pragma clang attribute pop

/* That of the links, as its inode; set before the load. */
const volatile __u32 weir_netns;

static __always_inline bool weir_socket_here(const struct sock *sk)
{
	const struct sock___net *of = (const void *)sk;

	return BPF_CORE_READ(of, __sk_common.skc_net.net, ns.inum) == weir_netns;
}

/* Of a packet that came by a device, or is to leave by one. */
static __always_inline bool weir_packet_here(const struct sk_buff *skb)
{
	const struct sk_buff___net *of = (const void *)skb;

	return BPF_CORE_READ(of, dev, nd_net.net, ns.inum) == weir_netns;
}

#endif /* WEIR_NETNS_H */
