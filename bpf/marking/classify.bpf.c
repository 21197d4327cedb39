/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose packet is this, and which of its queues does it belong to? mark.bpf.c for
 * workloads with rules or with a DSCP to write, and for those that have no port.
 * Writes class and queue into skb->mark:
 *
 *     mask 0xffff0000:  qqqc cccc cccc cccc  0000 0000 0000 0000
 *                       queue, class         of other programs
 *
 * Example: class 3, {udp: 5001} for queue 1, a packet to that port with mark 1:
 * 0x20030001.
 *
 * Seven places, one program each; only one of them is loaded at a time, with the
 * rules of one workload as constants, like mark.bpf.c:
 *
 *   weir_rules_port  what comes in by a veth or tap. As mark.bpf.c
 *   weir_rules_link  what leaves by the link. Runs before the qdisc. Packets of local
 *                    sockets get the class that they have by owner.h. Those that then
 *                    have no class are the host's own and what Open vSwitch forwards:
 *                    class 0. Writes the DSCP of cgroups, too
 *   weir_rules_cgrp  what the processes of a cgroup send, whatever network
 *                    namespace they are in. Runs after routing and masquerading,
 *                    so rules see the addresses of the wire. It must not change
 *                    the packet; a DSCP is written at the link
 *   weir_rules_in    what goes into a workload by its veth or tap. Takes those
 *                    that came by a link whose ingress is steered; the action
 *                    behind the filter carries them to that link's IFB device
 *   weir_rules_zone  what leaves by a link that has zones. Takes what goes into one
 *                    of them, in the same way
 *
 *   weir_rules_seal  what leaves by lo or by a device above the link. Seals what the sockets
 *                    of workloads send: what comes to the link of it may have no socket
 *   weir_rules_ifb   what goes into an IFB of Weir's. Refuses what sockets send there
 *
 * The first, weir_rules_in and weir_rules_seal also write the seal, from which the class is known where others
 * have overwritten the mark (seal.h).
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

static __always_inline __u32 weir_value(__u32 queue)
{
	return weir_here.value | queue << weir_here.queue_shift;
}

static __always_inline int weir_mark_and_rewrite(struct __sk_buff *skb)
{
	struct weir_headers h = {};
	__u32 queue;
	__u8 dscp;

	weir_read(skb, &h, true);
	queue = weir_decide(&h) % WEIR_RULE_QUEUES;
	skb->mark = (skb->mark & weir_here.keep) | weir_value(queue);
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
	skb->tc_index = weir_here.seal;
	return weir_mark_and_rewrite(skb);
}

/*
 * Codepoints of cgroups' packets, and whether their hash is that of hosts, by class and queue
 * as they stand in the mark.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* as many as there are, set before the load */
	__type(key, __u32);
	__type(value, __u32);
} weir_late SEC(".maps");

static __always_inline void weir_rewrite_late(struct __sk_buff *skb)
{
	__u32 key = skb->mark & ~weir_here.keep;
	__u32 *late = bpf_map_lookup_elem(&weir_late, &key);
	struct weir_headers h = {};

	if (!late)
		return;
	weir_read(skb, &h, true);
	if ((*late & 0xff) != WEIR_DSCP_KEEP)
		weir_rewrite(skb, &h, *late & 0x3f);
	if (*late >> WEIR_LATE_HOSTS)
		weir_hash_hosts(skb, &h, *late >> WEIR_LATE_HOSTS);
}

/* Whose sockets are whose (owner.h). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* as many as there are, set before the load */
	__type(key, __u64);
	__type(value, __u32);
} weir_owners SEC(".maps");

/*
 * The mark of the cgroup that the packet's socket was made in, or of the nearest one
 * above that is a workload's; 0 for the host's.
 */
static __always_inline __u32 weir_owner(struct __sk_buff *skb)
{
	for (int level = WEIR_MAX_LEVELS - 1; level >= 0; level--) {
		__u32 *mark;
		__u64 id;

		if (!(weir_here.levels & 1 << level)) /* the verifier knows */
			continue;
		id = bpf_skb_ancestor_cgroup_id(skb, level);
		mark = id ? bpf_map_lookup_elem(&weir_owners, &id) : NULL;
		if (mark)
			return *mark;
	}
	return 0;
}

/* Did a socket of the agent's choose, and may it? Not one of a cgroup inside of the
 * agent's. */
static __always_inline bool weir_self_chose(struct __sk_buff *skb)
{
	__u64 key = weir_choice(skb->mark, weir_here.classes);

	return weir_here.self && bpf_skb_cgroup_id(skb) == weir_here.self &&
	       bpf_map_lookup_elem(&weir_owners, &key);
}

/*
 * Give the packet the class that it has by owner.h. The queue stays where the class is right:
 * a program at the cgroup chose it. A seal that does not count is taken off, so that no later
 * place believes it.
 */
static __always_inline void weir_reown(struct __sk_buff *skb)
{
	__u32 own;

	if (skb->ingress_ifindex > WEIR_LOOPBACK)
		return;
	if (skb->mark & weir_here.classes && weir_self_chose(skb)) {
		skb->tc_index = 0;
		return;
	}
	own = weir_owner(skb);
	if (!own && weir_sealed(skb->tc_index))
		return;
	skb->tc_index = 0;
	if ((skb->mark ^ own) & weir_here.classes)
		skb->mark = (skb->mark & weir_here.keep) | own;
}

/* Before each place where HTB may be next. */
static __always_inline void weir_forget_priority(struct __sk_buff *skb)
{
	if (weir_names_class(skb->priority))
		skb->priority = 0;
}

