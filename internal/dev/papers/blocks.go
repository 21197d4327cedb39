// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"weir/internal/core/policy"
	"weir/internal/dev/figures"
	"weir/internal/dev/markdown"
	"weir/internal/dev/papers/floor"
	"weir/internal/dev/papers/footprint"
	"weir/internal/host/rootlock"
	"weir/internal/lab/report"
)

// listed are runs that a section is made of and that it does not show on a page of its own.
type listed []want

func (l listed) runs(string) []want { return l }
func (listed) write(*writer)        {}

// bars are the runs of lab/bars that README.md and docs quote, ingress those of lab/ingress,
// migrations those of which package paper makes a page.
var (
	bars = paper{name: "bars", sections: []section{
		listed(wants("latency-110mbit", readmeSchedulers...)), listed(wants("latency-110mbit-offload", append(readmeSchedulers, "htb+gso")...)),
		listed{{scenario: "cpu", cpu: true}}, // with its peers beside it
		listed(wants("cost-short", "")), listed(wants("floor", "")),
		listed(wants("many-flows", append(readmeSchedulers, "cake")...)), listed(wants("llq", "fair")),
	}}
	demo       = paper{name: "demo", pictures: true, sections: []section{listed(wants("shares", "fair"))}}
	demoHosts  = paper{name: "cluster", real: true, sections: []section{listed(wants("demo", ""))}}
	migrations = paper{name: "c-balancer", real: true, sections: []section{
		listed(wants("downtime", "")), listed(wants("fig07", "")), listed(wants("fig09", "")),
	}}
	ingress = paper{name: "ingress", sections: []section{
		listed(wants("qcon-fig07", "fair")), listed(wants("qcon-fig09", "fair")), listed(wants("qcon-fig10", "fair")), listed(wants("tcp", "fair")),
	}}
)

// block makes the text of a block from data. need, which panics with missing, fetches a run.
type block func(need func(name string) *figures.Run) string

// missing is the panic of a block whose run is not there.
type missing string

var blocks = map[string]block{
	"readme":            readmeBlock,
	"readme-machine":    readmeMachine,
	"readme-demo":       readmeDemo,
	"cluster-demo":      clusterDemo,
	"qdisc-timing":      timingBlock,
	"qdisc-cost":        costBlock,
	"qdisc-cost-of-htb": costOfHTB,
	"one-lock":          oneLock,
	"cost-floor":        floorBlock(floor.Added),
	"cost-functions":    floorBlock(floor.Functions),
	"many-flows":        manyFlows,
	"llq-steady":        llqBlock,
	"control-held":      controlBlock,
	"ingress-error":     ingressError,
	"ingress-tcp":       ingressTCP,
}

// blockText is a block's text.
func blockText(root string, data *figures.Runs, name string) (text string, err error) {
	if name == "footprint" { // no run of the lab
		return footprint.Block(root)
	}
	f, known := blocks[name]
	if !known {
		return "", errors.New("not known; internal/dev/papers/blocks.go has all")
	}
	defer func() {
		switch died := recover().(type) {
		case nil:
		case missing:
			err = fmt.Errorf("%s; measure: scripts/papers %s", "run "+string(died)+" is missing or has not what the block quotes", string(died))
		default:
			panic(died)
		}
	}()
	return f(func(name string) *figures.Run {
		r := data.Run(name)
		if r == nil {
			panic(missing(name))
		}
		return r
	}), nil
}

// must is a number that was measured.
func must(r *figures.Run, v *float64) float64 {
	if v == nil {
		panic(missing(r.Name))
	}
	return *v
}

func mustWorkload(r *figures.Run, phase int, name string) report.Workload {
	w, found := r.Workload(phase, name)
	if !found {
		panic(missing(r.Name))
	}
	return w
}

func mustFlow(r *figures.Run, phase int, workload, flow string) report.Flow {
	f, found := r.Flow(phase, workload, flow)
	if !found {
		panic(missing(r.Name))
	}
	return f
}

func mustLink(r *figures.Run, phase int) report.Link {
	l, found := r.Link(phase)
	if !found {
		panic(missing(r.Name))
	}
	return l
}

// of names the kernels and commits of runs, each once.
func of(runs ...*figures.Run) string {
	r := &results{runs: map[string]*run{}}
	for _, x := range runs {
		r.runs[x.Name] = &run{source: x.Source}
	}
	kernels, commits, days := r.sources()
	return fmt.Sprintf("Linux %s, commit %s, %s", kernels, commits, days)
}

