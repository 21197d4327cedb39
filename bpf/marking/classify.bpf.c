/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose packet is this, and which of its queues does it belong to? mark.bpf.c for
 * workloads with rules or with a DSCP to write, and for those that have no port.
 * Writes class and queue into skb->tc_index (seal.h), and with mark_mask into skb->mark:
 *
 *     mask 0xffff0000:  qqqc cccc cccc cccc  0000 0000 0000 0000
 *                       queue, class         of other programs
 *
 * Example: class 3, {udp: 5001} for queue 1: seal 0x8061; with that mask the mark 1 becomes
 * 0x20030001.
 *
 * One program for each place; only one of them is loaded at a time, with the
 * rules of one workload as constants, like mark.bpf.c:
 *
 *   weir_rules_port  what comes in by a veth or tap. As mark.bpf.c
 *   weir_rules_link  what leaves by the link. Runs before the qdisc. Packets of local
 *                    sockets get the class that they have by owner.h, and the queue by the
 *                    rules of that class (weir_late). Those that then
 *                    have no class are the host's own and what Open vSwitch forwards:
 *                    class 0. Writes the DSCP of sockets' packets, too. Rules see the
 *                    addresses of the wire: it is behind NAT
 *   weir_rules_cgrp  what the processes of a cgroup send. Such a program may not write
 *                    tc_index. With mark_mask it writes the mark, which rules of netfilter may
 *                    read; without, it says nothing but whose the cgroup is
 *   weir_rules_in    what goes into a workload by its veth or tap. Takes those
 *                    that came by a link whose ingress is steered; the action
 *                    behind the filter carries them to that link's IFB device
 *   weir_rules_zone  what leaves by a link that has zones. Takes what goes into one
 *                    of them, in the same way
 *
 *   weir_rules_seal  what leaves by lo or by a device above the link. Seals what the sockets
 *                    of workloads send, as weir_rules_link does: what comes to the link of it
 *                    may have no socket, or be in a tunnel
 *   weir_rules_note  what comes back from the lo of a workload's namespace. Notes for whom the
 *                    kernel answers (asked.h)
 *   weir_rules_long  what leaves by a link whose packets need not be told apart: takes those that
 *                    are too long for the link (split.h), as weir_rules_link does
 *   weir_rules_segm  the frames that these have become. Sends them on by the link
 *   weir_rules_ifb   what goes into an IFB of Weir's. Refuses what sockets send there, and
 *                    sends copies of a frame to many straight on (copies.h)
 *
 * and where the kernel has tcx (below):
 *
 *   weir_rules_take  weir_rules_in without an action behind it
 *   weir_rules_area  weir_rules_zone without one
 *   weir_rules_gate  weir_rules_ifb of a pair
 *   weir_rules_back  what comes out of a pair. Sends it on by the port that it was taken at
 *
 * What it does not do: look at rules for packets of other workloads. A packet
 * that has a class keeps it on the link.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include "rules.h"
#include "owner.h"
#include "zone.h"
#include "copies.h"
#include "split.h"

#define weir_packet struct __sk_buff
#define WEIR_LOAD_IP(skb, at, to, len)                                                             \
	bpf_skb_load_bytes_relative(skb, at, to, len, BPF_HDR_START_NET)
#include "asked.h"

/* The packet's class and queue, as it carries them. */
static __always_inline __u32 weir_lane(struct __sk_buff *skb)
{
	return weir_lane_in(&weir_here.in, skb->tc_index, skb->mark);
}

/* Have the packet carry this class and queue in the mark, where some of its bits are Weir's. */
static __always_inline void weir_mark(struct __sk_buff *skb, __u32 lane)
{
	if (weir_here.in.classes)
		skb->mark = (skb->mark & weir_here.keep) |
			    (lane & WEIR_LANE_CLASS) << weir_here.in.shift |
			    lane >> WEIR_LANE_QUEUE << weir_here.in.queue_shift;
}

