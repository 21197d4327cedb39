// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"strings"

	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
	"weir/internal/lab/meter"
	"weir/internal/lab/scenario"
	"weir/internal/lab/topology"
)

// KernelScheduler is one of the kernel's schedulers.
type KernelScheduler struct {
	Name  string
	Holds string // what of a policy it can express
	How   string // the set-up in words
	// Handle of the qdisc that finds classes by skb->priority, e.g. 0x20000 for
	// 2:; 0 = it looks at nothing but the packet.
	Handle uint32
	// Null asks for the null BPF qdisc, which the lab loads meanwhile.
	Null bool
	// Hysteresis turns HTB's hysteresis on meanwhile, a parameter of the whole kernel.
	Hysteresis bool
	setup      func(Setting) string
	change     func(old, now Setting) string // nil: nothing of a policy is in the set-up
}

// Setting is a link with its policies: what a set-up is made of.
type Setting struct {
	Device   string
	Link     scenario.Link
	Policies []scenario.Policy // workload w is class w+1
	Leaf     Leaf
	// bursts gives each of HTB's classes a burst of 1 ms at its rate and its ceil,
	// instead of tc's default of a frame and a half.
	bursts bool
	// fixed lets no class of HTB borrow: each has its rate, also while others are idle.
	fixed bool
}

// Leaf is the qdisc below the class of one workload.
type Leaf struct {
	// Kind is fq_codel, sfq or pfifo, with options or without; or prio or drr with
	// a queue for each of Ports. "" = the best there is.
	Kind string
	// FIFO gives a workload whose discipline is fifo a FIFO, whatever Kind is.
	FIFO  bool
	Ports []int // UDP ports whose packets belong into a queue of their own each
}

// Table of all peers, in the order in which they are explained.
var Table = []KernelScheduler{
	{
		Name: "none", Holds: "nothing: no scheduler, no limit but the line's",
		How:   "the device's own noqueue",
		setup: func(Setting) string { return "" },
	},
	{
		Name: "pfifo", Holds: "the link's rate",
		How:   "1000 packets for all, below a TBF at the link's rate",
		setup: func(s Setting) string { return s.below("pfifo limit 1000") },
	},
	{
		Name: "root-pfifo", Holds: "nothing: no limit but the line's",
		How: "1000 packets for all, at the root: the least that a qdisc of the kernel's costs",
		setup: func(s Setting) string {
			return fmt.Sprintf("qdisc add dev %s root handle 1: pfifo limit 1000\n", s.Device)
		},
	},
	{
		Name: "bpf-null", Holds: "nothing: no limit but the line's", Null: true,
		How: "a FIFO of 1024 packets as a BPF qdisc without any policy (bpf/lab/null.bpf.c): the least that a BPF qdisc costs",
		setup: func(s Setting) string {
			return fmt.Sprintf("qdisc add dev %s root handle 1: %s\n", s.Device, meter.NullQdisc)
		},
	},
	{
		Name: "fq_codel", Holds: "the link's rate, equal shares per workload", Handle: 0x20000,
		How:   "one queue per workload (instead of a hash of its flows) with CoDel, below a TBF",
		setup: func(s Setting) string { return s.below(fmt.Sprintf("fq_codel quantum %d", s.frame())) },
	},
	{
		Name: "fq", Holds: "the link's rate, equal shares per connection",
		How:   "one queue per socket, below a TBF",
		setup: func(s Setting) string { return s.below("fq") },
	},
	{
		Name: "sfq", Holds: "the link's rate, equal shares per workload", Handle: 0x20000,
		How:   "one queue per workload, at most 127 packets each, below a TBF",
		setup: func(s Setting) string { return s.below(fmt.Sprintf("sfq limit 4000 depth 127 quantum %d", s.frame())) },
	},
	{
		Name: "drr", Holds: "the link's rate, weights", Handle: 0x20000,
		How:   "one class per workload, quantum = weight frames, below a TBF",
		setup: setupDRR, change: changeDRR,
	},
	{
		Name: "htb", Holds: "the link's rate, weights, mins, maxes; what is left over is divided by weight on top of the rates, " +
			"so that a min is a min plus a share as soon as somebody is idle", Handle: 0x10000,
		How: "one class per workload: rate = what it gets when all send (the contract's division), ceil = max or the link, " +
			"quantum by weight, leaf fq_codel (else sfq, else pfifo), or pfifo for a workload whose discipline is fifo",
		setup: setupHTB, change: changeHTB,
	},
	{
		Name: HTBTuned, Holds: "as htb, but for what bursts may exceed it by", Handle: 0x10000, Hysteresis: true,
		How: "as htb, with burst and cburst of what a class sends in 1 ms, and with hysteresis (htb_hysteresis=1), both of which save " +
			"timers; in the VM only, since hysteresis is a parameter of the whole kernel",
		setup:  func(s Setting) string { return setupHTB(s.tuned()) },
		change: func(old, now Setting) string { return changeHTB(old.tuned(), now.tuned()) },
	},
	{
		Name: "htb-fixed", Holds: "the link's rate, and for each workload a fixed rate: what one does not use is lost", Handle: 0x10000,
		How: "as htb, with ceil = rate, so that no class borrows: a traffic control that is not work-conserving, the baseline of the ANCS " +
			"paper (section 4.4)",
		setup:  func(s Setting) string { return setupHTB(s.unborrowed()) },
		change: func(old, now Setting) string { return changeHTB(old.unborrowed(), now.unborrowed()) },
	},
	{
		Name: "cake", Holds: "the link's rate, equal shares per workload and within it per connection",
		How: "bandwidth, besteffort, dual-srchost (a workload is a source address)",
		setup: func(s Setting) string {
			return fmt.Sprintf("qdisc add dev %s root handle 1: cake bandwidth %dbit besteffort dual-srchost\n", s.Device, s.Link.Bandwidth)
		},
	},
}

