/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How much payload has arrived? Not how many bytes were on the wire: headers do
 * not count, nor does what TCP sends a second time.
 *
 * It looks at both directions of a workload's traffic where the workload meets the
 * host (its veth, its tap, its cgroup), because there both can be told apart:
 *
 *     workload ──► weir_gp_from: payload sent, new or again ──► queue, link, network
 *     workload ◄── weir_gp_to:   what the far end acknowledges ◄──────────┘
 *
 * TCP's own numbers say it all. A flow has three marks, and only what lies beyond
 * a mark counts:
 *
 *     sent      the highest sequence number that the workload has sent. A segment
 *               below it was sent before: a retransmission
 *     acked     how much the far end has acknowledged: delivered there. What it has
 *               behind a hole (SACK) is added, so that a hole that is being filled
 *               moves nothing from one second to the next
 *     received  the highest that has come to the workload; below it: again
 *
 * Example: segments 1000-2000 and 2000-3000 leave, the first is lost and sent again.
 * new 2000, again 1000; the acknowledgements of 1000 (a duplicate) and then of 3000
 * make delivered 2000, whatever was dropped in which queue.
 *
 * So for what a workload sends (egress) the truth is `acked`: it comes from the
 * receiver and knows nothing of queues on the way. For what it receives it is
 * `received`, seen behind the link's queue. UDP and all else have no such numbers:
 * there payload is counted as it passes, and what a queue drops afterwards is the
 * agent's to subtract.
 *
 * Ingress that is steered passes a veth twice, before and behind the IFB device
 * (marking/classify.bpf.c); only the second time counts, which shows by where it comes from.
 *
 * Cost: a packet of a workload with a reservation takes three loads from the packet
 * and two look-ups, 730 to 970 instructions (BenchmarkGoodput of dataplane/goodput, on
 * Linux 7.3; those of the kernel's test run counted in); others take nothing, the
 * program is not there.
 *
 * What it does not do: look behind IPv6 extension headers (counted as if they were
 * payload), see behind holes where a receiver does not say what it has (no SACK: it
 * counts once the hole is filled; or more than four holes at once), count flows beyond
 * WEIR_GP_FLOWS (the least recently used is forgotten; its next packet begins it anew), tell what
 * was overtaken from what was sent again: where two CPUs carry one flow, a segment of up to 64 kB
 * may pass behind its successor; it counts as `again`, the gap before the successor as new, and the
 * sum of new bytes is right.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "marking/seal.h"

#define WEIR_GP_FLOWS 16384
#define WEIR_GP_TOTALS 4096 /* classes times queues that are asked about */
#define WEIR_GP_QUEUES 8
#define WEIR_GP_IFBS 8

/* Set before the load, frozen after it: whose traffic this copy sees. */
const volatile struct weir_gp_place {
	__u32 class;
	__u32 port; /* tells apart equal addresses in different networks */
	__u32 link_header; /* bytes before the IP header */
	struct weir_carrier in; /* where packets carry their queue */
	__u32 ifbs[WEIR_GP_IFBS]; /* where ingress comes from if it is steered; 0 = no more */
} weir_gp;

struct weir_gp_key {
	__u32 local[4], remote[4]; /* seen from the workload; IPv4 in the first word */
	__u16 local_port, remote_port;
	__u32 port;
	__u32 protocol; /* TCP or UDP; 0 = neither, which is no flow */
};

enum weir_gp_known {
	WEIR_GP_SENT = 1,
	WEIR_GP_ACKED = 2,
	WEIR_GP_RECEIVED = 4,
};

/* Payload bytes. */
struct weir_gp_counts {
	__u64 sent; /* TCP, the first time */
	__u64 again; /* TCP, sent once more */
	__u64 acked; /* TCP, delivered at the far end */
	__u64 received; /* TCP, come to the workload for the first time */
	__u64 received_again;
	__u64 datagrams; /* of UDP and all else, sent */
	__u64 datagrams_received;
};

struct weir_gp_flow {
	struct weir_gp_counts counts;
	__u32 sent, acked, received; /* the marks */
	__u32 known; /* enum weir_gp_known */
	__u32 queue; /* of what the workload sent last */
	__u32 class;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WEIR_GP_FLOWS);
	__type(key, struct weir_gp_key);
	__type(value, struct weir_gp_flow);
} weir_gp_flows SEC(".maps");

