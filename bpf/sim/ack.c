// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * core/ack.h as an ordinary program, which says for each line of input whether the first of two
 * packets gives way to the second: 1 or 0. A packet is
 *
 *   TAG LINEAR FRAME
 *
 * the VLAN tag that the device will write, 0 = none; how many of its bytes lie in one piece; all
 * of them from the Ethernet header on, in hexadecimal.
 */
#include "host.h"

static void sim_lost(struct sk_buff *skb)
{
}

static void *sim_lookup(void *map, __u32 key)
{
	return NULL;
}

#include "../core/ack.h"

#define LONGEST 256 /* bytes of a frame */

static bool read_packet(struct sk_buff *skb, unsigned char *frame)
{
	char text[2 * LONGEST + 1];
	unsigned int linear, n;

	if (scanf("%u %u %512s", &skb->vlan_all, &linear, text) != 3)
		return false;
	n = strlen(text) / 2;
	for (unsigned int i = 0; i < n; i++)
		sscanf(text + 2 * i, "%2hhx", &frame[i]);
	skb->head = frame;
	skb->len = n;
	skb->tail = linear;
	skb->network_header = ETH_HLEN;
	memcpy(&skb->protocol, frame + 12, sizeof(skb->protocol));
	return true;
}

int main(void)
{
	unsigned char old_frame[LONGEST], new_frame[LONGEST];
	struct sk_buff old, new;

	while (read_packet(&old, old_frame) && read_packet(&new, new_frame))
		printf("%d\n", ack_covers(&new, &old));
	return 0;
}