/* The number of the class in a mark. */
static __always_inline __u32 weir_class_in(__u32 mark)
{
	__u32 classes = weir_here.classes;

	return (mark & classes) / (classes & -classes);
}

/*
 * Did a port seal it, and not a socket's device? What that device seals has the class in its
 * mark, too; a port's mark may be overwritten.
 */
static __always_inline bool weir_by_port(struct __sk_buff *skb)
{
	__u32 marked = weir_class_in(skb->mark);

	return weir_sealed(skb->tc_index) && (skb->ingress_ifindex > WEIR_LOOPBACK ||
					      weir_class_of(skb->tc_index, marked) != marked);
}

#define WEIR_INET 2 /* AF_INET */
#define WEIR_INET6 10

/*
 * Does lo keep the packet of an IP socket? The host forwards none to 127.0.0.0/8 or ::1, and
 * such a packet has been through the rules of netfilter that could send it elsewhere. Packet
 * sockets go past them.
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
		return ip[16] == 127;
	return ip + sizeof(struct ipv6hdr) <= end && !*(__u64 *)(ip + 24) &&
	       *(__u64 *)(ip + 32) == bpf_cpu_to_be64(1);
}

/*
 * Cost: a packet with a socket pays the search for its cgroup, a workload's or not. One without
 * a socket pays a comparison, one to the loopback address six.
 */
SEC("tcx/egress")
int weir_rules_seal(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	__u32 own, class;

	if (!sk || skb->ingress_ifindex > WEIR_LOOPBACK || weir_stays(skb, sk))
		return TC_ACT_UNSPEC;
	own = skb->mark;
	if (!(own & weir_here.classes) || !weir_self_chose(skb))
		own = weir_owner(skb);
	if (!own)
		return TC_ACT_UNSPEC;
	/* The queue stays where the class is right. */
	if ((skb->mark ^ own) & weir_here.classes)
		skb->mark = (skb->mark & weir_here.keep) | own;
	class = weir_class_in(own);
	skb->tc_index = (skb->tc_index & WEIR_SEAL_OTHERS) | weir_seal_of(class);
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
	if (skb->ingress_ifindex)
		return TC_ACT_UNSPEC;
	/* By its constants the agent knows the program, so it has to name them. */
	asm volatile("" : : "r"(weir_here.host));
	return TC_ACT_SHOT;
}

SEC("tcx/egress")
int weir_rules_link(struct __sk_buff *skb)
{
	weir_reown(skb);
	weir_forget_priority(skb);
	/* The compiler would keep the address of the mark, which the verifier refuses. */
	asm volatile("" : "+r"(skb));
	if (weir_class_of(skb->tc_index, skb->mark & weir_here.classes)) {
		if (weir_here.late && !weir_by_port(skb))
			weir_rewrite_late(skb);
		return TC_ACT_UNSPEC;
	}
	return weir_here.host ? weir_mark_and_rewrite(skb) : TC_ACT_UNSPEC;
}

SEC("cgroup_skb/egress")
int weir_rules_cgrp(struct __sk_buff *skb)
{
	struct weir_headers h = {};

	if (weir_here.count)
		weir_read(skb, &h, false);
	skb->mark = (skb->mark & weir_here.keep) | weir_value(weir_decide(&h));
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
 * action do nothing once. So such a packet is taken, too, without a look at it.
 *
 * Packets of other workloads of the host carry a class or a seal, and packets of the host came
 * by no device: neither is the link's, unless `local` says that all count.
 */
#define WEIR_SOURCES 16

/* Set before the load, like weir_here. */
const volatile struct weir_inward {
	__u32 ifb; /* index of the device */
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

SEC("tc")
int weir_rules_in(struct __sk_buff *skb)
{
	__u32 iif = skb->ingress_ifindex;
	struct weir_headers h = {};
	__u32 queue;

	if (iif == weir_to.ifb)
		return WEIR_TAKEN;
	if (!weir_to.local &&
	    (weir_class_of(skb->tc_index, skb->mark & weir_here.classes) || !weir_by_link(iif)))
		return WEIR_LEFT;
	if (!weir_in_area(skb, weir_here.link_header, true))
		return WEIR_LEFT;
	if (weir_here.count || weir_to.rewrites || weir_here.hosts)
		weir_read(skb, &h, true);
	queue = weir_decide(&h) % WEIR_RULE_QUEUES;
	skb->mark = (skb->mark & weir_here.keep) | weir_value(queue);
	skb->tc_index = weir_here.seal;
	weir_forget_priority(skb);
	if (weir_to.rewrites && weir_here.dscp[queue] != WEIR_DSCP_KEEP)
		weir_rewrite(skb, &h, weir_here.dscp[queue]);
	if (weir_here.hosts)
		weir_hash_hosts(skb, &h, weir_here.hosts);
	return WEIR_TAKEN;
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
 * The second time it belongs to the zone's own class on the link, number weir_here.value,
 * which has the zone's capacity as its min. A filter's verdict is a class id, and the
 * kernel writes the lower half of that into skb->tc_index: so it is the seal of that class.
 */
SEC("tc")
int weir_rules_zone(struct __sk_buff *skb)
{
	if (skb->ingress_ifindex == weir_to.ifb) {
		if (weir_here.seal != WEIR_SEAL)
			return weir_here.seal;
		skb->mark = (skb->mark & weir_here.keep) | weir_here.value;
		return WEIR_SEAL;
	}
	if (!weir_in_area(skb, weir_here.link_header, false))
		return WEIR_LEFT;
	weir_reown(skb);
	weir_forget_priority(skb);
	return WEIR_TAKEN;
}

char _license[] SEC("license") = "Dual BSD/GPL";
