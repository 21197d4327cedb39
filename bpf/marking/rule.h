/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A rule as the kernel compares it: what C and Go share of rules.h. Go makes
 * these from classify.Rule (package mark) and reads the layout from the object's
 * BTF.
 *
 * The facts of a packet are packed into two numbers, so that all that a
 * rule asks of protocol, DSCP, VLAN and family takes one comparison, and what it
 * asks of mark and priority another.
 *
 * Example: {udp: 5000-5010} is mask = 0xff << WEIR_FACT_PROTO | 1 <<
 * WEIR_FACT_IP | 1 << WEIR_FACT_PORTS, value = the same with 17 for 0xff,
 * tests = WEIR_TEST_PORT, port = 5000, port_span = 10.
 */
#ifndef WEIR_RULE_H
#define WEIR_RULE_H

#include <linux/types.h>
#include "seal.h"

#define WEIR_MAX_RULES 64 /* of one workload */
#define WEIR_RULE_QUEUES 8

/* Where each fact stands in weir_headers.facts: its lowest bit. */
enum weir_fact {
	WEIR_FACT_PROTO = 0, /* 8 bits */
	WEIR_FACT_DSCP = 8, /* 6 bits */
	WEIR_FACT_VLAN = 16, /* 12 bits: id in the outermost tag */
	WEIR_FACT_IP = 32, /* the rest are single bits: the IP header was read */
	WEIR_FACT_IPV6 = 33,
	WEIR_FACT_PORTS = 34, /* the ports were read */
	WEIR_FACT_TAGGED = 35, /* there is a VLAN tag */
};

/* What else a rule asks, so that what it does not ask costs nothing. */
enum weir_test {
	WEIR_TEST_META = 1,
	WEIR_TEST_PORT = 2, /* of either end */
	WEIR_TEST_SPORT = 4,
	WEIR_TEST_DPORT = 8,
	WEIR_TEST_SRC = 16,
	WEIR_TEST_DST = 32,
};

/*
 * All that it asks must hold. Ports are in host order and a range is its first
 * port and how many follow. Addresses are as in the packet, IPv4 in the first four
 * bytes and the others 0.
 */
struct weir_rule {
	__u64 mask, value; /* of the facts */
	__u64 meta_mask, meta_value; /* skb->mark, above it skb->priority */
	__u16 port, port_span; /* of either end */
	__u16 sport, sport_span;
	__u16 dport, dport_span;
	__u16 tests; /* enum weir_test */
	__u16 queue;
	__u64 src_mask[2], src[2];
	__u64 dst_mask[2], dst[2];
};

#define WEIR_HOST_KEYS 6

/*
 * One place where packets are marked; constants of its program. Those of all versions begin
 * with the same two.
 */
struct weir_place {
	__u32 keep; /* bits of the mark that stay as they are: ~mask */
	__u32 value; /* class number, at its place in the mask */
	__u64 digest; /* of everything that makes the program: how an agent knows it */
	struct weir_carrier in; /* where packets carry class and queue */
	__u32 class; /* of the packets of this place */
	__u32 seal; /* the same, as in seal.h */
	__u32 count; /* rules of this class, the first ones */
	__u32 total; /* with those of weir_late */
	__u32 fallback; /* queue of what fits none */
	__u32 link_header; /* bytes before the IP header: 14, or 0 */
	__u8 dscp[WEIR_RULE_QUEUES]; /* to write, per queue; WEIR_DSCP_KEEP = none */
	__u32 late; /* elements of weir_late */
	__u32 levels; /* bit i = weir_owners has cgroups that are i below the top */
	__u32 host; /* at a link: 1 = class 0 has rules or a DSCP */
	__u32 hosts; /* whose packets share a hash, bits of enum weir_hosts; 0 = a flow's */
	__u32 split_over; /* bytes of the longest packet that is not split (split.h); 0 = none is */
	__u32 split_by; /* index of the device that splits */
	__u32 sk_at; /* where struct sk_buff has its socket, 0 = it is not known; */
	__u32 sends_at; /* and struct sock what it has sent (sk_wmem_alloc) */
	__u64 host_keys[WEIR_HOST_KEYS]; /* of that hash, drawn by the agent */
};

/*
 * What a class asks for whose packets come from sockets, by no port: their programs are at the
 * link and at devices above it. An element of weir_late.
 */
struct weir_late_class {
	__u32 first, count; /* its rules among weir_rules */
	__u32 fallback; /* queue of what fits none */
	__u32 hosts; /* bits of enum weir_hosts */
	__u32 ports; /* 1 = packets come by ports, too, and have been seen there */
	__u8 dscp[WEIR_RULE_QUEUES];
};

/* What of a packet makes its hash, by which sfq tells flows apart. */
enum weir_hosts {
	WEIR_HOST_SRC = 1,
	WEIR_HOST_DST = 2,
};

#define WEIR_DSCP_KEEP 0xff

#endif /* WEIR_RULE_H */