// HTBTuned is HTB set up for few timers instead of short bursts.
const HTBTuned = "htb-tuned"

// Find a peer by its name, with scenario.LimitedGSO behind it or without.
func Find(name string) (KernelScheduler, bool) {
	name = strings.TrimSuffix(name, scenario.LimitedGSO)
	for _, p := range Table {
		if p.Name == name {
			return p, true
		}
	}
	return KernelScheduler{}, false
}

func (s Setting) tuned() Setting {
	s.bursts = true
	return s
}

func (s Setting) unborrowed() Setting {
	s.fixed = true
	return s
}

// burst returns the bytes that a class of HTB may send at once, "" for tc's default.
func (s Setting) burst(rate, ceil policy.Rate) string {
	if !s.bursts {
		return ""
	}
	inMs := func(r policy.Rate) int { return max(s.frame(), int(r/8000)) }
	return fmt.Sprintf(" burst %db cburst %db", inMs(rate), inMs(ceil))
}

// Commands are the tc commands that set the peer up, one per line.
func (p KernelScheduler) Commands(s Setting) string { return p.setup(s) }

// frame is the size of a full packet.
func (s Setting) frame() int { return s.Link.MTU + 14 }

// below hangs a qdisc below a token bucket at the link's rate, because it has no
// limit of its own.
func (s Setting) below(qdisc string) string {
	return fmt.Sprintf("qdisc add dev %[1]s root handle 1: tbf rate %[2]dbit burst %[3]d limit 10000000\n"+
		"qdisc add dev %[1]s parent 1:1 handle 2: %[4]s\n",
		s.Device, s.Link.Bandwidth, topology.TBFBurst(s.Link.Bandwidth, s.Link.MTU), qdisc)
}

// quanta are each workload's turn in bytes: proportional to the weights, a frame
// at least, and no more than the 200,000 beyond which HTB complains.
func (s Setting) quanta() []int {
	least := uint32(policy.MaxWeight)
	for _, p := range s.Policies {
		least = min(least, p.Weight)
	}
	var list []int
	for _, p := range s.Policies {
		list = append(list, min(200000, s.frame()*int(p.Weight)/int(least)))
	}
	return list
}

// leaf hangs the queues of one workload below its class. Those of prio and drr are
// plain FIFOs, which u32 fills: four comparisons at most are cheaper than any hash.
func (s Setting) leaf(major, class int) string {
	parent := fmt.Sprintf("dev %s parent %x:%x", s.Device, major, class)
	if s.Leaf.FIFO && s.Policies[class-1].Discipline == discipline.FIFO {
		return fmt.Sprintf("qdisc add %s pfifo limit 1000\n", parent)
	}
	switch s.Leaf.Kind {
	case "pfifo":
		return fmt.Sprintf("qdisc add %s pfifo limit 100\n", parent)
	case "prio", "drr":
		return s.sorted(parent, 0x100+class)
	}
	return fmt.Sprintf("qdisc add %s %s\n", parent, s.Leaf.Kind)
}

