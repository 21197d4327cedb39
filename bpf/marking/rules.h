/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which of its workload's queues does this packet belong to? The rules of one
 * workload, tried in their order; the first that fits decides.
 *
 *     weir_read     headers -> facts, addresses, ports
 *     weir_decide   the same and the rules -> queue
 *     weir_rewrite  DSCP, with the checksum where there is one
 *     weir_hash_hosts  one hash for all packets of a host
 *
 * internal/core/policy/classify says the same in Go (DecodeEthernet, Rules.Classify,
 * Fragments), and a test sends 10,000 random packets through both.
 *
 * Headers are copied out by bpf_skb_load_bytes and never read in place: it finds
 * them in the fragments of an skb too, and a header that is cut off is an error
 * and not a case of its own. What cannot be read is not known, and a rule on it
 * does not fit.
 *
 * Fragments: the ports stand in the first one, so its queue is kept under what
 * the parts of a datagram have in common, and later ones take it from there. The
 * map holds 256 datagrams per workload and forgets the one unused for longest. A
 * part that overtakes its first is classified by itself, by rules without ports.
 *
 * Cost: three to four calls of bpf_skb_load_bytes, then per rule that does not
 * fit 9 to 30 instructions. docs/rules.md has figures.
 */
#ifndef WEIR_RULES_H
#define WEIR_RULES_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "rule.h"

#define WEIR_MAX_TAGS 2 /* 802.1Q in 802.1ad */
#define WEIR_MAX_EXTENSIONS 8
#define WEIR_FRAGMENTS 256 /* datagrams that are remembered */

/* Set before the load, frozen after it. */
const volatile struct weir_place weir_here;

/* Loaded with weir_here.total elements, so that a workload with two rules takes
 * no room for 64. */
const volatile struct weir_rule weir_rules[WEIR_MAX_RULES] SEC(".rodata.rules");

/* Brings the names into the BTF, for Go; no program uses it, so it is not loaded. */
const volatile struct {
	enum weir_fact fact;
	enum weir_test test;
	enum weir_hosts hosts;
} weir_names SEC(".rodata.names");

enum weir_fragment { WEIR_WHOLE, WEIR_FIRST, WEIR_LATER };

/* What the rules look at. */
struct weir_headers {
	__u64 facts; /* enum weir_fact */
	__u64 meta; /* skb->mark, above it skb->priority */
	__u64 src[2], dst[2];
	__u16 sport, dport;
	__u32 at; /* where the IP header is */
	__u32 id; /* of the datagram; fragments only */
	__u16 first; /* the IP header's first two bytes, network order */
	__u8 proto;
	__u8 fragment; /* enum weir_fragment */
};

/* What the parts of one datagram have in common. */
struct weir_datagram {
	__u64 src[2], dst[2];
	__u32 id;
	__u32 proto; /* 0 in IPv6, where the id is enough; above bit 8 the class of a weir_list */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, WEIR_FRAGMENTS);
	__type(key, struct weir_datagram);
	__type(value, __u32); /* queue */
} weir_fragments SEC(".maps");

static __always_inline __u64 weir_bit(enum weir_fact fact)
{
	return 1ULL << fact;
}

static __always_inline void weir_read_ports(struct __sk_buff *skb, __u32 at, struct weir_headers *h)
{
	__be16 ports[2];

	if (h->fragment == WEIR_LATER)
		return;
	if (h->proto != IPPROTO_TCP && h->proto != IPPROTO_UDP && h->proto != IPPROTO_SCTP &&
	    h->proto != IPPROTO_DCCP && h->proto != IPPROTO_UDPLITE)
		return;
	if (bpf_skb_load_bytes(skb, at, ports, sizeof(ports)))
		return;
	h->sport = bpf_ntohs(ports[0]);
	h->dport = bpf_ntohs(ports[1]);
	h->facts |= weir_bit(WEIR_FACT_PORTS);
}

