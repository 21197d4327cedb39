// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"

	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
)

const cpsHead = `# The CPS paper's experiments, repeated

Written by ` + "`make papers`" + `; edits are lost. The paper is Jung, Han, Yeom and Kang, *CPS: Operating System
Architecture for Efficient Network Resource Management with Control-Theoretic Packet Scheduler*. An application reserves
goodput; a PID controller moves the interval at which its packets are served until that much payload arrives
([how Weir does it](../control.md)).

Here the same is done by the scenario files in [lab/cps](../../lab/cps) ([their format](../scenario.md)).

* **Kernel**: %s, Debian's, in a virtual machine of ` + "`vm/run`" + `, one for each run.
* **Virtual time**: one instruction of the machine is one nanosecond of its clock, so figures do not depend on what else
  the computer does.
* **One run again**: ` + "`vm/run -- weir lab run lab/cps/fig10a.yaml`" + `
* **Goodput** is what the receiving programs read, in Mbit/s of payload, without headers. **Error** is goodput less
  reservation, in percent of the reservation.
`

// held is an experiment about reservations: who got how much of his.
type held struct{ figure }

func (h held) runs(string) []want { return wants(h.scenario, "fair") }

func (h held) write(w *writer) {
	w.line("## %s\n\n%s\n", h.title, h.did)
	x, s := w.runs[h.scenario+"-fair"], w.scenarios[h.scenario]
	if x == nil {
		w.line("Not run.\n")
		return
	}
	w.head("case", "workload", "reserved", "paper", "goodput", "error", "bar", "held", "overshoot", "settling time", "off in the case's first 5 s", "below 98 % for", "utilisation")
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
			w.row(cells...)
		}
	}
	w.line("\n%s\n", h.why)
	w.plot(h.scenario + "-fair")
}

func precisely(bps float64) string { return fmt.Sprintf("%.3f", bps/1e6) }

// goodputBar is what the scenario expects of a goodput, and within which part of it.
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
}

// gainSet is a scenario and what the paper says of it.
type gainSet struct{ scenario, gains, says string }

func (r responses) runs(string) (list []want) {
	for _, s := range r.sets {
		list = append(list, wants(s.scenario, "fair")...)
	}
	return list
}

func (r responses) write(w *writer) {
	w.line("## %s\n\n%s\n", r.title, r.did)
	w.head("gains", "case", "the paper", "rise", "overshoot", "settling time", "steady-state error")
	all := true
	for _, s := range r.sets {
		x := w.runs[s.scenario+"-fair"]
		if x == nil {
			all = false
			w.row(s.gains, "", s.says, "not run", "", "", "")
			continue
		}
		for p := range x.phases {
			says := ""
			if p == 0 {
				says = s.says
			}
			w.row(append([]string{s.gains, fmt.Sprint(p + 1), says}, stepCells(x.phases[p].workloads[0])...)...)
		}
	}
	w.line("")
	if all { // else it is not known
		w.line("%s\n", r.why)
	}
	for _, s := range r.sets {
		w.plot(s.scenario + "-fair")
	}
}

// exactness is how exactly packets leave by a schedule.
type exactness struct{ scenario, title, did, why string }

func (x exactness) runs(string) []want { return wants(x.scenario, "fair") }

