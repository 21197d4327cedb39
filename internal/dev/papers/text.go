// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strings"

	"weir/internal/dev/markdown"
	"weir/internal/dev/papers/cases"
	"weir/internal/dev/papers/literal"
	"weir/internal/lab/report"
)

// paper is one page: its text, and the runs that it shows.
type paper struct {
	name     string   // of its page, its plots' folder and, but for lab, its scenarios' folder
	tool     string   // that the paper measures with
	own      string   // the scheduler that the paper is about
	beside   []string // other schedulers whose rates the summary has
	head     string   // with places for kernels, commits and days; "" = no page, its runs are for blocks (blocks.go)
	summary  string
	lab      string // the folder of its scenarios below lab, if its name is not that
	arch     string // the emulated processor, as Debian calls it; "" = amd64
	real     bool   // measured on this machine by scripts/balancer, not in a VM
	pictures bool   // blocks show the plots, though there is no page
	sections []section
}

// figure is one experiment about shares: its text on the page.
type figure struct {
	scenario string
	title    string
	did      string // what the paper did
	why      string // what deviates, and why
	claims   []claim
}

// link to the figure's section, by the anchor that Markdown gives its title.
func (f figure) link() string {
	name, _, _ := strings.Cut(f.title, ":")
	if f.scenario == "fig03-shaped" {
		name += ", shaped"
	}
	return "[" + strings.ToLower(name) + "](#" + markdown.Anchor(f.title) + ")"
}

var qcon = paper{
	name: "qcon", own: "qcon", beside: []string{"htb", "htb-tuned"}, tool: "netperf", head: prose("qcon"), summary: prose("qcon-summary"),
	sections: []section{
		text(orderSection),
		words{literal.QCon},
		text(htbSection),
		text(goodputSection),
		unshaped{},
		figure{"fig03-shaped", "Figure 3: the link shaped to the line",
			`Weights 3:2:1 again, with the link's bandwidth at the rate of the line.`,
			`Nothing in Algorithm 1 depends on the order while no min and no max binds.`, []claim{
				within("The weights hold with fair.", "fig03-shaped-fair", 0.01),
				within("They hold with qcon.", "fig03-shaped-qcon", 0.03)}},
		figure{"fig07", "Figure 7: proportional shares",
			`Three containers with the weights 1:1:1, 1:2:3 and 1:3:5. The paper's text gives numbers for 1:2:3 only.`,
			`No min and no max, so the order does not matter. The paper's own numbers are not quite its weights: three times the rate
of c1 would be more than what it prints for c3.`, nil},
		figure{"fig08", "Figure 8: containers join",
			`Weights 1:2:3:4:5; in each case one more container begins to send.`,
			`No min and no max, so the order does not matter.`, []claim{
				fits("fig08-fair", 2e6)}},
		figure{"fig09", "Figure 9: mins",
			`Weights 1:2:3:4:5, and in each case one more min: 30 for c1, 20 for c2, 15 for c3, 15 for c4.`,
			prose("qcon-fig09-why"), []claim{within("Algorithm 1 divides as the contract does.", "fig09-qcon", 0.03)}},
		figure{"fig10", "Figure 10: maxes",
			`Equal weights, and in each case one more max: 10 for c1, 10 for c2, 15 for c3, 25 for c4.`,
			`The maxes come in the order of the containers, so that what each leaves goes to those without one. The paper's numbers for
the last case add up to what the link carries as goodput.`, []claim{within("Here the order does no harm.", "fig10-qcon", 0.03)}},
		figure{"fig11", "Figure 11: weight, min and max together",
			`Weights 1:2:3; then a min of 30 for c1; then also a max of 15 for c3.`,
			`In the last case c3 is the last in order: the loop as printed gives the rate that its max leaves to no other container, and the
balance raises the total for all instead. c1's part of that stays below its min: a min is a floor, and not added to a share. The paper divides it between c1 and c2 by weight, on top of c1's min.`, []claim{
				{says: "In the last case both c1 and c2 rise, as in the paper.", needs: []string{"fig11-qcon"}, rule: func(w *writer) (bool, string) {
					before, after := w.runs["fig11-qcon"].phases[1].workloads, w.runs["fig11-qcon"].phases[2].workloads
					rises := func(i int) bool { return after[i].RateBps > before[i].RateBps*1.01 }
					return rises(0) && rises(1), fmt.Sprintf("c1 from %s to %s, c2 from %s to %s Mbit/s",
						mbit(before[0].RateBps), mbit(after[0].RateBps), mbit(before[1].RateBps), mbit(after[1].RateBps))
				}},
				within("All rates are the contract's.", "fig11-qcon", 0.03)}},
		cpu{title: "Figure 12: CPU time", did: prose("qcon-cpu"), why: prose("qcon-cpu-why"), who: "containers",
			scenario: "fig12", none: "fig12-none", others: []string{"fair", "qcon", "htb", "drr"}, claims: []claim{
				ordered("The paper's order, qCon below no scheduler below HTB.", cpuOf, "%", 100, "fig12-qcon", "fig12-none-none", "fig12-htb"),
				ordered("Fair is between qcon and HTB.", cpuOf, "%", 100, "fig12-qcon", "fig12-fair", "fig12-htb")}},
		quiet{title: "Table 1: latency", did: prose("qcon-latency"), why: prose("qcon-latency-why"),
			scenario: "table1", workload: "c6", schedulers: []string{"none", "fair", "qcon", "htb", "htb-tuned", "drr"}, claims: []claim{
				tailed("With fair half of the pings wait for nothing.", "table1-fair", 0.005, "ms more than alone", pingDelay),
				tailed("With qcon too.", "table1-qcon", 0.005, "ms more than alone", pingDelay),
				tailed("With HTB too.", "table1-htb", 0.005, "ms more than alone", pingDelay),
				tailed("Fair's tail is as short as promised.", "table1-fair", 0.3, "ms", pingTail),
				longerTail("Qcon's tail is longer than fair's.", "table1-qcon", "table1-fair")}},
	},
}

