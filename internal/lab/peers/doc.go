// SPDX-License-Identifier: Apache-2.0

// Package peers sets up the kernel's own qdiscs as an expert would
// for the same policy, so that Weir is compared with their best and not with
// their defaults.
//
// Each peer is an entry of one table: what it is, what of weight, min and max it
// can hold, and the tc commands. Example: HTB for weights 1, 2, 3 on 100 Mbit/s:
//
//	qdisc add dev up0 root handle 1: htb default fffe
//	class add dev up0 parent 1: classid 1:ffff htb rate 100000000bit ceil 100000000bit
//	class add dev up0 parent 1:ffff classid 1:1 htb rate 16666666bit ceil 100000000bit quantum 1514
//	qdisc add dev up0 parent 1:1 fq_codel
//	...
//
// Packets find their class by skb->priority, written by a BPF program of one
// instruction at the host's end of each workload's veth: cheaper than any filter
// at the qdisc. Qdiscs that cannot limit a rate by themselves hang below a TBF.
//
// Explain prints the table with the commands; docs/scenario.md shows it.
package peers
