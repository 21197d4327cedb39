// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"

	"weir/internal/dev/figures"
	"weir/internal/dev/markdown"
)

// qconCases are the runs of the qCon paper's cases about shares, without the scheduler.
func qconCases() (list []string) {
	for _, f := range qcon.figures() {
		list = append(list, "qcon/"+f.scenario)
	}
	return list
}

// worstError of a scheduler in the qCon paper's cases, as a part of the link.
func worstError(need func(string) *figures.Run, scheduler string) (worst float64) {
	for _, name := range qconCases() {
		r := need(name + "-" + scheduler)
		for p := 1; p <= r.Phases(); p++ {
			for _, w := range r.Workloads(p) {
				worst = max(worst, math.Abs(w.Error))
			}
		}
	}
	return worst
}

// notMeasured is the text of a cell whose run is missing.
const notMeasured = "not measured"

// cell returns the text of f, or notMeasured if a run of it is missing.
func cell(f func() string) (text string) {
	defer func() {
		if died := recover(); died != nil {
			if _, expected := died.(missing); !expected {
				panic(died)
			}
			text = notMeasured
		}
	}()
	return f()
}

// readmeBlock is the README's table: Weir beside HTB, each row's measured in the same way.
func readmeBlock(need func(string) *figures.Run) string {
	one := func(format string, f func(scheduler string) float64, scheduler string) string {
		return cell(func() string { return fmt.Sprintf(format, f(scheduler)) })
	}
	all := func(format string, f func(scheduler string) float64) (cells []string) {
		for _, scheduler := range readmeSchedulers {
			cells = append(cells, one(format, f, scheduler))
		}
		return cells
	}
	instructions := func(f func() float64) string { return cell(func() string { return markdown.Thousands(f()) }) }
	idle := func(name, workload string, phase int) func(string) float64 {
		return func(scheduler string) float64 {
			r := need(name + "-" + scheduler)
			return must(r, mustWorkload(r, phase, workload).RTT.P99)
		}
	}
	cpu := func(scheduler string) float64 {
		r := need("bars/cpu").By(scheduler)
		return must(r, mustLink(r, 1).CPUNsPerPacket)
	}
	packet := func(scheduler string) func() float64 {
		return func() float64 { return added(need("bars/cost-short"), scheduler, "inside") }
	}
	call := func(scheduler string) string {
		return cell(func() string {
			r := need("sdn/llq-" + scheduler)
			w := mustWorkload(r, 4, "flow1")
			loss := must(r, w.Loss)
			if loss == 0 {
				return fmt.Sprintf("%.3f ms, no loss", must(r, w.JitterMs))
			}
			return fmt.Sprintf("%.3f ms, %.2f %% lost", must(r, w.JitterMs), 100*loss)
		})
	}
	row := func(what string, cells ...string) []string { return append([]string{what}, cells...) }
	return markdown.Table(
		row("", "Weir", "HTB with fq_codel leaves", "the same, tuned: bursts of 1 ms, hysteresis"),
		row("largest error in the qCon paper's cases, share of the link ([all of them](docs/papers/qcon.md))",
			all("%.2f %%", func(s string) float64 { return 100 * worstError(need, s) })...),
		row("three flows 1:2:3, the first with a min of 30 Mbit/s: what it gets ([figure 11](docs/papers/qcon.md#figure-11-weight-min-and-max-together))",
			all("%.1f Mbit/s", func(s string) float64 { return mustWorkload(need("qcon/fig11-"+s), 2, "c1").RateBps / 1e6 })...),
		row("p99 of a ping while others saturate the link ([table 1](docs/papers/qcon.md#table-1-latency))", all("%.2f ms", idle("qcon/table1", "c6", 2))...),
		row("the same with a line of only 110 Mbit/s behind", all("%.2f ms", idle("bars/latency-110mbit", "idle", 1))...),
		row("the same with segmentation offload too (HTB behind the same splitting of long packets: "+one("%.2f ms", idle("bars/latency-110mbit-offload", "idle", 1), "htb+gso")+")",
			all("%.2f ms", idle("bars/latency-110mbit-offload", "idle", 1))...),
		row("instructions of the whole host per packet of shaped TCP, three workloads", instructions(func() float64 { return cpu("fair") }), instructions(func() float64 { return cpu("htb") }), instructions(func() float64 { return cpu("htb-tuned") })),
		row("instructions added to a 64-byte packet, marking included, five workloads", instructions(packet("fair+sfq")), instructions(packet("htb+fq_codel")), instructions(packet("htb-tuned+fq_codel"))),
		row("a request beside 128 bulk TCP flows of its own workload, p99 (CAKE: "+one("%.1f ms", func(s string) float64 { return manyRequests(need, s) }, "cake")+")",
			all("%.2f ms", func(s string) float64 { return manyRequests(need, s) })...),
		row("a phone call of 5 Mbit/s in a full port of 8 Mbit/s of an Open vSwitch, jitter ([the SDN paper](docs/papers/sdn.md); HTB by the switch's own queues)", call("fair"), call("ovs-htb"), "the switch sets its own"),
	)
}

// readmeSchedulers are the table's columns.
var readmeSchedulers = []string{"fair", "htb", "htb-tuned"}

// readmeRuns are the runs that the README's table is made of.
func readmeRuns() []string {
	list := []string{"bars/cost-short", "bars/cpu", "bars/many-flows-cake", "bars/latency-110mbit-offload-htb+gso", "sdn/llq-fair", "sdn/llq-ovs-htb"}
	for _, scheduler := range readmeSchedulers {
		for _, name := range append(qconCases(), "qcon/table1", "bars/latency-110mbit", "bars/latency-110mbit-offload", "bars/many-flows") {
			list = append(list, name+"-"+scheduler)
		}
	}
	return list
}

// readmeMachine says what measured the README's table, and what of it is not measured.
func readmeMachine(need func(string) *figures.Run) string {
	var runs []*figures.Run
	left := 0
	for _, name := range readmeRuns() {
		if cell(func() string { runs = append(runs, need(name)); return "" }) == notMeasured {
			left++
		}
	}
	text := fmt.Sprintf("Measured by the lab at 100 Mbit/s in VMs with **one emulated CPU in virtual time**, where an instruction takes a\nnanosecond: instructions are counted, and times do not depend on the computer, nor are they those of a real one.\n%s.", of(runs...))
	if left > 0 {
		text += fmt.Sprintf("\n**%d of its %d runs are missing**: `scripts/papers bars qcon sdn` repeats them.", left, len(readmeRuns()))
	}
	return text
}