func timingBlock(need func(string) *figures.Run) string {
	r := need("cps/timing")
	rows := [][]string{{"", "rate, idle and busy", "late p50, p99, most; idle", "busy", "distance of two packets off by p50, p99; idle", "busy"}}
	list := r.Timings()
	for _, idle := range list {
		for _, busy := range list {
			if idle.Busy || !busy.Busy || idle.Scheduler != busy.Scheduler {
				continue
			}
			late := func(t report.TimingRow) string {
				return fmt.Sprintf("%.1f, %.1f, %.1f", t.LateP50, t.LateP99, t.LateMax)
			}
			gap := func(t report.TimingRow) string { return fmt.Sprintf("%.1f, %.1f", t.GapP50, t.GapP99) }
			rows = append(rows, []string{"`" + idle.Scheduler + "`", fmt.Sprintf("%+.3f %%, %+.3f %%", 100*idle.RateError, 100*busy.RateError),
				late(idle), late(busy), gap(idle), gap(busy)})
		}
	}
	return markdown.Table(rows...) + "\n" + of(r) + "."
}

// added returns the instructions that a scheduler adds to a packet in a case.
func added(r *figures.Run, scheduler, name string) float64 {
	row, err := floor.Row(r.Costs(), scheduler, name)
	if err != nil {
		panic(missing(r.Name))
	}
	return row.Added()
}

// floorBlock returns the block of a table of docs/cost.md.
func floorBlock(table func([]report.CostRow) (string, error)) block {
	return func(need func(string) *figures.Run) string {
		r := need("bars/floor")
		text, err := table(r.Costs())
		if err != nil {
			panic(missing(r.Name))
		}
		return strings.TrimSuffix(text, "\n") + "\n\n" + of(r) + "."
	}
}

func costBlock(need func(string) *figures.Run) string {
	r := need("bars/cost-short")
	rows := [][]string{{"", "64 bytes, nothing waits", "full link"}}
	for _, row := range r.Costs() {
		if row.Case == "inside" && row.Scheduler != "none" {
			full := "-"
			for _, other := range r.Costs() {
				if other.Case == "full" && other.Scheduler == row.Scheduler {
					full = markdown.Thousands(other.Added())
				}
			}
			rows = append(rows, []string{"`" + row.Scheduler + "`", markdown.Thousands(row.Added()), full})
		}
	}
	return markdown.Table(rows...) + "\n" + of(r) + "."
}

func costOfHTB(need func(string) *figures.Run) string {
	r := need("bars/cost-short")
	return fmt.Sprintf("%.2f", added(r, "fair+sfq", "full")/added(r, "htb+fq_codel", "full"))
}

// lockHz is the clock of the CPU that the limits of one lock are given for.
const lockHz = 3e9

// oneLock is the table of what one root qdisc carries, by arithmetic from its serial part.
func oneLock(need func(string) *figures.Run) string {
	r := need("bars/cost-short")
	rows := [][]string{{"", "serial instructions of a packet", "packets a second at most", "in full frames", "of 64 bytes"}}
	for _, scheduler := range []string{"fair+sfq", "fair", "htb+fq_codel", "htb"} {
		limit := rootlock.PacketCapacity{Serial: math.Round(serial(r, scheduler, "inside")), Hz: lockHz}
		rows = append(rows, []string{"`" + scheduler + "`", markdown.Thousands(limit.Serial), fmt.Sprintf("%.2f million", limit.Packets()/1e6),
			policy.Approx(float64(limit.Rate(policy.FullFrame))), policy.Approx(float64(limit.Rate(64)))})
	}
	return markdown.Table(rows...) + fmt.Sprintf("\nA CPU of %.0f GHz, an instruction a cycle. %s.", lockHz/1e9, of(r))
}

// manyRequests is the p99 of the request beside 128 flows, ms.
func manyRequests(need func(string) *figures.Run, scheduler string) float64 {
	r := need("bars/many-flows-" + scheduler)
	return must(r, mustFlow(r, 1, "c1", "tcp_rr:7000").RTT.P99)
}

func manyFlows(need func(string) *figures.Run) string {
	return fmt.Sprintf("%.2f ms", manyRequests(need, "fair"))
}

func llqBlock(need func(string) *figures.Run) string {
	r := need("bars/llq-fair")
	var jitter [6]float64
	lost := 0.0
	for p := 1; p <= 5; p++ {
		f := mustFlow(r, p, "pbx", "udp:5001")
		jitter[p] = must(r, f.JitterMs)
		lost = max(lost, must(r, f.Loss))
	}
	losses := "nothing is lost"
	if lost > 0 {
		losses = fmt.Sprintf("**%.2f %% is lost**", 100*lost)
	}
	return fmt.Sprintf("Jitter is %.3f ms alone, %.3f ms beside bulk traffic of its own workload that fills the link, %.3f and %.3f ms with other workloads besides, %.3f ms where only others fill it; %s (%s).",
		jitter[1], jitter[2], jitter[3], jitter[5], jitter[4], losses, of(r))
}