/* By class times WEIR_GP_QUEUES plus queue. The agent makes the entries. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WEIR_GP_TOTALS);
	__type(key, __u32);
	__type(value, struct weir_gp_counts);
} weir_gp_totals SEC(".maps");

/* One packet, as far as it is looked at. */
struct weir_gp_packet {
	struct weir_gp_key key; /* local is the sender */
	__u32 seq, ack;
	__u32 options, options_end; /* TCP's: where they begin and end in the packet */
	__u32 payload;
	__u8 tcp, syn, acks;
};

#define WEIR_GP_BLOCKS 4
/* How the options that are looked at begin in all known stacks: two NOPs, kind, length. */
#define WEIR_GP_STAMP 0x0101080a
#define WEIR_GP_SACK 0x01010500 /* and its length */

/*
 * How many bytes have arrived behind the hole that begins at p->ack, by a SACK option.
 * A block before it is a duplicate (RFC 2883) and says nothing new. Options in another
 * order are not understood; then the bytes count once the hole is filled.
 */
static __always_inline __u32 weir_gp_sacked(struct __sk_buff *skb, const struct weir_gp_packet *p)
{
	__u32 at = p->options, end = p->options_end, sacked = 0;
	__be32 word;

	if (at + 12 > end || bpf_skb_load_bytes(skb, at, &word, sizeof(word)))
		return 0;
	if (word == bpf_htonl(WEIR_GP_STAMP)) {
		at += 12;
		if (at + 12 > end || bpf_skb_load_bytes(skb, at, &word, sizeof(word)))
			return 0;
	}
	if ((bpf_ntohl(word) & 0xffffff00) != WEIR_GP_SACK)
		return 0;
	at += sizeof(word);
	for (int i = 0; i < WEIR_GP_BLOCKS && at + 8 <= end; i++, at += 8) {
		__be32 block[2];
		__u32 left, right;

		if (bpf_skb_load_bytes(skb, at, block, sizeof(block)))
			break;
		left = bpf_ntohl(block[0]);
		right = bpf_ntohl(block[1]);
		if ((__s32)(left - p->ack) > 0 && (__s32)(right - left) > 0)
			sacked += right - left;
	}
	return sacked;
}

static __always_inline int weir_gp_read_tcp(struct __sk_buff *skb, __u32 at, __u32 after,
					    struct weir_gp_packet *p)
{
	struct tcphdr tcp;

	if (bpf_skb_load_bytes(skb, at, &tcp, sizeof(tcp)) || after < tcp.doff * 4)
		return -1;
	p->key.protocol = IPPROTO_TCP;
	p->key.local_port = tcp.source;
	p->key.remote_port = tcp.dest;
	p->seq = bpf_ntohl(tcp.seq) + tcp.syn; /* of the first byte of payload */
	p->ack = bpf_ntohl(tcp.ack_seq);
	p->options = at + sizeof(tcp);
	p->options_end = at + tcp.doff * 4;
	p->payload = after - tcp.doff * 4;
	p->tcp = 1;
	p->syn = tcp.syn;
	p->acks = tcp.ack;
	return 0;
}

/* UDP and all else; a fragment counts whole and belongs to no flow. */
static __always_inline int weir_gp_read_datagram(struct __sk_buff *skb, __u32 at, __u32 after,
						 __u8 protocol, struct weir_gp_packet *p)
{
	struct udphdr udp;

	p->payload = after;
	if (protocol != IPPROTO_UDP)
		return 0;
	p->payload = after > sizeof(udp) ? after - sizeof(udp) : 0;
	if (bpf_skb_load_bytes(skb, at, &udp, sizeof(udp)))
		return 0;
	p->key.protocol = IPPROTO_UDP;
	p->key.local_port = udp.source;
	p->key.remote_port = udp.dest;
	return 0;
}