func (x exactness) write(w *writer) {
	w.line("## %s\n\n%s\n", x.title, x.did)
	r := w.runs[x.scenario+"-fair"]
	if r == nil {
		w.line("Not run.\n")
		return
	}
	w.head("", "CPU", "rate off by", "late, p50", "p99", "most", "distance of two packets off by, p50", "p99")
	us := func(v float64) string { return fmt.Sprintf("%.1f µs", v) }
	for _, t := range r.timing {
		cpu := "idle"
		if t.Busy {
			cpu = "busy"
		}
		w.row(t.Scheduler, cpu, fmt.Sprintf("%+.3f %%", 100*t.RateError), us(t.LateP50), us(t.LateP99), us(t.LateMax), us(t.GapP50), us(t.GapP99))
	}
	w.line("\n%s\n", x.why)
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

var cps = paper{
	name: "cps", own: "fair", tool: "a program of its own", head: cpsHead,
	sections: []section{
		held{figure{"fig07", "Figure 7: without feedback",
			`Three reservations of 10, 25 and 40 Mbit/s beside a flow that takes what it gets. Packets leave L/B apart, and nobody
looks at what came of it. The paper saw none at its rate, and large oscillation.`,
			`A modern kernel does not have the oscillation: packets are paced by a timer of nanosecond resolution, and each class
has a queue of its own. What is left is what the equation leaves out: B counts frames, and 1,448 bytes of 1,514 are
payload, so every flow stays 4.4 % short of its reservation.`}},
		responses{"Figure 8: the gains", `One flow reserves 30 Mbit/s and begins at a hundredth of it; with the default gains at what headers demand, and then its
reservation is changed to 50 and to 15 Mbit/s.`,
			`The paper's first three sets do what it says. Its last two oscillate for good here, not for 40 s only: looked at once a
second, on a network that answers within the second, their loop cannot be stable
([the largest root](../control.md#gains) is 1.5 for both). The paper's network answered more slowly.`,
			[]gainSet{
				{"fig08a-slow", "Kc 0.125, Ti 1, Td 1", "slowest rise, no overshoot, settling too long"},
				{"fig08a-right", "Kc 0.125, Ti 0.146, Td 1", "fast, negligible overshoot"},
				{"fig08a-overshoot", "Kc 0.125, Ti 0.1136, Td 1", "fastest, very large overshoot"},
				{"fig08b-oscillating", "Kc 0.877, Ti 1.142, Td 0.1279", "oscillates, settles after 40 s"},
				{"fig08b-unstable", "Kc 1, Ti 2, Td 0.1136", "larger overshoot, longer"},
				{"fig08-default", "the default", ""},
			}},
		held{figure{"fig09a", "Figure 9a: at the receiver",
			`The receiver reserves 10, 25 and 40 Mbit/s beside a flow that takes what it gets, one every 50 s.`,
			`What comes is delayed in the queue of the link's ingress until TCP sends as much; only the flow without a reservation
gives way.`}},
		held{figure{"fig09b", "Figure 9b: at the receiver, with gains that oscillate",
			`20 and 40 Mbit/s, with Kc 0.877, Ti 1.142, Td 0.1279.`,
			`A loop that oscillates moves its own flow, and what it leaves or takes is the flow's without a reservation.`}},
		held{figure{"fig09a-sender", "Figure 9a, at the sender",
			`10, 25 and 40 Mbit/s join a flow that takes what it gets, one every 50 s.`,
			`Only the flow without a reservation gives way.`}},
		held{figure{"fig10a", "Figure 10a: LAN",
			`Three senders reserve 5, 7 and 10 Mbit/s.`,
			`The paper's flows stay 5 % short. That is what headers take: its monitor counts what leaves by the device, and its
limiter lets the controller act only while more than the reservation is offered.

Overshoot and settling are of what the programs read, second by second. Where one of the first seconds is off by more than
the scenario's 5 %, slow start has ended with a loss: what came behind it waits at the receiver until it was sent again, and
the program reads it a second later. The controller counts payload when it arrives, and its interval does not move.`}},
		held{figure{"fig10b", "Figure 10b: WAN",
			`The same with 10 ms of delay and a loss of 0.1 %.`,
			`A loss halves TCP's window, and the queue that stands before the schedule makes up for it.`}},
		exactness{"timing", "Section VI-D: when packets leave",
			`2,000 frames are handed down at once and let go at 10 Mbit/s, one each 1.2112 ms: by a class's interval with each of
Weir's schedulers, by fq's pacing, and by tbf with a bucket of one frame; with the CPU idle, and with a program that loops
on it. Late is how long after its time a packet came, times counted in whole intervals. The paper's scheduler looked at
its queues every 478 ns with the CPU idle, and every 8.4 ms with it busy.`,
			`Soft timers have to wait until the kernel is entered, and a busy program does not enter it. Here the timer is the
kernel's own, of high resolution, and what it wakes runs before any program.`},
		held{figure{"demand", "Demand below a reservation",
			`A flow of 4 Mbit/s reserves 10; then it wants all it can get.`,
			`The controller's limiter is off in the second case: the interval stays, and the reservation is there in the first
second of the third.`}},
	},
}
