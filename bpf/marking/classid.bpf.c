/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which HTB class does this packet belong to? The tc fallback's classifier: a
 * cls_bpf filter at the HTB root, without direct action, so that what it returns
 * is the class id.
 *
 * The class is in the seal, or with mark_mask in bits of the mark (seal.h), and class
 * n of Weir is HTB class 77e1:n. So the id is computed, whatever the number of
 * classes; no table, no list of filters.
 *
 * Example: seal 0x8060 -> class 3 -> 0x77e10003.
 *
 * 0 means "no match": HTB then takes its default class, which is the host's.
 * The same happens to a number whose class does not exist (any more).
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "seal.h"

/* Set before the load, frozen after it. */
const volatile struct weir_carrier weir_in;
const volatile __u32 weir_major = 0; /* HTB handle, in the upper 16 bits */

SEC("tc")
int weir_classify(struct __sk_buff *skb)
{
	__u32 class = weir_lane_in(&weir_in, skb->tc_index, skb->mark) & WEIR_LANE_CLASS;

	/* major:0 would be the qdisc itself, which sends unshaped. */
	return class ? weir_major | class : 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
