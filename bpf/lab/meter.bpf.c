/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The lab's instruments: who received how much in each 10 ms, and the two small
 * programs that a cost measurement needs around the scheduler. Nothing here is
 * part of what Weir installs on a host.
 *
 *     workload 1 ──veth──┐                               ┌─ lab_meter counts by
 *     workload 2 ──veth──┼─ bridge ── up0 [qdisc] ── line ─ srv    source address
 *     workload 3 ──veth──┘                               └─ or lab_sink drops
 *
 * lab_meter sits where packets reach the receiver, so that it counts what was
 * delivered and not what was sent: at the server or, if traffic comes to the
 * workloads, at the end of each of them. Time is cut into buckets, each with its own
 * counter per workload; a whole scenario fits, so no program has to read while
 * traffic runs and disturb the measurement. Example: 5 workloads, 50 s of
 * 10 ms buckets: 25,000 counters of 16 bytes, 400 kB.
 *
 * Bytes are wire bytes as qdiscs count them (qdisc_skb_cb(skb)->pkt_len):
 * Ethernet header included, and of a GSO packet each segment's headers. A
 * 40-segment packet of 58,000 bytes is 40 frames here too.
 *
 * Payload is what the receiving programs can read. Of UDP that is what arrives. Of TCP
 * it is what the receiver acknowledges: lab_acks watches its acknowledgements leave, and
 * the number in them says how much has come in order. A segment that comes twice counts
 * once, and one behind a hole when the hole is filled, as the program sees it. Example:
 * acknowledgements of 1448, 2896, 2896 (a duplicate) and 7240 are 1448, 1448, 0 and 4344
 * bytes, each in the bucket in which it left. A FIN counts as a byte.
 *
 * What it does not do: IPv6 (the lab has none), and packets from addresses that
 * are not a workload's (ARP, the bridge itself) are left out.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "../marking/seal.h"

const volatile __u32 lab_first_address; /* of workload 0, host byte order */
const volatile __u32 lab_workloads; /* addresses that follow each other */
const volatile __u32 lab_buckets; /* per workload */
const volatile __u64 lab_start_ns; /* CLOCK_MONOTONIC at which bucket 0 begins */
const volatile __u64 lab_bucket_ns;

/* lab_classify and lab_spread write the class where the scheduler looks for it. */
const volatile __u32 lab_class; /* lab_classify: of this port */
const volatile __u32 lab_first_port; /* lab_spread: UDP port of class 1, host byte order */
const volatile __u32 lab_to_seal; /* 1: the seal (../marking/seal.h); 0: skb->priority */
const volatile __u32 lab_handle; /* high half of the priority, e.g. 0x10000 for 1: */

const volatile __u32 lab_by_flow; /* lab_flows has entries */
const volatile __u32
	lab_inward; /* count by the receiver's address: traffic comes to the workloads */

struct lab_bucket {
	__u64 bytes; /* on the wire */
	__u64 packets;
	__u64 payload; /* bytes that programs can read */
};

/*
 * [row * lab_buckets + bucket], first a row per workload, then one per flow that is
 * counted by itself; the size is set before the load. Mapped into
 * the lab's memory, so that reading it is one copy.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lab_bucket);
} lab_received SEC(".maps");

/* Where a workload's packets to one port are counted by themselves: their row. */
struct lab_flow {
	__u32 who; /* number of the workload */
	__u16 port; /* of the receiver, host byte order; 0 if the protocol has none */
	__u16 proto;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct lab_flow);
	__type(value, __u32);
} lab_flows SEC(".maps");

/* How far the receiver of a TCP connection has acknowledged. */
struct lab_connection {
	__u32 who; /* number of the workload */
	__u16 near, far; /* ports of the receiver and of the sender, network byte order */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct lab_connection);
	__type(value, __u32);
} lab_acked SEC(".maps");

/* Packets that lab_sink took. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lab_bucket);
} lab_sunk SEC(".maps");

/* Where the IPv4 header is, if there is one, and with it what it says. */
static const struct iphdr *ip_header(struct __sk_buff *skb)
{
	const struct ethhdr *eth = (const void *)(long)skb->data;
	const void *end = (const void *)(long)skb->data_end;
	const struct iphdr *ip = (const void *)(eth + 1);

	if ((const void *)(ip + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP))
		return 0;
	return ip;
}