/* Have the packet's seal outlive a program behind this one that ends the chain (seal.h). */
static __always_inline void weir_keep(struct __sk_buff *skb)
{
	skb->tc_classid = skb->tc_index;
}

/* Have it carry them. Beside Cilium a class without room in the seal is in the mark alone. */
static __always_inline void weir_carry(struct __sk_buff *skb, __u32 lane)
{
	__u32 seal = weir_seal_of(lane);

	if (weir_here.in.others) {
		if ((lane & WEIR_LANE_CLASS) >= 1024)
			seal = WEIR_SEAL;
		seal = (skb->tc_index & weir_here.in.others) | (seal & ~weir_here.in.others);
	}
	skb->tc_index = seal;
	skb->tc_classid = seal;
	weir_mark(skb, lane);
}

/* Have it carry none: it is the host's. */
static __always_inline void weir_uncarry(struct __sk_buff *skb)
{
	skb->tc_index &= weir_here.in.others;
	weir_mark(skb, 0);
}

/* The same, of the class of this place, in a queue. */
static __always_inline void weir_carry_here(struct __sk_buff *skb, __u32 queue)
{
	__u32 seal = weir_here.seal;

	skb->tc_index = weir_here.in.others ? seal : seal | queue;
	weir_keep(skb);
	weir_mark(skb, weir_here.class | queue << WEIR_LANE_QUEUE);
}

static __always_inline int weir_mark_and_rewrite(struct __sk_buff *skb)
{
	struct weir_headers h = {};
	__u32 queue;
	__u8 dscp;

	weir_read(skb, &h, true);
	queue = weir_decide(&h) % WEIR_RULE_QUEUES;
	weir_carry_here(skb, queue);
	dscp = weir_here.dscp[queue];
	if (dscp != WEIR_DSCP_KEEP)
		weir_rewrite(skb, &h, dscp);
	if (weir_here.hosts)
		weir_hash_hosts(skb, &h, weir_here.hosts);
	return TC_ACT_UNSPEC; /* the same number as TCX_NEXT */
}

SEC("tcx/ingress")
int weir_rules_port(struct __sk_buff *skb)
{
	return weir_mark_and_rewrite(skb);
}

/* What classes ask for whose packets come from sockets. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* as many as there are, set before the load */
	__type(key, __u32);
	__type(value, struct weir_late_class);
} weir_late SEC(".maps");

/* Whose sockets are whose (owner.h): lanes by cgroups' ids. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* as many as there are, set before the load */
	__type(key, __u64);
	__type(value, __u32);
} weir_owners SEC(".maps");

/*
 * The lane of the cgroup that the packet's socket was made in, or of the nearest one
 * above that is a workload's; 0 for the host's.
 */
static __always_inline __u32 weir_owner(struct __sk_buff *skb)
{
#pragma clang loop unroll(full) /* so that levels without cgroups cost nothing */
	for (int level = WEIR_MAX_LEVELS - 1; level >= 0; level--) {
		__u32 *lane;
		__u64 id;

		if (!(weir_here.levels & 1 << level)) /* the verifier knows */
			continue;
		id = bpf_skb_ancestor_cgroup_id(skb, level);
		lane = id ? bpf_map_lookup_elem(&weir_owners, &id) : NULL;
		if (lane)
			return *lane;
	}
	return 0;
}

/* What the packet turned out to be. */
enum weir_found {
	WEIR_STAYS, /* of the class that it carried before, and of that queue */
	WEIR_OWNED, /* of its socket's class: the queue is to be found */
	WEIR_LOST, /* an answer of the kernel's, of which enough waits (asked.h) */
};

void *bpf_cast_to_kern_ctx(void *context) __ksym __weak;

/* How much of what the packet's socket has sent is not gone? bytes; 0 = the kernel does not say. */
static __always_inline __u32 weir_socket_sends(struct __sk_buff *skb)
{
	void *kernel, *sk;

	if (!weir_here.sk_at || !weir_here.sends_at) /* the verifier knows */
		return 0;
	kernel = bpf_cast_to_kern_ctx(skb);
	sk = *(void **)(kernel + weir_here.sk_at);
	return sk ? *(__u32 *)(sk + weir_here.sends_at) : 0;
}

