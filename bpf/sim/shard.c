// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One shard of a link: the qdisc's own source as a library, of which shards.c loads a
 * copy for each shard. A copy has its own variables; what shards share is handed to it.
 */
#include "host.h"

/* The loader's constants; variables here. */
#define const
#define volatile
#include "../qdisc.bpf.c"
#undef const
#undef volatile

#include "maps.h"
#include "shards.h"

/* The maps that shards share (core/shard.h). */
struct sim_common {
	struct shard_link link;
	struct shard_head heads[SHARDS];
	struct shard_grant grants[SHARDS];
	struct shard_line lines[SHARDS * WEIR_MAX_CLASSES];
	struct shard_cell cells[SHARDS * WEIR_MAX_CLASSES];
	struct shard_sum sums[WEIR_MAX_CLASSES];
};

static struct Qdisc sch;
static struct sim_common *common;
static void (*lost)(__u32 source);

static void *sim_shared(void *map, __u32 key)
{
	__u32 lines = SHARDS * WEIR_MAX_CLASSES;

	if (map == (void *)&shard_links)
		return &common->link;
	if (map == (void *)&shard_heads)
		return key < SHARDS ? &common->heads[key] : NULL;
	if (map == (void *)&shard_grants)
		return key < SHARDS ? &common->grants[key] : NULL;
	if (map == (void *)&shard_lines)
		return key < lines ? &common->lines[key] : NULL;
	if (map == (void *)&shard_cells)
		return key < lines ? &common->cells[key] : NULL;
	return key < WEIR_MAX_CLASSES ? &common->sums[key] : NULL;
}

static void sim_lost(struct sk_buff *skb)
{
	lost(skb->source);
	free(skb);
}

static void start(__u32 number, __u32 which, void *all, void (*loses)(__u32))
{
	shards = number;
	shard = which;
	common = all;
	lost = loses;
	weir_init(&sch, NULL, NULL);
}

static void enqueue(__u64 now, __u32 source, __u32 class, __u32 len, __u32 hash)
{
	struct sk_buff *skb = calloc(1, sizeof(*skb));
	struct bpf_sk_buff_ptr to_free;

	now_ns = now;
	skb->skb_iif = 2; /* as if from a container */
	skb->tc_index = weir_seal_of(class);
	skb->source = source;
	skb->hash = hash;
	skb->pkt_len = skb->len = len;
	skb->ip_at = ETHERNET_HEADER;
	skb->born = now;
	weir_enqueue(skb, &sch, &to_free);
}

static bool dequeue(__u64 now, struct sim_left *left)
{
	struct sk_buff *skb;

	now_ns = now;
	skb = weir_dequeue(&sch);
	if (!skb)
		return false;
	*left = (struct sim_left){skb->source, skb->len, skb->born};
	free(skb);
	return true;
}

static __u64 divisions(void)
{
	return common->link.divisions;
}

static __u64 alone(void)
{
	return common->link.alone;
}

struct sim_calls sim_calls = {
	.common = sizeof(struct sim_common),
	.watchdog = &watchdog,
	.start = start,
	.command = sim_configure,
	.arguments = sim_arguments,
	.enqueue = enqueue,
	.dequeue = dequeue,
	.divisions = divisions,
	.alone = alone,
};
