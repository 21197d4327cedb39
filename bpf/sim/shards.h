/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What shards.c asks of its copies of shard.c. */
#ifndef WEIR_SIM_SHARDS_H
#define WEIR_SIM_SHARDS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

/* A packet that left. */
struct sim_left {
	__u32 source, len;
	__u64 born;
};

struct sim_calls {
	size_t common; /* bytes of what shards share */
	__u64 *watchdog; /* when the timer is to fire; 0 = never */
	/* `lost` is called for a packet that is dropped. */
	void (*start)(__u32 shards, __u32 shard, void *common, void (*lost)(__u32 source));
	bool (*command)(const char *word, const unsigned long long *a);
	int (*arguments)(const char *word);
	void (*enqueue)(__u64 now, __u32 source, __u32 class, __u32 len, __u32 hash);
	bool (*dequeue)(__u64 now, struct sim_left *left);
	__u64 (*divisions)(void);
	__u64 (*alone)(void);
};

#endif /* WEIR_SIM_SHARDS_H */