/* Headers that each segment of a GSO packet gets a copy of. */
static __u32 header_bytes(struct __sk_buff *skb, const struct iphdr *ip)
{
	const void *end = (const void *)(long)skb->data_end;
	const struct tcphdr *tcp = (const void *)(ip + 1); /* the lab sends no IP options */

	if (ip->protocol == IPPROTO_UDP)
		return sizeof(struct ethhdr) + sizeof(*ip) + sizeof(struct udphdr);
	if ((const void *)(tcp + 1) > end)
		return sizeof(struct ethhdr) + sizeof(*ip) + sizeof(*tcp);
	return sizeof(struct ethhdr) + sizeof(*ip) + tcp->doff * 4;
}

static void add(struct lab_bucket *b, __u64 bytes, __u64 packets)
{
	__sync_fetch_and_add(&b->bytes, bytes);
	__sync_fetch_and_add(&b->packets, packets);
}

static void add_payload(struct lab_bucket *b, __u64 payload)
{
	if (payload)
		__sync_fetch_and_add(&b->payload, payload);
}

/* The row of a flow of workload `who`, 0 (a workload's) if it has none. */
static __u32 flow_row(__u32 who, __u8 proto, __be16 port)
{
	struct lab_flow key = {.who = who, .port = bpf_ntohs(port), .proto = proto};
	const __u32 *row = bpf_map_lookup_elem(&lab_flows, &key);

	return row ? *row : 0;
}

/* The port that a packet goes to, 0 if its protocol has none or it is cut off. */
static __be16 to_port(struct __sk_buff *skb, const struct iphdr *ip)
{
	const void *end = (const void *)(long)skb->data_end;
	const struct udphdr *ports = (const void *)(ip + 1); /* TCP's are in the same place */

	if (ip->protocol == IPPROTO_ICMP || (const void *)(ports + 1) > end)
		return 0;
	return ports->dest;
}

static __u64 bucket_now(void)
{
	return (bpf_ktime_get_ns() - lab_start_ns) / lab_bucket_ns;
}

static struct lab_bucket *bucket_of(__u32 row, __u64 bucket)
{
	__u32 key = row * lab_buckets + (__u32)bucket;

	return bpf_map_lookup_elem(&lab_received, &key);
}

SEC("tcx/ingress")
int lab_meter(struct __sk_buff *skb)
{
	const struct iphdr *ip = ip_header(skb);
	__u32 segments = skb->gso_segs > 1 ? skb->gso_segs : 1;
	__u64 bytes = skb->len, bucket, payload = 0;
	struct lab_bucket *b;
	__u32 who, row;

	if (!ip)
		return TC_ACT_UNSPEC;
	who = bpf_ntohl(lab_inward ? ip->daddr : ip->saddr) - lab_first_address;
	bucket = bucket_now();
	if (who >= lab_workloads || bucket >= lab_buckets)
		return TC_ACT_UNSPEC;
	if (segments > 1)
		bytes += (__u64)(segments - 1) * header_bytes(skb, ip);
	if (ip->protocol == IPPROTO_UDP)
		payload = bytes - (__u64)segments * header_bytes(skb, ip);
	b = bucket_of(who, bucket);
	if (b) {
		add(b, bytes, segments);
		add_payload(b, payload);
	}
	if (!lab_by_flow)
		return TC_ACT_UNSPEC;
	row = flow_row(who, ip->protocol, to_port(skb, ip));
	b = bucket_of(row, bucket);
	if (row && b) {
		add(b, bytes, segments);
		add_payload(b, payload);
	}
	return TC_ACT_UNSPEC;
}

/* How much more than before an acknowledgement says has come. */
static __u32 acknowledged(const struct tcphdr *tcp, __u32 who)
{
	struct lab_connection key = {.who = who, .near = tcp->source, .far = tcp->dest};
	__u32 ack = bpf_ntohl(tcp->ack_seq), *before;
	__s32 more;

	before = bpf_map_lookup_elem(&lab_acked, &key);
	if (!before || tcp->syn) {
		bpf_map_update_elem(&lab_acked, &key, &ack, BPF_ANY);
		return 0;
	}
	more = (__s32)(ack - *before);
	if (more <= 0)
		return 0;
	*before = ack;
	return more;
}