/* As lane_of_answer in core/sockets.h. */
static __always_inline __u32 weir_lane_of_answer(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	__u32 lane;

	if (!sk || weir_state_answers(sk->state))
		return weir_lane_asked(skb);
	sk = bpf_sk_fullsock(sk);
	if (!sk || !weir_kernels(sk->state, sk->type, sk->family))
		return 0;
	lane = weir_lane_asked(skb);
	return lane && weir_socket_sends(skb) > WEIR_ANSWERS_WAIT ? lane | WEIR_LANE_REFUSED : lane;
}

/* A global function, which the verifier looks at once and not on every way that leads here. */
__noinline int weir_reown_socket(struct __sk_buff *skb)
{
	__u32 own = weir_owner(skb), lane;

	if (!own && weir_sealed(skb->tc_index))
		return WEIR_STAYS;
	if (!own)
		own = weir_lane_of_answer(skb);
	if (own & WEIR_LANE_REFUSED)
		return WEIR_LOST;
	lane = weir_lane(skb);
	if (!own) {
		/* What the host's sockets say of their queue stays. */
		if (lane & WEIR_LANE_CLASS)
			weir_uncarry(skb);
		return WEIR_STAYS;
	}
	if (!((lane ^ own) & WEIR_LANE_CLASS)) {
		weir_carry(skb, lane);
		return WEIR_STAYS;
	}
	weir_carry(skb, own);
	return WEIR_OWNED;
}

/*
 * Give the packet the class that it has by owner.h. The queue stays where the class is right:
 * an earlier place chose it. A seal that does not count is taken off, so that no later
 * place believes it.
 */
static __always_inline enum weir_found weir_reown(struct __sk_buff *skb)
{
	return skb->ingress_ifindex > WEIR_LOOPBACK ? WEIR_STAYS : weir_reown_socket(skb);
}

/* What the packet's class asks for, NULL = nothing. */
static __always_inline struct weir_late_class *weir_asked(struct __sk_buff *skb)
{
	__u32 class = weir_lane(skb) & WEIR_LANE_CLASS;

	return bpf_map_lookup_elem(&weir_late, &class);
}

/* Have a socket's packet carry the queue that the rules of its class say. */
__noinline int weir_sort(struct __sk_buff *skb)
{
	struct weir_late_class *late = weir_asked(skb);
	struct weir_headers h = {};
	struct weir_list l;
	__u32 class;

	if (!late || !late->count) /* it carries the fallback */
		return 0;
	class = weir_lane(skb) & WEIR_LANE_CLASS;
	l = (struct weir_list){late->first, late->count, late->fallback, class};
	weir_read(skb, &h, true);
	weir_carry(skb, class | (weir_decide_by(&h, &l) % WEIR_RULE_QUEUES) << WEIR_LANE_QUEUE);
	return 0;
}

/* Write the codepoint and the hash that the class of a packet asks for that no port has seen. */
__noinline int weir_dress(struct __sk_buff *skb)
{
	struct weir_late_class *late = weir_asked(skb);
	struct weir_headers h = {};
	__u8 dscp;

	/* What a port has seen may have no socket, nor may one that is sealed above the link. */
	if (!late || (late->ports && !skb->sk))
		return 0;
	dscp = late->dscp[(weir_lane(skb) >> WEIR_LANE_QUEUE) % WEIR_RULE_QUEUES];
	if (dscp == WEIR_DSCP_KEEP && !late->hosts)
		return 0;
	weir_read(skb, &h, true);
	if (dscp != WEIR_DSCP_KEEP)
		weir_rewrite(skb, &h, dscp);
	if (late->hosts)
		weir_hash_hosts(skb, &h, late->hosts);
	return 0;
}

