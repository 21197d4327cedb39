// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"weir/internal/core/policy"
	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
)

// held is an experiment about reservations: the part of its reservation that each flow got.
type held struct{ figure }

func (h held) runs(string) []want { return wants(h.scenario, "fair") }

func (h held) write(w *writer) {
	w.Line("## %s\n\n%s\n", h.title, h.did)
	x, s := w.runs[h.scenario+"-fair"], w.scenarios[h.scenario]
	if x == nil {
		w.Line("Not run.\n")
		return
	}
	w.Head("case", "workload", "reserved", "paper", "goodput", "error", "bar", "held", "overshoot", "settling time", "off in the case's first 5 s", "below 98 % for", "utilisation")
	for p, policies := range s.Policies() {
		for i, c := range s.Workloads {
			reserved := float64(policies[i].Reserve)
			if x.phases[p].workloads[i].GoodputBps == nil {
				continue // nothing measured, or it does not send
			}
			m := x.phases[p].workloads[i]
			cells := []string{fmt.Sprint(p + 1), c.Name, "", printed(m), precisely(*m.GoodputBps), "", "", "", "", "", "", "", percent(x.phases[p].link.Utilisation)}
			if reserved > 0 {
				cells[2], cells[5] = mbit(reserved), fmt.Sprintf("%+.2f %%", 100*(*m.GoodputBps/reserved-1))
			}
			if value, margin := goodputBar(s, p+1, i); margin > 0 {
				off := math.Abs(*m.GoodputBps/value - 1)
				cells[6], cells[7] = percent(margin), yes(off <= margin)
				if value != reserved {
					cells[6] += " of " + mbit(value)
				}
			}
			if m.Overshoot != nil { // a step of the target
				step := stepCells(m)
				cells[8], cells[9] = step[1], step[2]
			}
			if m.Disturbance != nil {
				cells[10] = percent(*m.Disturbance)
			}
			if m.RecoveryS != nil {
				cells[11] = fmt.Sprintf("%.0f s", *m.RecoveryS)
			}
			w.Row(cells...)
		}
	}
	w.Line("\n%s\n", h.why)
	w.claims(h.claims)
	w.plot(h.scenario + "-fair")
}

func precisely(bps float64) string { return fmt.Sprintf("%.3f", bps/1e6) }

// goodputBar returns the goodput that the scenario expects, and the part of it that it may be off.
func goodputBar(s *scenario.Scenario, phase, workload int) (value, margin float64) {
	for _, e := range s.Expect {
		if e.Check == scenario.CheckGoodput && e.Phase == phase && e.Workload == workload {
			return e.Value, e.Within.Of(e.Value) / e.Value
		}
	}
	return 0, 0
}

// responses is how one flow goes to its reservation with several sets of gains.
type responses struct {
	title, did, why string
	sets            []gainSet
	claims          []claim
}

// gainSet is a scenario, what the paper says of it, and a rule for whether that is so here.
type gainSet struct {
	scenario, gains, says string
	rule                  func(r response, w *writer) bool
}

func (r responses) runs(string) (list []want) {
	for _, s := range r.sets {
		list = append(list, wants(s.scenario, "fair")...)
	}
	return list
}

func (r responses) write(w *writer) {
	w.Line("## %s\n\n%s\n", r.title, r.did)
	w.Head("gains", "case", "the paper", "so it is here", "rise", "overshoot", "settling time", "steady-state error")
	for _, s := range r.sets {
		x := w.runs[s.scenario+"-fair"]
		if x == nil {
			w.Row(s.gains, "", s.says, "", "not run", "", "", "")
			continue
		}
		for p := range x.phases {
			says, verdict := "", ""
			if p == 0 && s.rule != nil {
				says, verdict = s.says, yes(s.rule(w.step(s.scenario), w))
			}
			w.Row(append([]string{s.gains, fmt.Sprint(p + 1), says, verdict}, stepCells(x.phases[p].workloads[0])...)...)
		}
	}
	w.Line("\n%s\n", r.why)
	w.claims(r.claims)
	for _, s := range r.sets {
		w.plot(s.scenario + "-fair")
	}
}

// response is how a flow went to its first target: seconds, parts of the target; infinite
// where it never did.
type response struct{ rise, overshoot, settle float64 }

