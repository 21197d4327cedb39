/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * For whom does the kernel answer? A container sends an echo request to the host in the name of a
 * server S behind the link. The kernel's answer goes to S by the link, and nothing in it says who
 * asked: it is a new packet, of no port and of no workload's socket.
 *
 * The kernel makes such an answer (echo reply, TCP's RST and SYN-ACK, ICMP's errors, SCTP's ABORT)
 * while it delivers the question to itself, on the same CPU, and hands it to the link before it
 * looks at the next packet. So each CPU has a note of the packet that was delivered last: its
 * source, and its lane, 0 if it is no workload's. What the kernel itself sends to that source is of
 * that lane:
 *
 *     container ──veth [seal of class 3]──► bridge ──► LOCAL_IN [note: S, class 3] ──► icmp_rcv
 *                    link: to S, of the kernel's own: class 3 ◄── echo reply to S ◄─────┘
 *
 * The note is written by a program at netfilter's LOCAL_IN (answers.bpf.c), in the network
 * namespace of the link, and at the lo of a workload with a namespace of its own by
 * weir_rules_note (classify.bpf.c). What is not delivered is noted when the kernel begins to answer
 * it, where the kernel has that watched: errors of ICMP to what the host would have forwarded,
 * resets of netfilter, replies of ARP. The note is read where owner.h's rule finds neither a
 * workload's cgroup nor a seal: by the qdisc and by the programs at a link, which share the map.
 *
 * A packet of a user's socket, and one that is no answer (an echo request, UDP, a tunnel's), is
 * never looked at: who forges the name of S takes none of what the host itself has to say to S, but
 * where errors of ICMP are not watched: of those that go to S by this CPU.
 *
 * There is one note a CPU, so nothing grows, and no flood pushes anything out.
 *
 * The kernel sends all ICMP of a CPU, of every network namespace, by one socket, and what waits in
 * a qdisc counts as that socket's until 133 kB do: then it sends none. A workload with a small max
 * could keep the kernel from all answers, "fragmentation needed" among them. So the qdisc, or the
 * program at the link, drops an answer while the socket has WEIR_ANSWERS_WAIT bytes in queues (with
 * HTB where the kernel's BTF says where that is written down).
 *
 * What it does not do: find the question of an answer that is not sent at once. Such are what waits
 * for a neighbour's address (at most 212 kB, once), SYN-ACKs that are repeated, and what the device
 * of a namespace's root delays.
 */
#ifndef WEIR_ASKED_H
#define WEIR_ASKED_H

#include <stdbool.h>
#include "owner.h"

/* The packet that was delivered last on a CPU. */
struct weir_asker {
	__u32 from[4]; /* its source, in network order; IPv4 as ::ffff:192.0.2.7 */
	__u32 lane; /* 0 = it is no workload's */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_asker);
} weir_askers SEC(".maps");

#define WEIR_ANSWERS_WAIT 65536 /* bytes, as the kernel counts them: a packet has 768 or more */
#define WEIR_LANE_REFUSED (1U << 31) /* above a lane: the packet is to be lost */

/* The words of an IP header. */
enum {
	WEIR_IP_VERSION = 0,
	WEIR_IPV4_FRAGMENT = 1, /* the upper half, in network order */
	WEIR_IPV4_PROTOCOL = 2, /* byte 1 */
	WEIR_IPV4_SOURCE = 3,
	WEIR_IPV4_DESTINATION = 4,
	WEIR_IPV4_WORDS = 5,
	WEIR_IPV6_PROTOCOL = 1, /* byte 2 */
	WEIR_IPV6_SOURCE = 2,
	WEIR_IPV6_DESTINATION = 6,
	WEIR_IPV6_WORDS = 10,
};

/* Where a message of ARP for IPv4 over Ethernet has what, in bytes. */
enum { WEIR_ARP_FROM = 14, WEIR_ARP_TO = 24 };

