/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose packet is this? Writes the number of a workload's class into skb->tc_index
 * (seal.h), where the scheduler on the uplink reads it.
 *
 * It runs at the host's end of a container's veth (or of a VM's tap), on what
 * comes in there, that is, on what the container sends, before bridge, routing
 * and masquerading. The seal outlives all three:
 *
 *     container ──veth──► [this program: class 3] ──► bridge, NAT ──► uplink
 *
 * Each port has a copy of its own with the class as a constant, so that
 * there is no map to look up and nothing to fall out of step: the program IS
 * the class. To change the class the program is replaced, in one step.
 *
 * With mark_mask the class goes into those bits of skb->mark, too, and the other bits stay
 * what they were: mask 0xffff0000, class 3, mark 0x00000001 set by a rule of
 * iptables -> 0x00030001. Without, the verifier leaves that out: about half a dozen machine
 * instructions are left.
 *
 * What it does not do: say anything about packets that do not come in by such a
 * port. They keep what they have; without a seal they are the host's, class 0.
 * A container cannot forge the number: whatever it writes is overwritten here.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include "seal.h"

/*
 * Set before the load, frozen after it; package mark reads them back from the
 * kernel to learn which class a port has. One struct, so that one address serves
 * all loads.
 */
const volatile struct {
	__u32 keep; /* bits of the mark that stay as they are: ~mask */
	__u32 value; /* class number, shifted to its place in the mask */
	__u32 seal; /* the class, as in seal.h */
} weir_mark;

/*
 * TC_ACT_UNSPEC (as tcx: TCX_NEXT, the same number) leaves the verdict to
 * the next program. The same function serves tcx and, with direct action, a
 * cls_bpf filter under clsact.
 */
SEC("tcx/ingress")
int weir_mark_port(struct __sk_buff *skb)
{
	__u32 seal = weir_mark.seal;

	if (weir_mark.keep != ~0U) /* the verifier knows */
		skb->mark = (skb->mark & weir_mark.keep) | weir_mark.value;
	skb->tc_index = seal;
	skb->tc_classid = seal; /* which outlives TCX_PASS, see seal.h */
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual BSD/GPL";