/* At the same device as lab_meter, in the other direction. */
SEC("tcx/egress")
int lab_acks(struct __sk_buff *skb)
{
	const void *end = (const void *)(long)skb->data_end;
	const struct iphdr *ip = ip_header(skb);
	const struct tcphdr *tcp = (const void *)(ip + 1);
	struct lab_bucket *b;
	__u32 who, row, more;
	__u64 bucket;

	if (!ip || ip->protocol != IPPROTO_TCP || (const void *)(tcp + 1) > end || !tcp->ack ||
	    tcp->rst)
		return TC_ACT_UNSPEC;
	who = bpf_ntohl(lab_inward ? ip->saddr : ip->daddr) - lab_first_address;
	bucket = bucket_now();
	if (who >= lab_workloads || bucket >= lab_buckets)
		return TC_ACT_UNSPEC;
	more = acknowledged(tcp, who);
	if (!more)
		return TC_ACT_UNSPEC;
	b = bucket_of(who, bucket);
	if (b)
		add_payload(b, more);
	if (!lab_by_flow)
		return TC_ACT_UNSPEC;
	row = flow_row(who, IPPROTO_TCP, tcp->source);
	b = bucket_of(row, bucket);
	if (row && b)
		add_payload(b, more);
	return TC_ACT_UNSPEC;
}

/*
 * The end of a cost measurement: count and drop, so that no receiver's work is
 * part of the figure.
 */
SEC("tcx/ingress")
int lab_sink(struct __sk_buff *skb)
{
	struct lab_bucket *b;
	__u32 key = 0;

	if (!ip_header(skb))
		return TC_ACT_SHOT;
	b = bpf_map_lookup_elem(&lab_sunk, &key);
	if (b)
		add(b, skb->len, 1);
	return TC_ACT_SHOT;
}

/* A packet's times, CLOCK_MONOTONIC in ns. */
struct lab_stamp {
	__u64 at; /* it arrived */
	__u64 due; /* for when the scheduler had last set its timer; 0 = it never had */
};

/* Of all packets, in order; the size is set before the load. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lab_stamp);
} lab_stamps SEC(".maps");

const volatile __u32 lab_shaped; /* lab_due: index of the scheduler's device */
__u64 lab_due_ns;

/* The few kernel types that lab_due reads; CO-RE finds the members. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct net_device {
	int ifindex;
};

struct netdev_queue {
	struct net_device *dev;
};

struct Qdisc {
	struct netdev_queue *dev_queue;
};

struct qdisc_watchdog {
	struct Qdisc *qdisc;
};
#pragma clang attribute pop

/*
 * The scheduler asks the kernel to wake it: fq, tbf and Weir all do it by this function,
 * when their next packet is due.
 */
SEC("fentry/qdisc_watchdog_schedule_range_ns")
int BPF_PROG(lab_due, struct qdisc_watchdog *watchdog, __u64 expires)
{
	if (watchdog->qdisc->dev_queue->dev->ifindex == lab_shaped)
		lab_due_ns = expires;
	return 0;
}

/*
 * How exactly packets leave by a schedule: the times of each, in order. lab_sunk
 * counts them.
 */
SEC("tcx/ingress")
int lab_stamp(struct __sk_buff *skb)
{
	__u64 now = bpf_ktime_get_ns();
	struct lab_stamp *stamp;
	struct lab_bucket *b;
	__u32 key = 0, i;

	if (!ip_header(skb))
		return TC_ACT_SHOT;
	b = bpf_map_lookup_elem(&lab_sunk, &key);
	if (!b)
		return TC_ACT_SHOT;
	i = b->packets;
	stamp = bpf_map_lookup_elem(&lab_stamps, &i);
	if (stamp) {
		stamp->at = now;
		stamp->due = lab_due_ns;
	}
	add(b, skb->len, 1);
	return TC_ACT_SHOT;
}

static void set_class(struct __sk_buff *skb, __u32 class)
{
	if (lab_to_seal) {
		skb->tc_index = weir_seal_of(class);
		/* Or clang joins both stores to one at an offset that the verifier refuses. */
		asm volatile("" ::: "memory");
	} else {
		skb->priority = lab_handle | class;
	}
}

/*
 * The kernel's own schedulers find the class in skb->priority: one constant
 * written at the host's end of a workload's veth, the cheapest classifier there
 * is (a fw filter costs 156 instructions, matchall with skbedit more).
 */
SEC("tcx/ingress")
int lab_classify(struct __sk_buff *skb)
{
	set_class(skb, lab_class);
	return TC_ACT_UNSPEC;
}

/*
 * A thousand workloads behind one veth: the class is the UDP port. The same
 * program, at the same cost, serves whichever scheduler is measured.
 */
SEC("tcx/ingress")
int lab_spread(struct __sk_buff *skb)
{
	const void *end = (const void *)(long)skb->data_end;
	const struct iphdr *ip = ip_header(skb);
	const struct udphdr *udp = (const void *)(ip + 1);

	if (!ip || ip->protocol != IPPROTO_UDP || (const void *)(udp + 1) > end)
		return TC_ACT_UNSPEC;
	set_class(skb, bpf_ntohs(udp->dest) - lab_first_port + 1);
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual BSD/GPL";