// sorted is prio or drr with the number handle, and the filters of its queues.
func (s Setting) sorted(parent string, handle int) string {
	var b strings.Builder
	options := ""
	if s.Leaf.Kind == "prio" {
		options = fmt.Sprintf(" bands %d", max(2, len(s.Leaf.Ports)))
	}
	fmt.Fprintf(&b, "qdisc add %s handle %x: %s%s\n", parent, handle, s.Leaf.Kind, options)
	for i, port := range s.Leaf.Ports {
		if s.Leaf.Kind == "drr" {
			fmt.Fprintf(&b, "class add dev %s parent %x: classid %x:%x drr quantum %d\n", s.Device, handle, handle, i+1, s.frame())
		}
		fmt.Fprintf(&b, "filter add dev %s parent %x: protocol ip prio 1 u32 match ip protocol 17 0xff match ip dport %d 0xffff flowid %x:%x\n",
			s.Device, handle, port, handle, i+1)
	}
	return b.String()
}

func setupDRR(s Setting) string {
	var b strings.Builder
	b.WriteString(s.below("drr"))
	for i, q := range s.quanta() {
		fmt.Fprintf(&b, "class add dev %s parent 2: classid 2:%x drr quantum %d\n", s.Device, i+1, q)
		b.WriteString(s.leaf(2, i+1))
	}
	return b.String()
}

func changeDRR(old, now Setting) string {
	var b strings.Builder
	was := old.quanta()
	for i, q := range now.quanta() {
		if q != was[i] {
			fmt.Fprintf(&b, "class change dev %s parent 2: classid 2:%x drr quantum %d\n", now.Device, i+1, q)
		}
	}
	return b.String()
}

func setupHTB(s Setting) string {
	var b strings.Builder
	fmt.Fprintf(&b, "qdisc add dev %s root handle 1: htb default fffe\n", s.Device)
	fmt.Fprintf(&b, "class add dev %[1]s parent 1: classid 1:ffff htb rate %[2]dbit ceil %[2]dbit%[3]s\n",
		s.Device, s.Link.Bandwidth, s.burst(s.Link.Bandwidth, s.Link.Bandwidth))
	for i, options := range s.htbClasses() {
		fmt.Fprintf(&b, "class add dev %s parent 1:ffff classid 1:%x htb %s\n", s.Device, i+1, options)
		b.WriteString(s.leaf(1, i+1))
	}
	fmt.Fprintf(&b, "class add dev %s parent 1:ffff classid 1:fffe htb rate 8kbit ceil %dbit quantum %d\n",
		s.Device, s.Link.Bandwidth, s.frame())
	return b.String()
}

func changeHTB(old, now Setting) string {
	var b strings.Builder
	was := old.htbClasses()
	for i, options := range now.htbClasses() {
		if options != was[i] {
			fmt.Fprintf(&b, "class change dev %s parent 1:ffff classid 1:%x htb %s\n", now.Device, i+1, options)
		}
	}
	return b.String()
}

// htbClasses are the options of each workload's class. Its rate is what it gets
// when all workloads send: then nothing is left to borrow, and HTB is exact.
func (s Setting) htbClasses() []string {
	var sharers []policy.Sharer
	for _, p := range s.Policies {
		sharers = append(sharers, policy.Sharer{Weight: p.Weight, Min: p.Min, Max: p.Max, Demand: policy.Unlimited})
	}
	quanta := s.quanta()
	var list []string
	for i, share := range policy.Divide(s.Link.Bandwidth, sharers).Shares {
		ceil := s.Link.Bandwidth
		if m := s.Policies[i].Max; m != 0 {
			ceil = min(ceil, m)
		}
		rate := max(8, policy.Rate(share.Bps))
		if s.fixed {
			ceil = rate
		}
		list = append(list, fmt.Sprintf("rate %dbit ceil %dbit quantum %d%s", rate, ceil, quanta[i], s.burst(rate, ceil)))
	}
	return list
}