/* Before each place where HTB may be next. */
static __always_inline void weir_forget_priority(struct __sk_buff *skb)
{
	if (weir_names_class(skb->priority))
		skb->priority = 0;
}

#define WEIR_INET 2 /* AF_INET */
#define WEIR_INET6 10

/*
 * Does lo keep the packet of an IP socket, and the answer? The host forwards none to 127.0.0.0/8
 * or ::1, and such a packet has been through the rules of netfilter that could send it elsewhere.
 * Packet sockets go past them.
 */
static __always_inline bool weir_stays(struct __sk_buff *skb, struct bpf_sock *sk)
{
	__u8 *ip = (__u8 *)(long)skb->data + ETH_HLEN; /* lo has such a header */
	__u8 *end = (__u8 *)(long)skb->data_end;

	if (skb->ifindex != WEIR_LOOPBACK || (sk->family != WEIR_INET && sk->family != WEIR_INET6))
		return false;
	if (ip + sizeof(struct iphdr) > end)
		return false;
	if (ip[0] >> 4 == 4)
		return ip[16] == 127 && ip[12] == 127;
	return ip + sizeof(struct ipv6hdr) <= end && !*(__u64 *)(ip + 24) &&
	       *(__u64 *)(ip + 32) == bpf_cpu_to_be64(1) && !*(__u64 *)(ip + 8) &&
	       *(__u64 *)(ip + 16) == bpf_cpu_to_be64(1);
}

/*
 * Cost: a packet with a socket pays the search for its cgroup, a workload's or not. One without
 * a socket pays a comparison, one to the loopback address six.
 */
SEC("tcx/egress")
int weir_rules_seal(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	enum weir_found found;
	__u32 own, lane;

	weir_keep(skb);
	if (!sk || skb->ingress_ifindex > WEIR_LOOPBACK || weir_stays(skb, sk))
		return TC_ACT_UNSPEC;
	own = weir_owner(skb);
	if (!own)
		return TC_ACT_UNSPEC;
	lane = weir_lane(skb);
	found = (lane ^ own) & WEIR_LANE_CLASS ? WEIR_OWNED : WEIR_STAYS;
	weir_carry(skb, found == WEIR_OWNED ? own : lane);
	if (weir_here.late && found == WEIR_OWNED)
		weir_sort(skb);
	return TC_ACT_UNSPEC;
}

/*
 * What comes back from the lo of a workload's namespace: notes for whom the kernel answers there
 * (asked.h), as answers.bpf.c does for the host. Its seal is that of weir_rules_seal.
 */
SEC("tcx/ingress")
int weir_rules_note(struct __sk_buff *skb)
{
	__u32 lane = weir_sealed(skb->tc_index) ? weir_lane(skb) : 0;

	weir_note(skb, lane & WEIR_LANE_CLASS ? lane : 0);
	return TC_ACT_UNSPEC;
}

/*
 * What mirred carries to an IFB was taken from a device, and has its index. A socket's packet
 * has not: a program with CAP_NET_RAW would take a neighbour's share of the qdisc there, for
 * packets that the device then drops.
 */
SEC("tcx/egress")
int weir_rules_ifb(struct __sk_buff *skb)
{
	__u32 port = skb->ingress_ifindex;

	if (port)
		return weir_is_copy(skb, port) ? bpf_redirect(port, 0) : TC_ACT_UNSPEC;
	/* By its constants the agent knows the program, so it has to name them. */
	asm volatile("" : : "r"(weir_here.host));
	return TC_ACT_SHOT;
}

/* A port without Ethernet headers: give the packet one for its way by devices that have them.
 * bpf_redirect takes it off again. */
static __always_inline long weir_add_header(struct __sk_buff *skb)
{
	__be16 protocol = skb->protocol;

	if (weir_here.link_header)
		return 0;
	return bpf_skb_change_head(skb, ETH_HLEN, 0) ||
	       bpf_skb_store_bytes(skb, offsetof(struct ethhdr, h_proto), &protocol,
				   sizeof(protocol), 0);
}