// step of a scenario's only workload; all infinite if it was not run.
func (w *writer) step(name string) response {
	r := response{math.Inf(1), math.Inf(1), math.Inf(1)}
	x := w.runs[name+"-fair"]
	if x == nil {
		return r
	}
	m := x.phases[0].workloads[0]
	for _, f := range []struct {
		from *float64
		to   *float64
	}{{m.RiseS, &r.rise}, {m.Overshoot, &r.overshoot}, {m.SettleS, &r.settle}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	return r
}

// The paper's words about its sets of gains as rules. Negligible is below a twentieth, very
// large a quarter and more.
const (
	negligible = 0.05
	veryLarge  = 0.25
)

// exactness is how exactly packets leave by a schedule.
type exactness struct {
	scenario, title, did, why string
	claims                    []claim
}

func (x exactness) runs(string) []want { return wants(x.scenario, "") }

func (x exactness) write(w *writer) {
	w.Line("## %s\n\n%s\n", x.title, x.did)
	r := w.runs[x.scenario]
	if r == nil {
		w.Line("Not run.\n")
		return
	}
	w.Head("", "CPU", "rate off by", "late, p50", "p99", "most", "distance of two packets off by, p50", "p99")
	us := func(v float64) string { return fmt.Sprintf("%.1f µs", v) }
	for _, t := range r.timing {
		cpu := "idle"
		if t.Busy {
			cpu = "busy"
		}
		w.Row(t.Scheduler, cpu, fmt.Sprintf("%+.3f %%", 100*t.RateError), us(t.LateP50), us(t.LateP99), us(t.LateMax), us(t.GapP50), us(t.GapP99))
	}
	w.Line("\n%s\n", x.why)
	w.claims(x.claims)
}

func stepCells(m report.Workload) []string {
	seconds := func(v *float64) string {
		if v == nil {
			return "never"
		}
		return fmt.Sprintf("%.0f s", *v)
	}
	part := func(v *float64, format string) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf(format, *v*100)
	}
	return []string{seconds(m.RiseS), part(m.Overshoot, "%.1f %%"), seconds(m.SettleS), part(m.SteadyError, "%+.2f %%")}
}

// overshootAtStart is a claim about the goodput's first seconds.
func overshootAtStart(run string, most float64) claim {
	return claim{says: "Goodput overshoots by little while the connections begin.", needs: []string{run}, rule: func(w *writer) (bool, string) {
		worst, who := 0.0, ""
		for _, m := range w.runs[run].phases[0].workloads {
			if m.Overshoot != nil && *m.Overshoot >= worst {
				worst, who = *m.Overshoot, m.Workload
			}
		}
		return who != "" && worst <= most, fmt.Sprintf("%.1f %% at most in a second (%s); the bar is %.0f %%", 100*worst, who, 100*most)
	}}
}

// leftAsReserved is a claim about what a run's first case put on the wire, in payload of
// full segments.
func leftAsReserved(run string, most float64) claim {
	const says = "It is no overshoot of the controller: as much leaves for the link as is reserved. What lies behind a lost segment is read, and counted, when that has come again, a second later perhaps."
	return claim{says: says, needs: []string{run}, rule: func(w *writer) (bool, string) {
		worst := 0.0
		x := w.runs[run]
		for i, m := range x.phases[0].workloads {
			if reserved := float64(x.scenario.Policies()[0][i].Reserve); reserved > 0 {
				worst = max(worst, math.Abs(m.RateBps/float64(policy.WireOf(policy.Rate(reserved), 0))-1))
			}
		}
		return worst <= most, fmt.Sprintf("off by %.2f %% at most in the first case, from its second second on; the bar is %.1f %%", 100*worst, 100*most)
	}}
}