static __always_inline void weir_read_ipv4(struct __sk_buff *skb, struct weir_headers *h)
{
	struct iphdr ip;
	__u16 part;

	if (bpf_skb_load_bytes(skb, h->at, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl < 5)
		return;
	__builtin_memcpy(&h->first, &ip, sizeof(h->first));
	h->src[0] = ip.saddr;
	h->dst[0] = ip.daddr;
	h->proto = ip.protocol;
	part = bpf_ntohs(ip.frag_off);
	if (part & 0x3fff) {
		h->fragment = part & 0x1fff ? WEIR_LATER : WEIR_FIRST;
		h->id = bpf_ntohs(ip.id);
	}
	h->facts |= weir_bit(WEIR_FACT_IP) | (__u64)(ip.tos >> 2) << WEIR_FACT_DSCP;
	weir_read_ports(skb, h->at + ip.ihl * 4, h);
}

/* Hop-by-hop, routing, fragment, authentication, destination options: the headers
 * of IPv6 that can be stepped over, all with numbers below 64. */
static __always_inline bool weir_extension(__u8 proto)
{
	const __u64 some = 1ULL << IPPROTO_HOPOPTS | 1ULL << IPPROTO_ROUTING |
			   1ULL << IPPROTO_FRAGMENT | 1ULL << IPPROTO_AH | 1ULL << IPPROTO_DSTOPTS;

	return proto < 64 && (some >> proto & 1);
}

static __always_inline void weir_read_ipv6(struct __sk_buff *skb, struct weir_headers *h)
{
	struct {
		__be16 first, flow;
		__be16 length;
		__u8 next, hops;
	} ip;
	__u32 at = h->at + 40;
	__u16 word;

	if (bpf_skb_load_bytes(skb, h->at, &ip, sizeof(ip)) || bpf_ntohs(ip.first) >> 12 != 6)
		return;
	if (bpf_skb_load_bytes(skb, h->at + 8, h->src, 32)) {
		__builtin_memset(h->src, 0, 32); /* src and dst */
		return;
	}
	h->first = ip.first;
	word = bpf_ntohs(ip.first);
	h->proto = ip.next;
	h->facts |= weir_bit(WEIR_FACT_IP) | weir_bit(WEIR_FACT_IPV6) |
		    (__u64)(word >> 6 & 0x3f) << WEIR_FACT_DSCP;
#pragma clang loop unroll(disable)
	for (int i = 0; i < WEIR_MAX_EXTENSIONS; i++) {
		struct {
			__u8 next, length;
			__be16 part;
			__be32 id;
		} ext;
		__u8 was = h->proto;

		if (!weir_extension(was)) {
			weir_read_ports(skb, at, h);
			return;
		}
		if (bpf_skb_load_bytes(skb, at, &ext, sizeof(ext)))
			return;
		h->proto = ext.next;
		if (was == IPPROTO_FRAGMENT) {
			__u16 part = bpf_ntohs(ext.part);

			if (part & 0xfff9) {
				h->fragment = part & 0xfff8 ? WEIR_LATER : WEIR_FIRST;
				h->id = bpf_ntohl(ext.id);
			}
			if (h->fragment == WEIR_LATER)
				return;
			at += 8;
		} else if (was == IPPROTO_AH) {
			at += (ext.length + 2) * 4;
		} else {
			at += (ext.length + 1) * 8;
		}
	}
}

/* Fill in what can be read. Tagged says that there may be VLAN tags, which is so
 * where packets begin with a link header. */
static __always_inline void weir_read(struct __sk_buff *skb, struct weir_headers *h, bool tagged)
{
	__be16 kind = skb->protocol;

	h->meta = (__u64)skb->priority << 32 | skb->mark;
	h->at = weir_here.link_header;
	if (tagged) {
		int tags = 0;

		if (skb->vlan_present) { /* the tag that was taken out of the packet */
			h->facts |= weir_bit(WEIR_FACT_TAGGED) | (__u64)(skb->vlan_tci & 0xfff)
									 << WEIR_FACT_VLAN;
			tags++;
		}
#pragma clang loop unroll(disable)
		for (; tags < WEIR_MAX_TAGS; tags++) {
			struct {
				__be16 tci, kind;
			} tag;

			if (kind != bpf_htons(ETH_P_8021Q) && kind != bpf_htons(ETH_P_8021AD))
				break;
			if (bpf_skb_load_bytes(skb, h->at, &tag, sizeof(tag)))
				return;
			if (!tags)
				h->facts |= weir_bit(WEIR_FACT_TAGGED) |
					    (__u64)(bpf_ntohs(tag.tci) & 0xfff) << WEIR_FACT_VLAN;
			kind = tag.kind;
			h->at += sizeof(tag);
		}
	}
	if (kind == bpf_htons(ETH_P_IP))
		weir_read_ipv4(skb, h);
	else if (kind == bpf_htons(ETH_P_IPV6))
		weir_read_ipv6(skb, h);
	h->facts |= (__u64)h->proto << WEIR_FACT_PROTO;
}

static __always_inline bool weir_within(__u16 port, __u16 first, __u16 span)
{
	return (__u16)(port - first) <= span;
}

static __always_inline bool weir_inside(const __u64 *addr, const volatile __u64 *mask,
					const volatile __u64 *prefix)
{
	return (addr[0] & mask[0]) == prefix[0] && (addr[1] & mask[1]) == prefix[1];
}

/* Does a packet fit a rule? */
static __always_inline bool weir_fits(const struct weir_headers *h,
				      const volatile struct weir_rule *r)
{
	__u32 tests;

	if ((h->facts & r->mask) != r->value)
		return false;
	tests = r->tests;
	if (tests & WEIR_TEST_META && (h->meta & r->meta_mask) != r->meta_value)
		return false;
	if (tests & WEIR_TEST_PORT && !weir_within(h->sport, r->port, r->port_span) &&
	    !weir_within(h->dport, r->port, r->port_span))
		return false;
	if (tests & WEIR_TEST_SPORT && !weir_within(h->sport, r->sport, r->sport_span))
		return false;
	if (tests & WEIR_TEST_DPORT && !weir_within(h->dport, r->dport, r->dport_span))
		return false;
	if (tests & WEIR_TEST_SRC && !weir_inside(h->src, r->src_mask, r->src))
		return false;
	return !(tests & WEIR_TEST_DST) || weir_inside(h->dst, r->dst_mask, r->dst);
}

/*
 * The queue by the rules of this place's class alone. A function of its own, so that the verifier
 * looks at it once and not on each way through the headers. Unrolled, since the verifier forgets
 * at which rule it has been in a loop and walks through it again: 20 rules were too many. What no
 * rule asks for it takes out of the code.
 */
__noinline int weir_match(const struct weir_headers *h)
{
	__u32 count = weir_here.count;

	if (!h) /* for the verifier, which knows no callers */
		return 0;
#pragma clang loop unroll(full)
	for (__u32 i = 0; i < WEIR_MAX_RULES; i++) {
		const volatile struct weir_rule *r = &weir_rules[i];

		if (i >= count)
			break;
		if (weir_fits(h, r))
			return r->queue;
	}
	return weir_here.fallback;
}

/* What the rules of a class in weir_late say. */
struct weir_late_match {
	const struct weir_headers *h;
	__u32 first, queue;
};

/* Try rule i of those of a class in weir_late; 1 = it fits. */
static long weir_match_late_rule(__u64 i, struct weir_late_match *m)
{
	const volatile struct weir_rule *rules = weir_rules;

	i += m->first;
	/* The compiler would go by the array's size, and the verifier knows the bounds only if the
	 * same number is compared and used. */
	asm volatile("" : "+r"(rules), "+r"(i));
	if (i >= weir_here.total || !weir_fits(m->h, &rules[i]))
		return 0;
	m->queue = rules[i].queue;
	return 1;
}

/*
 * The same by `count` rules of a class in weir_late, from `first` on. Which ones, the verifier does
 * not know, so it has to look at one rule only.
 */
__noinline int weir_match_late(const struct weir_headers *h, __u32 first, __u32 count,
			       __u32 fallback)
{
	struct weir_late_match m = {h, first, fallback};

	if (!h) /* as above */
		return 0;
	bpf_loop(count, weir_match_late_rule, &m, 0);
	return m.queue;
}

/* Rules of one workload, and what packets are without them. */
struct weir_list {
	__u32 first, count, fallback;
	__u32 late; /* the class in weir_late that has them; 0 = this place's class */
};

static __always_inline __u32 weir_match_by(const struct weir_headers *h, const struct weir_list *l)
{
	return l->late ? weir_match_late(h, l->first, l->count, l->fallback) : weir_match(h);
}

/* The queue of a packet, fragments included. */
static __always_inline __u32 weir_decide_by(const struct weir_headers *h, const struct weir_list *l)
{
	struct weir_datagram key = {};
	__u32 queue, *known;

	if (!l->count) /* of constants the verifier knows, and leaves the rest out */
		return l->fallback;
	if (h->fragment == WEIR_WHOLE)
		return weir_match_by(h, l);
	__builtin_memcpy(key.src, h->src, sizeof(key.src));
	__builtin_memcpy(key.dst, h->dst, sizeof(key.dst));
	key.id = h->id;
	key.proto = (h->facts & weir_bit(WEIR_FACT_IPV6) ? 0 : h->proto) | l->late << 8;
	if (h->fragment == WEIR_LATER) {
		known = bpf_map_lookup_elem(&weir_fragments, &key);
		if (known)
			return *known;
	}
	queue = weir_match_by(h, l);
	if (h->fragment == WEIR_FIRST)
		bpf_map_update_elem(&weir_fragments, &key, &queue, BPF_ANY);
	return queue;
}

/* The same by the rules of this place's class. */
static __always_inline __u32 weir_decide(const struct weir_headers *h)
{
	struct weir_list l = {0, weir_here.count, weir_here.fallback, 0};

	return weir_decide_by(h, &l);
}

/* The part of an address in the hash: of IPv4 all of it, of IPv6 the first 64 bits. */
static __always_inline __u64 weir_hash_host(__u64 host, int key)
{
	return weir_here.host_keys[key] * (__u32)host + weir_here.host_keys[key + 1] * (host >> 32);
}

/*
 * Give the packet the hash of its hosts, for sfq and for fq_codel: so all flows of a host are
 * one there. It is done here, before NAT, so a host keeps its hash behind masquerading.
 * Packets that are not IP keep the hash that they have.
 *
 * A host of IPv6 is its /64: it may use any address in there, as many as it likes. The hash is
 * that of core/hash.h, a sum of parts times secret keys: a host that knew the keys would look
 * for an address with the hash of another one, and fill its queue.
 */
static __always_inline void weir_hash_hosts(struct __sk_buff *skb, const struct weir_headers *h,
					    __u32 hosts)
{
	__u64 sum = weir_here.host_keys[0];

	if (!(h->facts & weir_bit(WEIR_FACT_IP)))
		return;
	if (h->facts & weir_bit(WEIR_FACT_IPV6))
		sum += weir_here.host_keys[1];
	if (hosts & WEIR_HOST_SRC)
		sum += weir_hash_host(h->src[0], 2);
	if (hosts & WEIR_HOST_DST)
		sum += weir_hash_host(h->dst[0], 4);
	bpf_set_hash(skb, sum >> 32);
}

/* Write the codepoint; the two bits of ECN stay. Where the packet cannot be made
 * writable (no memory), it goes as it is. */
static __always_inline void weir_rewrite(struct __sk_buff *skb, const struct weir_headers *h,
					 __u8 dscp)
{
	__u16 word = bpf_ntohs(h->first);
	__be16 fresh;

	if (!(h->facts & weir_bit(WEIR_FACT_IP)))
		return;
	if (h->facts & weir_bit(WEIR_FACT_IPV6)) {
		fresh = bpf_htons((word & 0xf03f) | dscp << 6);
		/* No checksum in the header, but the device's sum of all bytes. */
		if (fresh != h->first)
			bpf_skb_store_bytes(skb, h->at, &fresh, sizeof(fresh),
					    BPF_F_RECOMPUTE_CSUM);
		return;
	}
	fresh = bpf_htons((word & 0xff03) | dscp << 2);
	if (fresh == h->first)
		return;
	/* The change of the checksum takes back that of the byte, so a sum of all
	 * bytes stays what it was. */
	if (!bpf_l3_csum_replace(skb, h->at + 10, h->first, fresh, sizeof(fresh)))
		bpf_skb_store_bytes(skb, h->at, &fresh, sizeof(fresh), 0);
}

#endif /* WEIR_RULES_H */