/* Have the kernel cut the packet into frames, which come back to this device. */
static __always_inline int weir_split(struct __sk_buff *skb)
{
	if (weir_add_header(skb))
		return TC_ACT_SHOT;
	skb->cb[3] = WEIR_SPLIT_AT;
	skb->cb[4] = skb->ifindex;
	return bpf_redirect(weir_here.split_by, 0);
}

SEC("tcx/egress")
int weir_rules_segm(struct __sk_buff *skb)
{
	/* By its constants the agent knows the program, so it has to name them. */
	asm volatile("" : : "r"(weir_here.host));
	return skb->cb[3] == WEIR_SPLIT_AT ? bpf_redirect(skb->cb[4], 0) : TC_ACT_SHOT;
}

/* Of the frames of a socket's packet the last alone has the socket, so all get its seal before. */
SEC("tcx/egress")
int weir_rules_long(struct __sk_buff *skb)
{
	if (weir_was_split(skb) || !weir_is_long(skb))
		return TC_ACT_UNSPEC;
	weir_reown(skb);
	return weir_split(skb);
}

static __always_inline enum weir_found weir_tell_apart(struct __sk_buff *skb)
{
	enum weir_found found = weir_reown(skb);

	weir_forget_priority(skb);
	if (found == WEIR_LOST)
		return found;
	if (!(weir_lane(skb) & WEIR_LANE_CLASS)) {
		if (weir_here.host)
			weir_mark_and_rewrite(skb);
		return found;
	}
	if (weir_here.late && found == WEIR_OWNED)
		weir_sort(skb);
	if (weir_here.late && skb->ingress_ifindex <= WEIR_LOOPBACK)
		weir_dress(skb);
	return found;
}

SEC("tcx/egress")
int weir_rules_link(struct __sk_buff *skb)
{
	if (!weir_was_split(skb)) {
		if (weir_tell_apart(skb) == WEIR_LOST)
			return TC_ACT_SHOT;
		if (weir_is_long(skb))
			return weir_split(skb);
	}
	weir_keep(skb);
	return TC_ACT_UNSPEC;
}

SEC("cgroup_skb/egress")
int weir_rules_cgrp(struct __sk_buff *skb)
{
	struct weir_headers h = {};

	if (!weir_here.in.classes) /* the verifier knows, and leaves the rest out */
		return 1;
	if (weir_here.count)
		weir_read(skb, &h, false);
	weir_mark(skb, weir_here.class | weir_decide(&h) << WEIR_LANE_QUEUE);
	return 1; /* let it pass */
}

/*
 * Does nothing: its link at a workload's cgroup lasts for as long as the cgroup has sockets, and
 * tells the agent so. It stands where no packet comes by, at files of sysctl.
 */
SEC("cgroup/sysctl")
int weir_rules_sock(struct bpf_sysctl *ctx __attribute__((unused)))
{
	/* By its constants the agent knows the program, so it has to name them. */
	asm volatile("" : : "r"(weir_here.host));
	return 1; /* let it pass */
}

/*
 * Ingress: what a link received for a workload is seen where it leaves the host,
 * at the host's end of the workload's veth or tap. This is a cls_bpf filter there
 * whose action is mirred: a packet that is taken goes to the IFB device that stands
 * for the link, waits in the qdisc there, and is sent again by the device that it
 * was taken from.
 *
 *     link ──► bridge, routing ──► veth [this filter] ──► container
 *                                   │  ▲
 *                                   ▼  │
 *                                   IFB [the link's qdisc]
 *
 * The second time it has to pass: the IFB has set tc_skip_classify, which lets the
 * action do nothing once. So such a packet is taken, too, by the port that took it before.
 *
 * Packets of other workloads of the host carry a class, and packets of the host came
 * by no device: neither is the link's, unless `local` says that all count.
 */
#define WEIR_SOURCES 16