/* Its second word: addresses of 6 and 4 bytes, a reply. */
#define WEIR_ARP_REPLY bpf_htonl(0x06040002)

#define WEIR_IPV4_MAPPED bpf_htonl(0xffff) /* the third word of such an address */
#define WEIR_ARP_MAPPED 1 /* of one that has asked by ARP: its answers are others */

enum {
	WEIR_PROTO_ICMP = 1,
	WEIR_PROTO_TCP = 6,
	WEIR_PROTO_FRAGMENT = 44,
	WEIR_PROTO_ICMPV6 = 58,
	WEIR_PROTO_SCTP = 132,
};

/*
 * Copy what is `at` bytes behind the beginning of the IP header. The includer defines WEIR_LOAD_IP
 * for its kind of packet, weir_packet.
 */
#define weir_load(skb, at, to, len) (WEIR_LOAD_IP(skb, at, to, len) == 0)

/* Which IP is it? 0 = none. */
static __always_inline __u32 weir_version(__u32 first)
{
	return first >> 4 & 0xf;
}

/* A packet of this lane is delivered. */
static __always_inline void weir_note(weir_packet *skb, __u32 lane)
{
	__u32 none = 0, ip[WEIR_IPV4_WORDS];
	struct weir_asker *asker = bpf_map_lookup_elem(&weir_askers, &none);

	if (!asker)
		return;
	asker->lane = 0;
	if (!lane || !weir_load(skb, 0, ip, sizeof(ip)))
		return;
	if (weir_version(ip[WEIR_IP_VERSION]) == 4) {
		asker->from[0] = asker->from[1] = 0;
		asker->from[2] = WEIR_IPV4_MAPPED;
		asker->from[3] = ip[WEIR_IPV4_SOURCE];
	} else if (!weir_load(skb, WEIR_IPV6_SOURCE * 4, asker->from, sizeof(asker->from))) {
		return;
	}
	asker->lane = lane;
}

/* A message of ARP of this lane is looked at. */
static __always_inline void weir_note_neighbour(weir_packet *skb, __u32 lane)
{
	__u32 none = 0;
	struct weir_asker *asker = bpf_map_lookup_elem(&weir_askers, &none);

	if (!asker)
		return;
	asker->lane = 0;
	if (!lane || !weir_load(skb, WEIR_ARP_FROM, &asker->from[3], 4))
		return;
	asker->from[0] = asker->from[1] = 0;
	asker->from[2] = WEIR_ARP_MAPPED;
	asker->lane = lane;
}

/* Does the kernel answer by such a segment of TCP? */
static __always_inline bool weir_answers_tcp(weir_packet *skb, __u32 at)
{
	enum { FLAGS = 13, SYN = 2, RST = 4, ACK = 16 };
	__u8 flags;

	return weir_load(skb, at + FLAGS, &flags, 1) &&
	       (flags & RST || (flags & (SYN | ACK)) == (SYN | ACK));
}

/* Does the kernel answer by such a packet of SCTP, which has no association? */
static __always_inline bool weir_answers_sctp(weir_packet *skb, __u32 at)
{
	enum { CHUNK = 12, INIT_ACK = 2, ABORT = 6, ERROR = 9, SHUTDOWN_COMPLETE = 14 };
	const __u32 answers = 1 << INIT_ACK | 1 << ABORT | 1 << ERROR | 1 << SHUTDOWN_COMPLETE;
	__u8 type;

	return weir_load(skb, at + CHUNK, &type, 1) && type < 32 && answers >> (type & 31) & 1;
}

static __always_inline bool weir_answers_ipv4(weir_packet *skb, const __u32 *ip)
{
	enum { ECHO = 8 };
	__u32 at = (ip[WEIR_IP_VERSION] & 0xf) * 4;
	__u8 type;

	switch (ip[WEIR_IPV4_PROTOCOL] >> 8 & 0xff) {
	case WEIR_PROTO_ICMP:
		if (ip[WEIR_IPV4_FRAGMENT] >> 16 & bpf_htons(0x1fff)) /* a later fragment */
			return true;
		return weir_load(skb, at, &type, 1) && type != ECHO;
	case WEIR_PROTO_TCP:
		return weir_answers_tcp(skb, at);
	case WEIR_PROTO_SCTP:
		return weir_answers_sctp(skb, at);
	}
	return false;
}