var cps = paper{
	name: "cps", own: "fair", tool: "a program of its own", head: prose("cps"),
	sections: []section{
		held{figure{"fig07", "Figure 7: without feedback",
			`Three reservations of 10, 25 and 40 Mbit/s beside a flow that takes what it gets. Packets leave L/B apart, without
feedback. In the paper no reservation had its rate, and rates oscillated widely.`,
			`Packets are paced by a timer of nanosecond resolution, and each class has a queue of its own. The remaining error is what
the equation leaves out: B counts frames, and 1,448 bytes of 1,514 are payload, 95.64 %.`, []claim{
				{says: "The rates oscillate, as in the paper.", needs: []string{"fig07-fair"}, rule: func(w *writer) (bool, string) {
					most := 0.0
					for _, m := range w.runs["fig07-fair"].reserved() {
						if m.Overshoot != nil {
							most = max(most, *m.Overshoot)
						}
					}
					return most >= veryLarge, fmt.Sprintf("overshoot %.1f %% at most, and a large oscillation is %.0f %% or more", 100*most, 100*veryLarge)
				}},
				{says: "No flow has its rate, as in the paper.", needs: []string{"fig07-fair"}, rule: func(w *writer) (bool, string) {
					least := math.Inf(1)
					for _, m := range w.runs["fig07-fair"].reserved() {
						least = min(least, math.Abs(*m.GoodputBps/m.ReserveBps-1))
					}
					return least > 0.01, fmt.Sprintf("off by %.2f %% at least", 100*least)
				}},
				{says: "Every flow is short of its reservation by its headers.", needs: []string{"fig07-fair"}, rule: func(w *writer) (bool, string) {
					worst := 0.0
					for _, m := range w.runs["fig07-fair"].reserved() {
						worst = max(worst, math.Abs(*m.GoodputBps/(m.ReserveBps*policy.FullPayload/policy.FullFrame)-1))
					}
					return worst <= 0.01, fmt.Sprintf("off by %.2f %% of that at most; the bar is 1 %%", 100*worst)
				}}}}},
		responses{"Figure 8: the gains", `One flow reserves 30 Mbit/s and begins at a hundredth of it; with the default gains at what headers demand, and then its
reservation is changed to 50 and to 15 Mbit/s.`,
			prose("cps-fig08-why"),
			[]gainSet{
				{"fig08a-slow", "Kc 0.125, Ti 1, Td 1", "slowest rise, no overshoot, settling too long", func(r response, w *writer) bool {
					return r.rise > w.step("fig08a-right").rise && r.rise > w.step("fig08a-overshoot").rise && r.overshoot < 0.01 && r.settle > 20
				}},
				{"fig08a-right", "Kc 0.125, Ti 0.146, Td 1", "fast, negligible overshoot", func(r response, w *writer) bool {
					return r.rise < w.step("fig08a-slow").rise && r.overshoot < negligible
				}},
				{"fig08a-overshoot", "Kc 0.125, Ti 0.1136, Td 1", "fastest, very large overshoot", func(r response, w *writer) bool {
					return r.rise < w.step("fig08a-right").rise && r.overshoot >= veryLarge
				}},
				{"fig08b-oscillating", "Kc 0.877, Ti 1.142, Td 0.1279", "oscillates, settles after 40 s", func(r response, _ *writer) bool {
					return r.overshoot >= veryLarge && r.settle >= 30 && r.settle <= 50
				}},
				{"fig08b-unstable", "Kc 1, Ti 2, Td 0.1136", "larger overshoot, longer", func(r response, w *writer) bool {
					other := w.step("fig08b-oscillating")
					return r.overshoot > other.overshoot && r.settle > other.settle
				}},
				{"fig08-default", "the default", "", nil},
			}, []claim{
				{says: "The last two sets settle, as in the paper.", needs: []string{"fig08b-oscillating-fair", "fig08b-unstable-fair"}, rule: func(w *writer) (bool, string) {
					a, b := w.step("fig08b-oscillating"), w.step("fig08b-unstable")
					return !math.IsInf(a.settle, 1) && !math.IsInf(b.settle, 1), fmt.Sprintf("overshoot %.1f and %.1f %%", 100*a.overshoot, 100*b.overshoot)
				}}}},
		text(lagSections),
		held{figure{"fig09a", "Figure 9a: at the receiver",
			`The receiver reserves 10, 25 and 40 Mbit/s beside a flow that takes what it gets, one every 50 s.`,
			`What comes is delayed in the queue of the link's ingress until TCP sends as much.`, []claim{undisturbed("fig09a-fair")}}},
		held{figure{"fig09b", "Figure 9b: at the receiver, with gains that oscillate",
			`20 and 40 Mbit/s, with Kc 0.877, Ti 1.142, Td 0.1279.`,
			prose("cps-fig09b-why"), []claim{
				{says: "All reservations swing, as in the paper.", needs: []string{"fig09b-fair"}, rule: func(w *writer) (bool, string) {
					held, list := 0, w.runs["fig09b-fair"].reserved()
					seen := []string{}
					for _, m := range list {
						if math.Abs(*m.GoodputBps/m.ReserveBps-1) <= 0.01 {
							held++
						}
						seen = append(seen, fmt.Sprintf("%s in case %d is off by %+.2f %%", m.Workload, m.Phase, 100*(*m.GoodputBps/m.ReserveBps-1)))
					}
					return held == 0, strings.Join(seen, ", ")
				}},
				undisturbed("fig09b-fair")}}},
		held{figure{"fig09b-zero", "Figure 9b, begun from zero",
			`The same, and each flow begins at a hundredth of its reservation, as the paper's begin at zero.`,
			``, []claim{undisturbed("fig09b-zero-fair")}}},
		held{figure{"fig09a-sender", "Figure 9a, at the sender",
			`10, 25 and 40 Mbit/s join a flow that takes what it gets, one every 50 s.`,
			``, []claim{undisturbed("fig09a-sender-fair")}}},
		held{figure{"fig10a", "Figure 10a: LAN",
			`Three senders reserve 5, 7 and 10 Mbit/s.`,
			`The paper's flows stay 5 % short. That is what headers take: its monitor counts what leaves by the device, and its
limiter lets the controller act only while more than the reservation is offered.`, []claim{
				reached("fig10a-fair", 2),
				overshootAtStart("fig10a-fair", 0.05),
				leftAsReserved("fig10a-fair", 0.005)}}},
		held{figure{"fig10b", "Figure 10b: WAN",
			`The same with 10 ms of delay and a loss of 0.1 %.`,
			`A loss halves TCP's window, and the queue that stands before the schedule makes up for it.`, []claim{reached("fig10b-fair", 2)}}},
		held{figure{"fig10a-1kb", "Figure 10a with writes of 1 KB", `The paper's program writes 1,024 bytes at a time.`, ``, []claim{reached("fig10a-1kb-fair", 2)}}},
		held{figure{"fig10b-one", "Figure 10b, one flow at a time", `With a loss of 1 %, as the paper measured in the WAN.`, ``, nil}},
		exactness{"timing", "Section VI-D: when packets leave",
			prose("cps-timing"),
			`Soft timers have to wait until the kernel is entered, and a busy program does not enter it. Here the timer is the
kernel's own, of high resolution, and what it wakes runs before any program.`, []claim{
				{says: "A busy CPU makes no packet of Weir's schedulers later than 0.1 ms.", needs: []string{"timing"}, rule: func(w *writer) (bool, string) {
					var most float64
					for _, t := range w.runs["timing"].timing {
						if t.Busy && slices.Contains([]string{"fair", "qcon", "ancs"}, t.Scheduler) {
							most = max(most, t.LateMax)
						}
					}
					return most <= 100, fmt.Sprintf("%.1f µs at most", most)
				}}}},
		held{figure{"demand", "Demand below a reservation",
			`A flow of 4 Mbit/s reserves 10; then it wants all it can get.`,
			`The controller's limiter is off in the second case: the interval stays.`, []claim{
				{says: "The reservation is there in the first second of the third.", needs: []string{"demand-fair"}, rule: func(w *writer) (bool, string) {
					m := w.runs["demand-fair"].phases[2].workloads[0]
					if m.SettleS == nil {
						return false, "it never settles"
					}
					return *m.SettleS < 1, fmt.Sprintf("it settles after %.0f s", *m.SettleS)
				}}}}},
	},
}