/* Set before the load, like weir_here. */
const volatile struct weir_inward {
	__u32 ifb; /* index of the device, or of the first end of a pair */
	__u32 back; /* index of its second end */
	__u32 local; /* 1: whatever goes into the workload is taken */
	__u32 rewrites; /* 1: a DSCP is to be written */
	__u32 sources
		[WEIR_SOURCES]; /* the link and the devices on top of it (VLANs, its bridge); 0 = no more */
} weir_to SEC(".rodata.inward");

/* What a cls_bpf filter without direct action answers. */
#define WEIR_LEFT 0
#define WEIR_TAKEN -1

static __always_inline bool weir_by_link(__u32 iif)
{
	for (int i = 0; i < WEIR_SOURCES && weir_to.sources[i]; i++)
		if (iif == weir_to.sources[i])
			return true;
	return false;
}

/* Did the packet come by the link for the workload? Then it gets the workload's class. */
static __always_inline bool weir_arrives(struct __sk_buff *skb, __u32 iif)
{
	struct weir_headers h = {};
	__u32 queue;

	if (!weir_to.local && (weir_lane(skb) & WEIR_LANE_CLASS || !weir_by_link(iif)))
		return false;
	if (!weir_in_area(skb, weir_here.link_header, true))
		return false;
	if (weir_here.count || weir_to.rewrites || weir_here.hosts)
		weir_read(skb, &h, true);
	queue = weir_decide(&h) % WEIR_RULE_QUEUES;
	weir_carry_here(skb, queue);
	weir_forget_priority(skb);
	if (weir_to.rewrites && weir_here.dscp[queue] != WEIR_DSCP_KEEP)
		weir_rewrite(skb, &h, weir_here.dscp[queue]);
	if (weir_here.hosts)
		weir_hash_hosts(skb, &h, weir_here.hosts);
	return true;
}

/*
 * Did the workload of this port take the packet that comes back from the IFB? A port in front of
 * this one may have, such as a VLAN on it: tc_skip_classify was used up there, and taken again the
 * packet would wait and count twice.
 */
static __always_inline bool weir_here_took(struct __sk_buff *skb)
{
	return !((weir_lane(skb) ^ weir_here.class) & WEIR_LANE_CLASS);
}

SEC("tc")
int weir_rules_in(struct __sk_buff *skb)
{
	__u32 iif = skb->ingress_ifindex;

	if (iif == skb->ifindex) /* a copy, straight back from the IFB */
		return WEIR_LEFT;
	if (iif == weir_to.ifb)
		return weir_here_took(skb) ? WEIR_TAKEN : WEIR_LEFT;
	return weir_arrives(skb, iif) ? WEIR_TAKEN : WEIR_LEFT;
}

/*
 * The same where the kernel has tcx, and nothing at a port is shared with others. A pair of
 * veths stands for the link: the qdisc is at its first end, and a program at its second end sends
 * what comes out on by the port.
 *
 *     link ──► bridge, routing ──► port [this program, then those of others] ──► container
 *                                   │  ▲
 *                                   ▼  │ weir_rules_back
 *              first end [gate, the link's qdisc] ──► second end
 *
 * The program is the first at the port. What it takes, no filter or program of others has seen.
 * What comes back has the second end as its device, passes, and is seen by all of them, once:
 * a drop drops, a mirror copies, as without Weir. With an IFB this cannot be had: it sets
 * tc_skip_classify, so that the kernel skips the action of the next filter and all filters
 * behind it, and it does so for packets of mirred alone, at a clsact, beside which no other
 * program can add its ingress qdisc. A netfilter hook at the port's egress comes before tcx, and
 * the kernel skips it the second time.
 *
 * skb->cb says at which port the packet was taken, and the priority that the pair takes from
 * it: no qdisc that Weir puts there uses its last 12 bytes. The kernel clears them in what a
 * packet socket sends, and no other packet has the word of Weir in them: such packets do not
 * pass the gate.
 */
#define WEIR_TAKEN_AT 0x77e17a6e
#define WEIR_COPIED                                                                                \
	0x77e17a6f /* in its place: a copy that the gate sends straight back (copies.h) */

