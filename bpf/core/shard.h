/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shards: several qdiscs that divide one link, each with packets, classes and a scheduler
 * of its own. What they share is published without locks, and divided once an epoch.
 *
 *   publish  each shard writes what waits in its classes and what they have sent, when it
 *            begins a batch: a line for each class, which no other shard writes
 *   divide   once the leases of an epoch are over, the first shard that looks wins by
 *            compare-and-swap and divides the link among the classes, over the sums of all
 *            shards, and each class's part among its shards (core/divide.h)
 *   lease    a shard may send what it has been granted, until the epoch is over. Its
 *            scheduler divides that by the parts of its classes: each has its weight, its
 *            min and its max, times the part of the class that is this shard's
 *
 * Since every shard divides by the link's own level, its classes' parts are those of the sum:
 * x = min(max, max(min, L * weight)) times the shard's part of the class, with one L.
 *
 * Bytes granted and bytes sent are counted since the beginning. What a shard has sent
 * beyond its grants (a packet larger than its lease, the first packet after it was idle)
 * is a debt, which it pays before it sends again; what it was granted and does not want
 * goes back to the link when the epoch is over. So all shards together send what
 * the link carries, and at most a packet for each shard in advance.
 *
 * Example: 1 Gbit/s, epochs of 0.5 ms, 62,500 bytes. Class 1 waits in shards 0 and 1 with 30
 * and 10 kB, class 2 in shard 1; equal weights. Shard 0 is granted 23,437 bytes, shard
 * 1 39,063, of which its class 1 gets a fifth.
 *
 * While only one shard has packets it is `alone`: it has the whole link, without epochs,
 * with the line and the costs that a link with one queue has.
 *
 * Cost: a shard writes a line of cache for each of its active classes in an epoch and
 * reads as many; a packet touches nothing that is shared. Without WEIR_SHARDS, as in the
 * programs that Weir loads, all this is dead code and leaves nothing: the simulator has it.
 */
#ifndef WEIR_SHARD_H
#define WEIR_SHARD_H

#include "bits.h"
#include "fst.h"

#ifdef WEIR_SHARDS
const volatile __u32 shards = 1; /* that divide this link, at most SHARDS */
const volatile __u32 shard = 0; /* which of them this one is */
#define SHARD_MAPS
#define SHARD_MAPS_IN SEC(".maps")
#else
#define shards 1
#define shard 0
#define SHARD_MAPS static
#define SHARD_MAPS_IN
#endif

#define SHARDS 64
#define SHARD_EPOCH_NS 500000ULL /* for which leases last */
#define SHARD_FINE 8
#define SHARD_LEVEL 16
#define SHARD_RETRY_NS 20000ULL /* another CPU divides: look again */

/* What shard q says of itself; it alone writes this. */
struct shard_head {
	__u64 sent; /* bytes */
	__u64 boosted; /* bytes of them that the link's reserve gave */
	__u64 busy_until; /* alone: when the line has sent what it was given */
	__u32 waiting; /* packets */
	__u32 unused;
	struct bits classes; /* that have packets, or had some in the last epoch */
} __attribute__((aligned(64)));

/* What shard q says of class i; it alone writes this. */
struct shard_line {
	__u64 waiting, sent; /* bytes */
	__u64 left; /* bytes that still waited when its last grant was used up */
} __attribute__((aligned(64)));

/* The rest is written by the CPU that divides. */
struct shard_grant {
	__u64 granted; /* bytes */
	__u64 sent, boosted; /* as the shard said at the last division */
	__u64 last; /* bytes granted by it */
	__u64 parts; /* of its classes, as shard_cell */
	__u32 debt; /* bytes */
	__u32 active; /* it has packets, has sent some or is in debt */
};

/* The part of shard q in class i: bytes of an epoch, times 2^SHARD_FINE. */
struct shard_cell {
	__u64 sent; /* bytes, as the shard said at the last division */
	__u64 rate; /* what came, a mean */
	__u64 waiting; /* a mean */
	__u64 wants, part;
	__u32 of; /* part of the class's part, times 2^16 */
	__u32 pace; /* what its share costs, in the cost of the class, times 2^8 */
};

