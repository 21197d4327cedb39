/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which HTB class does this packet belong to? The tc fallback's classifier: a
 * cls_bpf filter at the HTB root, without direct action, so that what it returns
 * is the class id.
 *
 * The class number is in the bits of skb->mark that mark.bpf.c wrote, or in the seal
 * where others have overwritten those (seal.h), and class
 * n of Weir is HTB class 77e1:n. So the id is computed, whatever the number of
 * classes; no table, no list of filters.
 *
 * Example: mask 0xffff0000, mark 0x00030001 -> class 3 -> 0x77e10003.
 *
 * 0 means "no match": HTB then takes its default class, which is the host's.
 * The same happens to a number whose class does not exist (any more).
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "seal.h"

/* Set before the load, frozen after it. */
const volatile struct {
	__u32 mask; /* bits of skb->mark that hold the class number */
	__u32 shift; /* how far it is from bit 0 */
	__u32 major; /* HTB handle, in the upper 16 bits */
} weir_classid;

SEC("tc")
int weir_classify(struct __sk_buff *skb)
{
	__u32 class =
		weir_class_of(skb->tc_index, (skb->mark & weir_classid.mask) >> weir_classid.shift);

	/* major:0 would be the qdisc itself, which sends unshaped. */
	return class ? weir_classid.major | class : 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