// reserved are the results of workloads with a reservation that sent.
func (x *run) reserved() (list []report.Workload) {
	for _, p := range x.phases {
		for _, m := range p.workloads {
			if m.ReserveBps > 0 && m.GoodputBps != nil && *m.GoodputBps > 0 {
				list = append(list, m)
			}
		}
	}
	return list
}

// undisturbed is a claim that who joins takes nothing of other reservations.
func undisturbed(run string) claim {
	return claim{says: "Only the flow without a reservation gives way.", needs: []string{run}, rule: func(w *writer) (bool, string) {
		most := 0.0
		for _, m := range w.runs[run].reserved() {
			if m.Disturbance != nil {
				most = max(most, *m.Disturbance)
			}
		}
		return most <= 0.02, fmt.Sprintf("when another one joins, a second's goodput of a reservation is off by %.2f %% at most; the bar is 2 %%", 100*most)
	}}
}

// reached is a claim about all reservations in one case.
func reached(run string, phase int) claim {
	return claim{says: "Weir's reach their reservations.", needs: []string{run}, rule: func(w *writer) (bool, string) {
		worst := 0.0
		for _, m := range w.runs[run].reserved() {
			if m.Phase == phase {
				worst = max(worst, math.Abs(*m.GoodputBps/m.ReserveBps-1))
			}
		}
		return worst <= 0.005, fmt.Sprintf("off by %.2f %% at most in case %d; the bar is 0.50 %%", 100*worst, phase)
	}}
}
