// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Notes for whom the kernel answers (asked.h): what is delivered to this host passes here, at
 * netfilter's LOCAL_IN of IPv4 and of IPv6, before the rules of others, and what is forwarded does
 * not. The packet goes on, whatever it is.
 *
 * What the kernel answers without delivering the question is noted where it makes the answer:
 * errors of ICMP, resets of a firewall (`reject` in FORWARD), replies of ARP. These programs stand
 * at the beginning of the kernel's own functions, and cost other packets nothing.
 *
 * A packet's class is what its seal says. With mark_mask it may be in the mark, which counts for
 * what came by a device: over lo a packet socket would choose it (owner.h).
 *
 * Example: class 3 asks for an echo in the name of 192.0.2.7. The note is ::ffff:192.0.2.7, 3; the
 * host's own packet behind it makes the note 0.
 *
 * Example: class 3 sends a packet with a TTL of 1 in the name of 192.0.2.7, for the host to
 * forward. Before the kernel makes the error, the note becomes ::ffff:192.0.2.7, 3.
 *
 * Cost: each packet that is delivered to the host pays some 100 instructions, most of them the
 * kernel's way to here.
 */
#include "../core/kernel.h"
#include "netns.h"

#define weir_packet struct sk_buff
#define WEIR_LOAD_IP packet_load_ip
#include "asked.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* Set before the load, frozen after it. */
const volatile struct weir_carrier weir_in;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct bpf_nf_ctx {
	struct sk_buff *skb;
};
#pragma clang attribute pop

#define NF_ACCEPT 1

/* The lane of what came by a device; 0 = it is no workload's. */
static __always_inline __u32 lane_of(struct sk_buff *skb)
{
	__u32 lane = 0;

	if (weir_sealed(skb->tc_index) || skb->skb_iif > WEIR_LOOPBACK)
		lane = weir_lane_in(&weir_in, skb->tc_index, skb->mark);
	return lane & WEIR_LANE_CLASS ? lane : 0;
}

SEC("netfilter")
int weir_note_in(struct bpf_nf_ctx *ctx)
{
	weir_note(ctx->skb, lane_of(ctx->skb));
	return NF_ACCEPT;
}

/* The kernel begins to answer a packet. */
static __always_inline int note_here(struct sk_buff *skb)
{
	if (weir_packet_here(skb))
		weir_note(skb, lane_of(skb));
	return 0;
}

/* By an error of ICMP. */
SEC("fentry/__icmp_send")
int BPF_PROG(weir_note_icmp, struct sk_buff *skb)
{
	return note_here(skb);
}

SEC("fentry/icmp6_send")
int BPF_PROG(weir_note_icmp6, struct sk_buff *skb)
{
	return note_here(skb);
}

/* By netfilter itself: its answer is of the connection of the question. */
SEC("fentry/nf_ct_attach")
int BPF_PROG(weir_note_reset, struct sk_buff *answer, struct sk_buff *skb)
{
	return note_here(skb);
}

SEC("fentry/arp_rcv")
int BPF_PROG(weir_note_arp, struct sk_buff *skb)
{
	if (weir_packet_here(skb))
		weir_note_neighbour(skb, lane_of(skb));
	return 0;
}