/* Send the packet into the pair. */
static __always_inline int weir_take(struct __sk_buff *skb)
{
	if (weir_add_header(skb))
		return TC_ACT_SHOT;
	skb->cb[2] = skb->priority;
	skb->cb[3] = WEIR_TAKEN_AT;
	skb->cb[4] = skb->ifindex;
	return bpf_redirect(weir_to.ifb, 0);
}

/* Give the packet back what the pair has changed. */
static __always_inline void weir_untake(struct __sk_buff *skb)
{
	skb->priority = skb->cb[2];
	skb->cb[2] = 0;
	skb->cb[3] = 0;
	skb->cb[4] = 0;
}

SEC("tcx/egress")
int weir_rules_take(struct __sk_buff *skb)
{
	__u32 iif = skb->ingress_ifindex;

	if (skb->cb[3] == WEIR_COPIED) {
		weir_untake(skb);
		return TC_ACT_UNSPEC;
	}
	if (iif == weir_to.back || !weir_arrives(skb, iif))
		return TC_ACT_UNSPEC;
	return weir_take(skb);
}

SEC("tcx/egress")
int weir_rules_gate(struct __sk_buff *skb)
{
	__u32 port = skb->cb[4];

	if (skb->cb[3] == WEIR_TAKEN_AT) {
		if (!weir_is_copy(skb, port))
			return TC_ACT_UNSPEC;
		skb->cb[3] = WEIR_COPIED;
		return bpf_redirect(port, 0);
	}
	/* By its constants the agent knows the program, so it has to name them. */
	asm volatile("" : : "r"(weir_here.host));
	return TC_ACT_SHOT;
}

SEC("tcx/ingress")
int weir_rules_back(struct __sk_buff *skb)
{
	__u32 port = skb->cb[4];

	asm volatile("" : : "r"(weir_here.host));
	if (skb->cb[3] != WEIR_TAKEN_AT)
		return TC_ACT_SHOT;
	weir_untake(skb);
	return bpf_redirect(port, 0);
}

/*
 * Zones: what leaves by a link for one of the zones behind it waits in the qdisc of that
 * zone's IFB, and comes back to the link when it may be sent. This is a cls_bpf filter
 * at the link's egress, with the same action.
 *
 *     packet of class 3 ──► link [this filter] ──► IFB: class 3 of the zone
 *                            │  ▲                    │
 *       the link's qdisc: class of the zone ◄────────┘
 *
 * The second time it belongs to the zone's own class on the link, number weir_here.class,
 * which has the zone's capacity as its min. A filter's verdict is a class id, and the
 * kernel writes the lower half of that into skb->tc_index: so it is the seal of that class.
 */
SEC("tc")
int weir_rules_zone(struct __sk_buff *skb)
{
	if (skb->ingress_ifindex == weir_to.ifb) {
		if (weir_here.seal != WEIR_SEAL)
			return weir_here.seal;
		weir_mark(skb, weir_here.class);
		return WEIR_SEAL;
	}
	if (!weir_in_area(skb, weir_here.link_header, false))
		return WEIR_LEFT;
	weir_reown(skb);
	weir_forget_priority(skb);
	return WEIR_TAKEN;
}

/* The same with a pair, behind weir_rules_link and before the programs of others. */
SEC("tcx/egress")
int weir_rules_area(struct __sk_buff *skb)
{
	if (skb->ingress_ifindex == weir_to.back) {
		weir_carry_here(skb, 0);
		return TC_ACT_UNSPEC;
	}
	if (!weir_in_area(skb, weir_here.link_header, false))
		return TC_ACT_UNSPEC;
	if (weir_reown(skb) == WEIR_LOST)
		return TC_ACT_SHOT;
	weir_forget_priority(skb);
	if (weir_is_long(skb))
		return weir_split(skb);
	return weir_take(skb);
}

char _license[] SEC("license") = "Dual BSD/GPL";