static __always_inline int weir_gp_read(struct __sk_buff *skb, struct weir_gp_packet *p)
{
	__u32 at = weir_gp.link_header, after, length;
	__u8 proto;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr ip;

		if (bpf_skb_load_bytes(skb, at, &ip, sizeof(ip)))
			return -1;
		/* A short frame may be padded; the length of a large one may not be written. */
		length = skb->gso_segs > 1 ? skb->len - at : bpf_ntohs(ip.tot_len);
		at += ip.ihl * 4;
		after = length - ip.ihl * 4;
		p->key.local[0] = ip.saddr;
		p->key.remote[0] = ip.daddr;
		proto = ip.frag_off & bpf_htons(0x1fff) ? IPPROTO_RAW : ip.protocol;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct {
			__be32 first;
			__be16 length;
			__u8 next, hops;
		} ip;

		if (bpf_skb_load_bytes(skb, at, &ip, sizeof(ip)) ||
		    bpf_skb_load_bytes(skb, at + 8, p->key.local, 32))
			return -1;
		at += 40;
		after = skb->gso_segs > 1 ? skb->len - at : bpf_ntohs(ip.length);
		proto = ip.next;
	} else {
		return -1;
	}
	if ((__s32)after < 0)
		return -1;
	p->key.port = weir_gp.port;
	if (proto == IPPROTO_TCP)
		return weir_gp_read_tcp(skb, at, after, p);
	return weir_gp_read_datagram(skb, at, after, proto, p);
}

static __always_inline struct weir_gp_counts *weir_gp_total(__u32 queue)
{
	__u32 key = weir_gp.class * WEIR_GP_QUEUES + queue % WEIR_GP_QUEUES;

	return bpf_map_lookup_elem(&weir_gp_totals, &key);
}

static __always_inline void weir_gp_add(__u64 *flow, __u64 *total, __u64 n)
{
	__sync_fetch_and_add(flow, n);
	__sync_fetch_and_add(total, n);
}

/* The flow of a packet from the workload; one that is new is made. */
static __always_inline struct weir_gp_flow *weir_gp_find(const struct weir_gp_key *key)
{
	struct weir_gp_flow *f = bpf_map_lookup_elem(&weir_gp_flows, key);

	if (!f) {
		struct weir_gp_flow fresh = {.class = weir_gp.class};

		bpf_map_update_elem(&weir_gp_flows, key, &fresh, BPF_NOEXIST);
		f = bpf_map_lookup_elem(&weir_gp_flows, key);
	}
	return f;
}

/* As many CPUs carry a flow at the same time. A try that fails means that another was faster. */
#define WEIR_GP_TRIES 8

/*
 * Moves the mark to `to`, if that is ahead, and returns by how much: of CPUs that move it at the
 * same time, each gets its own part. Where all tries fail nothing moves, and the flow's next
 * packet counts these bytes.
 */
static __always_inline __u32 weir_gp_move(__u32 *mark, __u32 to)
{
	for (int i = 0; i < WEIR_GP_TRIES; i++) {
		__u32 from = *(volatile __u32 *)mark;

		if ((__s32)(to - from) <= 0)
			return 0;
		if (__sync_val_compare_and_swap(mark, from, to) == from)
			return to - from;
	}
	return 0;
}

/* How much of len bytes at seq lies beyond the mark, which moves to their end. */
static __always_inline __u32 weir_gp_beyond(__u32 *mark, __u32 *known, __u32 which, __u32 seq,
					    __u32 len, __u8 syn)
{
	if (syn || !(*known & which)) {
		*mark = seq; /* others trust it as soon as it is known */
		__sync_fetch_and_or(known, which);
	}
	return weir_gp_move(mark, seq + len);
}

static __always_inline __u32 weir_gp_queue(struct __sk_buff *skb)
{
	return (weir_lane_in(&weir_gp.in, skb->tc_index, skb->mark) >> WEIR_LANE_QUEUE) %
	       WEIR_GP_QUEUES;
}