func ingressError(need func(string) *figures.Run) string {
	worst, least := 0.0, math.Inf(1)
	for _, name := range []string{"qcon-fig07", "qcon-fig09", "qcon-fig10"} {
		r := need("ingress/" + name + "-fair")
		for p := 1; p <= r.Phases(); p++ {
			for _, w := range r.Workloads(p) {
				if w.IdealBps > 0 {
					worst = max(worst, math.Abs(w.RateBps/w.IdealBps-1))
				}
			}
			least = min(least, mustLink(r, p).Utilisation)
		}
	}
	return fmt.Sprintf("the largest error of any flow in any phase is %.2f %% of its ideal, and %.2f %% of the link or more is used", 100*worst, 100*least)
}

func ingressTCP(need func(string) *figures.Run) string {
	r := need("ingress/tcp-fair")
	rows := [][]string{{"", "c1", "c2", "c3", "c1's round trip, p50 and p99", "segments sent again in 7 s, c1 and c2"}}
	for p, what := range []string{"both take all they can", "c2 with a max of 20", "60 Mbit/s of UDP for c3, max 10"} {
		c1, c2, c3 := mustWorkload(r, p+1, "c1"), mustWorkload(r, p+1, "c2"), mustWorkload(r, p+1, "c3")
		again := func(w report.Workload) string {
			if w.Retransmits == nil {
				return "-"
			}
			return fmt.Sprint(*w.Retransmits)
		}
		rows = append(rows, []string{what, rateBeside(c1), rateBeside(c2), rateBeside(c3),
			fmt.Sprintf("%.1f and %.1f ms", must(r, c1.RTT.P50), must(r, c1.RTT.P99)), again(c1) + " and " + again(c2)})
	}
	return markdown.Table(rows...) + "\n" + of(r) + "."
}

// rateBeside is a rate in Mbit/s, and the ideal where it is another one.
func rateBeside(w report.Workload) string {
	switch {
	case w.RateBps == 0 && w.IdealBps == 0:
		return ""
	case math.Abs(w.RateBps-w.IdealBps) > 0.02*w.IdealBps:
		return fmt.Sprintf("%.1f instead of %.1f", w.RateBps/1e6, w.IdealBps/1e6)
	}
	return fmt.Sprintf("%.1f", w.RateBps/1e6)
}

// controlBlock are the CPS paper's experiments in which a reservation is held.
func controlBlock(need func(string) *figures.Run) string {
	off := func(r *figures.Run, phase int, name string, reserved float64) float64 {
		return math.Abs(must(r, mustWorkload(r, phase, name).GoodputBps)/reserved - 1)
	}
	wan, join, step := need("cps/fig10b-fair"), need("cps/fig09a-fair"), need("cps/fig08-default-fair")
	worst, below := 0.0, 0.0
	for name, reserved := range map[string]float64{"a": 5e6, "b": 7e6, "c": 10e6} {
		worst = max(worst, off(wan, 2, name, reserved))
		below = max(below, must(wan, mustWorkload(wan, 2, name).RecoveryS))
	}
	joined, least, moved := 0.0, 1.0, 0.0
	for phase := 2; phase <= 4; phase++ {
		least = min(least, mustLink(join, phase).Utilisation)
		for name, reserved := range map[string]float64{"q10": 10e6, "q25": 25e6, "q40": 40e6} {
			w := mustWorkload(join, phase, name)
			if w.IdealBps == 0 {
				continue // has not joined
			}
			joined = max(joined, off(join, phase, name, reserved))
			if w.Disturbance != nil {
				moved = max(moved, *w.Disturbance)
			}
		}
	}
	over, settled := 0.0, 0.0
	for phase := 1; phase <= 3; phase++ {
		w := mustWorkload(step, phase, "q30")
		over, settled = max(over, must(step, w.Overshoot)), max(settled, must(step, w.SettleS))
	}
	return markdown.Table(
		[]string{"what", "seen"},
		[]string{"5, 7 and 10 Mbit/s over 10 ms with 0.1 % of loss, a minute", fmt.Sprintf("off by %.2f %% at most; below 98 %% for %.0f s at most", 100*worst, below)},
		[]string{"10, 25 and 40 Mbit/s of what comes join a greedy download, one each 50 s", fmt.Sprintf("off by %.2f %% at most; the link carries %.1f %%; who joins moves the others by %.1f %% in a second at most", 100*joined, 100*least, 100*moved)},
		[]string{"a target of 30, then 50, then 15 Mbit/s", fmt.Sprintf("within 2 %% of it after %.0f s at most, overshoot %.1f %%", settled+1, 100*over)},
	)
}
