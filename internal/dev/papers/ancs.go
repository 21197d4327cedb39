// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"

	"weir/internal/dev/papers/cases"
	"weir/internal/dev/papers/literal"
)

var ancs = paper{
	name: "ancs", own: "ancs", tool: "Iperf", head: prose("ancs"), summary: prose("ancs-summary"),
	sections: []section{
		words{literal.ANCS},
		text(goodputSection),
		unscheduled{"Figure 4: no scheduler", `One to five VMs, joining. In the paper the unmodified driver serves the VMs round robin, and all get the same: 941
Mbit/s for one, a fifth for each of five.`,
			`No scheduler serves the VMs in turn here: all packets wait in the queue of the line, and each VM gets the rate that its
TCP connection reaches there.`, "fig04", "none", []claim{allSame("fig04-none")}},
		unscheduled{"Figure 4: the VMs in turn", `The same with the kernel's DRR and equal quanta, in the place of Xen's back-end driver: it serves the VMs round robin.`,
			`This is the paper's baseline; the driver's queues are in the guests, DRR's on the host.`, "fig04", "drr", []claim{allSame("fig04-drr")}},
		figure{"fig05", "Figure 5: three policies",
			`Weights 1:2:3:4:5; then a max for vm5; then a min for vm1 as well.`,
			`In the paper the text has the numbers of the min and the max, and the bars show the others in proportion to their
weights.`, []claim{
				within("With fair what vm5 leaves goes to the four others by weight, and what vm1 is missing comes from the other three.", "fig05-fair", 0.01),
				within("With ancs too.", "fig05-ancs", 0.01)}},
		figure{"fig06", "Figure 6: VMs join",
			`Weights 1:2:3:4:5; in each case one more VM begins to send.`,
			`The paper's aggregate is 940 Mbit/s with any number of VMs.`, []claim{full("fig06-fair"), full("fig06-ancs")}},
		figure{"fig07", "Figure 7: the aggregate",
			`The three cases of figure 5, then vm5 falls idle, and at last only vm1 sends, whose weight is the smallest.`,
			`The paper's three bars are at 940 Mbit/s. The last two cases are not the paper's: they are what a scheduler that
hands out credits by weight loses most by, if it does not pass on what is not used.`, []claim{full("fig07-fair"), full("fig07-ancs")}},
		text(func(w *writer) {
			w.compared("fig07-aggregate", "ANCS figure 7: the aggregate in each case", "Mbit/s on the wire", "case", cases.Aggregate, wants("fig07", "ancs", "fair")...)
		}),
		figure{"taps", "Figures 5 to 7 on taps",
			`The cases of figure 5, those of figure 7, and then the others join again as in figure 6, each VM behind a tap of its
own, with a program that carries its frames as QEMU does.`,
			`A whole VM within the lab's own would take more instructions than it has; what the scheduler sees is the same.`, nil},
		cpu{title: "Figure 8: CPU time", who: "VMs", scenario: "fig08", none: "fig08-none", others: []string{"ancs", "fair", "htb", "htb-fixed"}, claims: []claim{
			ordered("Ancs takes less than Linux traffic control, as in the paper.", cpuOf, "%", 100, "fig08-ancs", "fig08-htb"),
			ordered("Fair takes less than ancs.", cpuOf, "%", 100, "fig08-fair", "fig08-ancs")},
			did: `One to eight VMs of equal weight send all they can; CPU time of the whole host (senders and receivers too), counted to
the instruction. The paper's lines have no numbers: its text has up to 12 % for Linux traffic control, and ANCS near
native Xen. The paper's traffic control "does not support work-conserving" and has fixed values: that is htb-fixed,
whose classes do not borrow; htb's do.`,
			why: `An instruction is taken for a nanosecond here: columns can be compared with each other, not with a real CPU's load.
None has no scheduler, but a line of 100 Mbit/s in a namespace of its own, whose timers are counted, so it is an
upper bound. Ancs sends the packets of all by turns, one of each, so its cost grows with their number.`},
		joining{title: "Table 1: ping", scenario: "table1", schedulers: []string{"none", "htb", "htb-fixed", "ancs", "fair"}, printed: map[string]string{
			"none": "0.30 0.34 0.25 0.30 0.32", "htb": "0.30 0.30 0.30 0.32 0.32", "ancs": "0.24 0.28 0.23 0.23 0.34"},
			did: `One to five VMs of equal weight that ping with 64 bytes, and then a sixth one that fills the link beside them, which is
not in the paper. The mean of the VMs' medians. The paper's figures, in ms, include a real network; there is no wire here,
so only the differences count.`,
			why: `The paper's claim is that the period of 30 ms is not seen in the latency. With credit left, no packet waits for the end
of a period.`, claims: []claim{
				unseen("That holds where the paper measured it, with ancs and nothing beside the pings.", "table1-ancs", false),
				unseen("It holds with ancs beside a load, which the paper does not show.", "table1-ancs", true),
				unseen("It holds with fair beside a load.", "table1-fair", true),
				unseen("It holds with HTB beside a load.", "table1-htb", true)}},
		joining{title: "Table 2: TCP_RR", scenario: "table2", schedulers: []string{"none", "htb", "htb-fixed", "ancs", "fair"}, printed: map[string]string{
			"none": "0.12 0.13 0.12 0.12 0.12", "htb": "0.12 0.12 0.13 0.12 0.13", "ancs": "0.12 0.12 0.12 0.12 0.12"},
			did: `The same with netperf's TCP_RR: one byte there and back, as often as it goes.`,
			why: `All VMs are on one processor here, and none rests between two requests. So each further VM makes all wait, with every
scheduler and with none; the paper's machine had four cores, of which one to five VMs leave some idle.`, claims: []claim{
				{says: "The latency is the same for one VM and for five, as in the paper.", needs: []string{"table2-ancs"}, rule: func(w *writer) (bool, string) {
					one, _ := w.runs["table2-ancs"].latency(0)
					five, _ := w.runs["table2-ancs"].latency(4)
					return one != nil && five != nil && *five <= 1.2**one, millis(one) + " and " + millis(five)
				}}}},
		text(table3),
	},
}