static __always_inline bool weir_answers_ipv6(weir_packet *skb, const __u32 *ip)
{
	enum { AT = WEIR_IPV6_WORDS * 4, INFORMS = 128, ECHO_REPLY = 129, ADVERTISEMENT = 136 };
	__u8 first;

	switch (ip[WEIR_IPV6_PROTOCOL] >> 16 & 0xff) {
	case WEIR_PROTO_ICMPV6:
		return weir_load(skb, AT, &first, 1) &&
		       (first < INFORMS || first == ECHO_REPLY || first == ADVERTISEMENT);
	case WEIR_PROTO_FRAGMENT:
		return weir_load(skb, AT, &first, 1) && first == WEIR_PROTO_ICMPV6;
	case WEIR_PROTO_TCP:
		return weir_answers_tcp(skb, AT);
	case WEIR_PROTO_SCTP:
		return weir_answers_sctp(skb, AT);
	}
	return false;
}

/* Is it ARP's reply to whom the note is of? */
static __always_inline bool weir_answers_arp(weir_packet *skb, const struct weir_asker *asker,
					     const __u32 *arp)
{
	__u32 to;

	return asker->from[2] == WEIR_ARP_MAPPED && arp[1] == WEIR_ARP_REPLY &&
	       weir_load(skb, WEIR_ARP_TO, &to, 4) && to == asker->from[3];
}

/* The lane of the question that a packet of the kernel's answers; 0 = it is the host's. */
static __always_inline __u32 weir_lane_asked(weir_packet *skb)
{
	__u32 none = 0, ip[WEIR_IPV6_WORDS];
	struct weir_asker *asker = bpf_map_lookup_elem(&weir_askers, &none);

	if (!asker || !asker->lane || !weir_load(skb, 0, ip, WEIR_IPV4_WORDS * 4))
		return 0;
	if (skb->protocol == bpf_htons(ETH_P_ARP))
		return weir_answers_arp(skb, asker, ip) ? asker->lane : 0;
	if (weir_version(ip[WEIR_IP_VERSION]) == 4) {
		if (asker->from[3] != ip[WEIR_IPV4_DESTINATION] ||
		    asker->from[2] != WEIR_IPV4_MAPPED)
			return 0;
		return weir_answers_ipv4(skb, ip) ? asker->lane : 0;
	}
	if (weir_version(ip[WEIR_IP_VERSION]) != 6 || !weir_load(skb, 0, ip, sizeof(ip)))
		return 0;
	for (int i = 0; i < 4; i++)
		if (asker->from[i] != ip[WEIR_IPV6_DESTINATION + i])
			return 0;
	return weir_answers_ipv6(skb, ip) ? asker->lane : 0;
}

/*
 * May a socket in this state be one by which the kernel answers? A listener refuses segments, a
 * request of a connection accepts it, a connection that is over acknowledges. The kernel's own
 * sockets (weir_kernels) are closed: raw ones, and one of SCTP.
 */
static __always_inline bool weir_state_answers(__u8 state)
{
	enum { TIME_WAIT = 6, LISTEN = 10, NEW_SYN_RECV = 12 };

	return 1 << (state & 31) & (1 << TIME_WAIT | 1 << LISTEN | 1 << NEW_SYN_RECV);
}

static __always_inline bool weir_kernels(__u8 state, __u32 type, __u32 family)
{
	enum { CLOSE = 7, RAW = 3, SEQPACKET = 5, INET = 2, INET6 = 10 };

	return state == CLOSE && (type == RAW || type == SEQPACKET) &&
	       (family == INET || family == INET6);
}

#endif /* WEIR_ASKED_H */
