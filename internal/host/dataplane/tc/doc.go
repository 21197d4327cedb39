// SPDX-License-Identifier: Apache-2.0

// Package tc is the data plane for kernels without BPF qdiscs: the same promises,
// built out of HTB. It needs HTB, cls_bpf, clsact and pfifo, and takes fq_codel
// or sfq instead of pfifo where the kernel has them.
//
// What it makes, on a link of 100 Mbit/s with a min of 30 for class 1:
//
//	77e1:        htb            root qdisc; what has no class goes to 77e1:ffff
//	  77e1:fffe  100 Mbit/s     the link's capacity
//	    77e1:1   rate, ceil     class 1; below it leaf qdisc 1:
//	    77e1:2   rate, ceil     class 2; below it leaf qdisc 2:
//	    77e1:ffff               class 0, the host; below it leaf qdisc fffe:
//	  filter     bpf/marking/classid.bpf.c: skb->mark -> 77e1:n
//
// HTB knows a rate (always granted), a ceil (never exceeded) and a quantum (by
// which classes divide the rest). With rate = min that gives each class
// its min plus a part of the rest. Weir promises something else: the larger of
// the min and the fair share. With mins of 30, 20, 15 and 15 Mbit/s and weights
// 1 to 5, the fifth class would get 6.4 Mbit/s; it is owed 19.4.
//
// So Run looks every 200 ms at who sends and how much, asks policy.Divide what
// that makes for each, and gives HTB these shares as rates (rates.go has the
// decision, run.go the loop). HTB then holds exactly what it is told; it is told
// late, by up to the interval. In between, and when no agent runs, the last rates
// stay, and the others borrow the part that a class does not use.
//
// HTB has no room for a weight or a name: what was asked for is remembered in
// StateDir/tc-<device>-<ifindex>.json, and State joins that with what the kernel
// has.
//
// What it does not do: see Gaps, which weir status prints.
package tc