// allSame is a claim that every VM has an equal part, in all cases.
func allSame(run string) claim {
	return claim{says: "All get the same, as in the paper.", needs: []string{run}, rule: func(w *writer) (bool, string) {
		off := w.runs[run].offEqual()
		return off <= 0.05, fmt.Sprintf("the one that is farthest from its equal part is off by %s of the link", percent(off))
	}}
}

// full is a claim that the link is, in all cases.
func full(run string) claim {
	return claim{says: "The link is full with any number of them (" + run + ").", needs: []string{run}, rule: func(w *writer) (bool, string) {
		u := w.runs[run].utilisation()
		return u >= 0.99, "utilisation " + percent(u) + " at least; the bar is 99.00 %"
	}}
}

// offEqual is how far a sender's rate is from an equal part, in any phase, as a part of the link.
func (x *run) offEqual() (most float64) {
	for _, p := range x.phases {
		senders := 0.0
		for _, m := range p.workloads {
			if m.IdealBps > 0 {
				senders++
			}
		}
		for _, m := range p.workloads {
			if m.IdealBps > 0 {
				most = max(most, math.Abs(m.RateBps-p.link.RateBps/senders)/p.link.CapacityBps)
			}
		}
	}
	return most
}

// seen is by how much a median may grow and still count as the same, ms: a tenth of a full
// frame's time on the link.
const seen = 0.012

// unseen is a claim that the median latency of one VM alone does not grow: with five, or in
// the last phase, beside a load.
func unseen(says, run string, loaded bool) claim {
	return claim{says: says, needs: []string{run}, rule: func(w *writer) (bool, string) {
		x := w.runs[run]
		last := len(x.phases) - 2
		if loaded {
			last++
		}
		alone, _ := x.latency(0)
		then, tail := x.latency(last)
		if alone == nil || then == nil {
			return false, "it was not measured"
		}
		return *then <= *alone+seen, fmt.Sprintf("p50 %.3f ms, alone %.3f, the worst p99 %.3f", *then, *alone, *tail)
	}}
}