// unshapedClaims are about figure 3's first half.
var unshapedClaims = []claim{
	{says: "DRR's three rates are alike, as in the paper.", needs: []string{"fig03-drr-drr"}, rule: func(w *writer) (bool, string) {
		var list []float64
		for _, m := range w.runs["fig03-drr-drr"].phases[0].workloads {
			list = append(list, m.RateBps/1e6)
		}
		return cases.Spread(list) <= 5, cases.Joined(list, "%.1f", "Mbit/s") + ", of one run; the bar is 5 between the least and the most"
	}},
	weightless("On a link that is never full DRR's weights count for nothing.", "fig03-drr-drr"),
	weightless("Neither do fair's.", "fig03-drr-fair"),
	{says: "Once the link is shaped to the line, DRR holds them.", needs: []string{"fig03-shaped-drr"}, rule: func(w *writer) (bool, string) {
		off := w.runs["fig03-shaped-drr"].offWeights()
		return off <= 0.01, fmt.Sprintf("off by %s of the link at most; the bar is 1.00 %%", percent(off))
	}},
}

// weightless is a claim that no order of rates follows the weights: some rate is off by more
// than a twentieth of the link.
func weightless(says, run string) claim {
	return claim{says: says, needs: []string{run}, rule: func(w *writer) (bool, string) {
		off := w.runs[run].offWeights()
		return off > 0.05, fmt.Sprintf("off by up to %s of what arrived", percent(off))
	}}
}

// offWeights is how far a rate is from what the weights say of all that arrived in the first
// phase, as a part of that.
func (x *run) offWeights() (most float64) {
	var rates, weights float64
	for i, m := range x.phases[0].workloads {
		rates, weights = rates+m.RateBps, weights+float64(x.scenario.Workloads[i].Policy.Weight)
	}
	for i, m := range x.phases[0].workloads {
		most = max(most, math.Abs(m.RateBps/rates-float64(x.scenario.Workloads[i].Policy.Weight)/weights))
	}
	return most
}

// fits is the claim that what the paper prints is the contract's goodput.
func fits(run string, bps float64) claim {
	return claim{says: "The paper's numbers fit the weights, as goodput.", needs: []string{run}, rule: func(w *writer) (bool, string) {
		x := w.runs[run]
		share, worst := x.goodput(), 0.0
		for _, p := range x.phases {
			for _, m := range p.workloads {
				if m.PaperBps != nil {
					worst = max(worst, math.Abs(*m.PaperBps-m.IdealBps*share))
				}
			}
		}
		return worst <= bps, fmt.Sprintf("off by %.1f Mbit/s at most; the bar is %.0f, since it prints whole ones", worst/1e6, bps/1e6)
	}}
}

func cpuOf(x *run, phase int) *float64 { return x.phases[phase].link.CPU }

// ping is the workload that only pings, in a phase: alone in the first, under load in the second.
func (x *run) ping(phase int) report.RTT {
	return x.phases[phase].workloads[len(x.scenario.Workloads)-1].RTT
}

// pingDelay is by how much the median ping is longer under load than alone, ms.
func pingDelay(x *run) *float64 {
	alone, loaded := x.ping(0).P50, x.ping(1).P50
	if alone == nil || loaded == nil {
		return nil
	}
	v := *loaded - *alone
	return &v
}

func pingTail(x *run) *float64 { return x.ping(1).P99 }

// longerTail is a claim that one run's pings have a longer tail under load than another's.
func longerTail(says, one, other string) claim {
	return claim{says: says, needs: []string{one, other}, rule: func(w *writer) (bool, string) {
		a, b := pingTail(w.runs[one]), pingTail(w.runs[other])
		if a == nil || b == nil {
			return false, "not both were measured"
		}
		return *a > *b, fmt.Sprintf("p99 %.3f and %.3f ms", *a, *b)
	}}
}
