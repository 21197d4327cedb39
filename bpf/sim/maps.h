/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The qdisc's maps as arrays, and the commands that configure it: for sim.c and shard.c. */
#ifndef WEIR_SIM_MAPS_H
#define WEIR_SIM_MAPS_H

static struct slot sim_slots[WEIR_SLOTS];
static struct weir_class_config sim_classes[WEIR_MAX_CLASSES];
static struct tier sim_tiers[WEIR_MAX_CLASSES];
static struct hold sim_holds[RULE_QUEUES];
static struct weir_link_config sim_link;
static struct weir_delays sim_delays[WEIR_MAX_CLASSES + RULE_QUEUES];
static __u32 sim_changes[WEIR_RING];

/* Maps that shards share; NULL = it is none of them, or there is one shard only. */
static void *sim_shared(void *map, __u32 key);

static void *sim_lookup(void *map, __u32 key)
{
	if (map == (void *)&slots)
		return key < WEIR_SLOTS ? &sim_slots[key] : NULL;
	if (map == (void *)&class_config)
		return key < WEIR_MAX_CLASSES ? &sim_classes[key] : NULL;
	if (map == (void *)&group_tiers)
		return &sim_tiers[key];
	if (map == (void *)&holds)
		return &sim_holds[key];
	if (map == (void *)&delays)
		return &sim_delays[key];
	if (map == (void *)&link_config)
		return key == 0 ? &sim_link : NULL;
	if (map == (void *)&changes)
		return key < WEIR_RING ? &sim_changes[key] : NULL;
	return sim_shared(map, key);
}

static void announce(__u32 entry)
{
	sim_changes[published % WEIR_RING] = entry;
	published++;
}

/* How many numbers follow a command that configures; 0 = it is none. */
static int sim_arguments(const char *word)
{
	return !strcmp(word, "link")	 ? 13
	       : !strcmp(word, "class")	 ? 11
	       : !strcmp(word, "group")	 ? 3
	       : !strcmp(word, "queues") ? 50
					 : 0;
}

static bool sim_configure(const char *word, const unsigned long long *a)
{
	struct weir_class_config *c = &sim_classes[a[0] % WEIR_MAX_CLASSES];

	if (!strcmp(word, "link")) {
		sim_link = (struct weir_link_config){
			.link_cost = a[0],
			.batch_ns = a[1],
			.quantum = a[2],
			.bulk_batch_ns = a[3],
			.bulk_quantum = a[4],
			.share_shift = a[5],
			.total_credit = a[6],
			.limit_bytes = a[7],
			.overhead = a[8],
			.least = a[9],
			.cells = a[10],
			.from_ip = a[11],
			.framed = a[12],
		};
		announce(WEIR_RING_LINK);
	} else if (!strcmp(word, "class")) {
		c->share_cost = a[1];
		c->floor_cost = a[2];
		c->ceil_cost = a[3];
		c->weight = a[4];
		c->min_credit = a[5];
		c->max_credit = a[6];
		c->limit_bytes = a[7];
		c->limit_packets = a[8];
		c->interval = a[9];
		c->ceil_burst = a[10];
	} else if (!strcmp(word, "group")) { /* announced by `queues` */
		c->group = a[1];
		c->parent = a[2];
	} else if (!strcmp(word, "queues")) {
		c->discipline = a[1];
		c->queues = a[2];
		c->other_queue = a[3];
		c->police_cost = a[4];
		c->police_burst = a[5];
		c->aqm_target = a[6];
		c->aqm_interval = a[7];
		c->ce_above = a[8];
		c->ack_filter = a[9];
		for (int q = 0; q < WEIR_MAX_QUEUES; q++) {
			c->queue[q].cost = a[10 + 5 * q];
			c->queue[q].limit_packets = a[11 + 5 * q];
			c->queue[q].peers = a[12 + 5 * q];
			c->queue[q].interval = a[13 + 5 * q];
			c->queue[q].reserve_bps = a[14 + 5 * q];
			if (q == 0)
				c->paced_queues = 0;
			if (c->queue[q].interval)
				c->paced_queues |= 1 << q;
		}
		announce(a[0]);
	} else {
		return false;
	}
	return true;
}

#endif /* WEIR_SIM_MAPS_H */