static __always_inline void weir_gp_sent(struct __sk_buff *skb)
{
	struct weir_gp_packet p = {};
	__u32 queue = weir_gp_queue(skb);
	struct weir_gp_counts *total = weir_gp_total(queue);
	struct weir_gp_flow *f;
	__u32 beyond;

	if (!total || weir_gp_read(skb, &p))
		return;
	f = p.key.protocol ? weir_gp_find(&p.key) : NULL;
	if (f)
		f->queue = queue;
	if (!p.tcp) {
		__sync_fetch_and_add(&total->datagrams, p.payload);
		if (f)
			__sync_fetch_and_add(&f->counts.datagrams, p.payload);
		return;
	}
	if (!f)
		return;
	if (p.syn)
		f->known = 0;
	beyond = weir_gp_beyond(&f->sent, &f->known, WEIR_GP_SENT, p.seq, p.payload, p.syn);
	weir_gp_add(&f->counts.sent, &total->sent, beyond);
	if (p.payload > beyond)
		weir_gp_add(&f->counts.again, &total->again, p.payload - beyond);
}

/* Ingress that is steered counts behind the IFB, the rest where it is seen. */
static __always_inline int weir_gp_arrives(struct __sk_buff *skb)
{
	if (!weir_gp.ifbs[0])
		return 1;
	for (int i = 0; i < WEIR_GP_IFBS && weir_gp.ifbs[i]; i++)
		if (skb->ingress_ifindex == weir_gp.ifbs[i])
			return 1;
	return 0;
}

static __always_inline void weir_gp_turn(struct weir_gp_key *key)
{
	__u16 port = key->local_port;

#pragma clang loop unroll(full)
	for (int i = 0; i < 4; i++) {
		__u32 address = key->local[i];

		key->local[i] = key->remote[i];
		key->remote[i] = address;
	}
	key->local_port = key->remote_port;
	key->remote_port = port;
}

static __always_inline void weir_gp_came(struct __sk_buff *skb)
{
	struct weir_gp_packet p = {};
	struct weir_gp_counts *total;
	struct weir_gp_flow *f;
	__u32 queue, beyond;

	if (weir_gp_read(skb, &p))
		return;
	queue = weir_gp_queue(skb);
	weir_gp_turn(&p.key);
	if (!p.tcp) {
		total = weir_gp_total(queue);
		if (!total || !weir_gp_arrives(skb))
			return;
		__sync_fetch_and_add(&total->datagrams_received, p.payload);
		f = p.key.protocol ? weir_gp_find(&p.key) : NULL;
		if (f)
			__sync_fetch_and_add(&f->counts.datagrams_received, p.payload);
		return;
	}
	f = weir_gp_find(&p.key);
	if (!f)
		return;
	total = weir_gp_total(f->queue);
	if (total && p.acks) {
		__u32 delivered = p.ack + weir_gp_sacked(skb, &p);

		if (p.syn || !(f->known & WEIR_GP_ACKED)) {
			f->acked = p.ack;
			__sync_fetch_and_or(&f->known, WEIR_GP_ACKED);
		}
		beyond = weir_gp_move(&f->acked, delivered);
		if (beyond)
			weir_gp_add(&f->counts.acked, &total->acked, beyond);
	}
	if (!p.payload && !p.syn)
		return;
	total = weir_gp_total(queue);
	if (!total || !weir_gp_arrives(skb))
		return;
	beyond = weir_gp_beyond(&f->received, &f->known, WEIR_GP_RECEIVED, p.seq, p.payload, p.syn);
	weir_gp_add(&f->counts.received, &total->received, beyond);
	if (p.payload > beyond)
		weir_gp_add(&f->counts.received_again, &total->received_again, p.payload - beyond);
}

SEC("tcx/ingress")
int weir_gp_from(struct __sk_buff *skb)
{
	weir_gp_sent(skb);
	return TC_ACT_UNSPEC;
}

SEC("tcx/egress")
int weir_gp_to(struct __sk_buff *skb)
{
	weir_gp_came(skb);
	return TC_ACT_UNSPEC;
}

SEC("cgroup_skb/egress")
int weir_gp_cg_from(struct __sk_buff *skb)
{
	weir_gp_sent(skb);
	return 1; /* let it pass */
}

SEC("cgroup_skb/ingress")
int weir_gp_cg_to(struct __sk_buff *skb)
{
	weir_gp_came(skb);
	return 1;
}

char _license[] SEC("license") = "Dual BSD/GPL";