/* A division among the classes of the link, or the members of a group; bytes as above. */
struct shard_tier {
	__u64 target; /* to be divided */
	__u64 level; /* L: for a weight of 1, times 2^SHARD_LEVEL */
	__u64 low, high; /* L is between */
	__u64 sum; /* of the parts at this level, */
	__u64 slope; /* and the weights of those that get more if it rises */
	__u64 caps, weights; /* of all */
};

/* A class over all shards; bytes as above. */
struct shard_sum {
	__u64 wants, cap, floor; /* cap: what it wants, within its max */
	__u64 part, whole; /* what it gets, with and without what it lacks of the past */
	__u64 owed; /* what the division gave it, bytes */
	__s64 lag; /* what it lacks of all that, bytes */
	__u64 sent; /* since the last division, bytes */
	__u64 waiting; /* of the shards' means */
	__u64 spread, open; /* of the part, and `waiting` of the shards that want more */
	__u64 fill; /* for each byte that waits, times 2^SHARD_LEVEL */
	__u64 division; /* the last one that it was in */
	__u32 weight, parent;
	__u32 group, busy,
		shares; /* busy: it wants more than it gets; shares: neither min nor max binds */
	__u32 unused;
	struct shard_tier tier; /* of a group */
};

struct shard_link {
	__u64 ends; /* ns; when the leases expire */
	__u64 began; /* ns */
	__u64 dividing; /* a CPU does */
	__u64 divisions;
	__u64 alone; /* the shard that has the link alone, plus one; 0 = none */
	__s64 account; /* bytes that the link can carry and no shard was granted */
	__s64 reserve; /* bytes that boosted classes may have before the next division */
	struct bits classes; /* in the division, and groups */
	struct shard_tier tier;
};

#define SHARD_MAP(name, entries, type_of_value)                                                    \
	SHARD_MAPS struct {                                                                        \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(max_entries, entries);                                                      \
		__type(key, __u32);                                                                \
		__type(value, type_of_value);                                                      \
	} name SHARD_MAPS_IN

/* One element each; the loader sets how many there are. */
SHARD_MAP(shard_links, 1, struct shard_link);
SHARD_MAP(shard_heads, 1, struct shard_head);
SHARD_MAP(shard_grants, 1, struct shard_grant);
SHARD_MAP(shard_lines, 1, struct shard_line);
SHARD_MAP(shard_cells, 1, struct shard_cell);
SHARD_MAP(shard_sums, 1, struct shard_sum);

#undef SHARD_MAP

static __u64 shard_sent; /* bytes that this shard has sent */
static __u64 shard_boosted; /* and those of them that the reserve gave */
static __u64 shard_leases; /* the division whose leases it has */
static __u32 shard_was_alone;
static __u32 shard_waits; /* its grant is used up: it waits for the next division */
static __u32 shard_emptied; /* nothing was left of its last grant's epoch */
static __u32 shard_leased[WEIR_MAX_CLASSES]; /* the last division that a class's costs are of */

static __always_inline struct shard_link *shard_link(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&shard_links, &zero);
}

static __always_inline struct shard_head *shard_head(__u32 q)
{
	return bpf_map_lookup_elem(&shard_heads, &q);
}

static __always_inline struct shard_grant *shard_grant(__u32 q)
{
	return bpf_map_lookup_elem(&shard_grants, &q);
}

static __always_inline struct shard_line *shard_line(__u32 q, __u32 id)
{
	__u32 key = q * WEIR_MAX_CLASSES + id;

	return bpf_map_lookup_elem(&shard_lines, &key);
}

static __always_inline struct shard_cell *shard_cell(__u32 q, __u32 id)
{
	__u32 key = q * WEIR_MAX_CLASSES + id;

	return bpf_map_lookup_elem(&shard_cells, &key);
}

static __always_inline struct shard_sum *shard_sum(__u32 id)
{
	return bpf_map_lookup_elem(&shard_sums, &id);
}

#endif /* WEIR_SHARD_H */
