// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/base/verdict"
	"weir/internal/lab/traffic"
)

// cost has rows of which most bars below hold by a hair.
func cost() *CostResult {
	row := func(name, scheduler string, workloads int, added float64) CostRow {
		return CostRow{Case: name, Scheduler: scheduler, Workloads: workloads, NsPerPacket: 1000 + added, BaseNs: 1000}
	}
	return &CostResult{Rows: []CostRow{
		row("veths", "htb", 5, 1400), row("veths", "fair", 5, 1050), row("veths", "fair+sfq", 5, 1064),
		row("all", "fair", 1, 1000), row("all", "fair", 10, 990), row("all", "fair", 100, 1088), row("all", "fair", 1000, 1080),
		row("one", "fair", 1, 1000), row("one", "fair", 1000, 1200),
	}}
}

func TestBarsOfCost(t *testing.T) {
	tests := []struct{ expect, figure, failures string }{
		{"{case: veths, scheduler: fair, added: 75%, of: htb}", "75.00 % of htb's", ""},
		{"{case: veths, scheduler: fair+sfq, added: 75%, of: htb}", "76.00 % of htb's",
			"bars.yaml:3: case veths, workloads 5: added of fair+sfq is 1064 ns, 76.00 % of htb's 1400 ns, expected at most 75.00 %"},
		{"{case: veths, scheduler: fair, added: 1040ns}", "1050 ns",
			"bars.yaml:3: case veths, workloads 5: added of fair is 1050 ns, expected at most 1040 ns"},
		{"{case: one, scheduler: fair, added: 100%, of: htb}", "",
			"bars.yaml:3: case one, workloads 1: added of htb was not measured, of which fair is to be at most 100.00 %\n" +
				"bars.yaml:3: case one, workloads 1000: added of htb was not measured, of which fair is to be at most 100.00 %"},
		{"{case: veths, scheduler: qcon, added: 75%, of: htb}", "", "bars.yaml:3: added of qcon was not measured"},
		{"{case: all, scheduler: fair, flat: 10%}", "9.9 % (990 ns to 1088 ns)", ""},
		{"{case: all, scheduler: fair, flat: 9%}", "9.9 % (990 ns to 1088 ns)",
			"bars.yaml:3: all: added of fair is 990 ns with 10 workloads and 1088 ns with 100, 9.9 % more, expected at most 9.00 %"},
		{"{scheduler: fair, flat: 10%}", "20.0 % (1000 ns to 1200 ns)",
			"bars.yaml:3: one: added of fair is 1000 ns with 1 workloads and 1200 ns with 1000, 20.0 % more, expected at most 10.00 %"},
		{"{case: veths, scheduler: fair, flat: 10%}", "", "bars.yaml:3: veths: there are no two numbers of workloads to compare"},
		{"{case: one, workloads: 1, scheduler: fair, added: 1us}", "1000 ns", ""},
	}
	for _, tt := range tests {
		s := parse(t, "cost: {schedulers: [htb, fair, qcon]}\nexpect:\n  - "+tt.expect)
		s.File = "bars.yaml"
		got := JudgeBars(s, s.Cost.Schedulers, cost().Figures())
		if len(got) != 1 {
			t.Fatalf("%s: %d verdicts", tt.expect, len(got))
		}
		if f := strings.Join(got[0].Failures, "\n"); f != tt.failures || got[0].Figure != tt.figure {
			t.Errorf("%s: figure %q, failures\n%s\nwant %q\n%s", tt.expect, got[0].Figure, f, tt.figure, tt.failures)
		}
	}
}

func TestBarsOfTiming(t *testing.T) {
	r := &TimingResult{Rows: []TimingRow{
		{Scheduler: "fair", Packets: 9, LateP99: 1.1, RateError: -0.002},
		{Scheduler: "fair", Packets: 9, Busy: true, LateP99: 25},
		{Scheduler: "fq", Packets: 9, LateP99: 10},
		{Scheduler: "fq", Packets: 9, Busy: true, LateP99: 20},
		{Scheduler: "tbf"}, // nothing arrived
	}}
	s := parse(t, `timing: {schedulers: [fair, fq, tbf]}
expect:
  - {scheduler: fair, cpus: idle, late_p99: 2us}
  - {scheduler: fair, late_p99: 20us, rate_error: 0.1%}
  - {scheduler: fair, late_p99: 100%, of: fq}
  - {scheduler: tbf, late_p50: 1us}`)
	got := strings.Join(verdict.Failures(JudgeBars(s, s.Timing.Schedulers, r.Figures())), "\n")
	want := `test.yaml:4: cpus busy: late_p99 of fair is 25000 ns, expected at most 20000 ns
test.yaml:4: cpus idle: rate_error of fair is 0.200 %, expected at most 0.100 %
test.yaml:5: cpus busy: late_p99 of fair is 25000 ns, 125.00 % of fq's 20000 ns, expected at most 100.00 %
test.yaml:6: late_p50 of tbf was not measured`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// CPU time is compared phase by phase, only if it was measured exactly, and only
// between schedulers that were run.
func TestBarsOfCPU(t *testing.T) {
	s := parse(t, `link: {bandwidth: 100mbit}
workloads: {a: {traffic: [{tcp: {}}]}}
beside: [qcon, htb]
phases: [{for: 3s}, {for: 3s}]
expect:
  - {scheduler: fair, cpu_per_packet: 60%, of: htb}
  - {scheduler: fair, phase: 1, cpu: 100%, of: htb}
  - {scheduler: qcon, cpu_per_packet: 10us}
`)
	if !s.CountsCPU() {
		t.Error("the file does not have CPU time measured exactly")
	}
	result := func(scheduler string, exact bool, ns ...float64) *Result {
		r := &Result{Scheduler: scheduler}
		for i, v := range ns {
			cpu := v / 1e5
			r.Phases = append(r.Phases, Phase{Number: i + 1, Link: Link{CPU: &cpu, CPUExact: exact, CPUNsPerPacket: &v}})
		}
		return r
	}
	rows := append(result("fair", true, 15000, 19000).Figures(), result("htb", true, 30000, 30000).Figures()...)
	if list := result("fair", false, 1).Figures(); list != nil {
		t.Errorf("what /proc/stat says is compared: %v", list)
	}
	verdicts := JudgeBars(s, []string{"fair", "htb"}, rows)
	want := "test.yaml:6: phase 2: cpu_per_packet of fair is 19000 ns, 63.33 % of htb's 30000 ns, expected at most 60.00 %"
	if got := strings.Join(verdict.Failures(verdicts), "\n"); got != want || len(verdicts) != 2 || verdicts[1].Figure != "50.00 % of htb's" {
		t.Errorf("%d verdicts, failures\n%s\nwant\n%s", len(verdicts), got, want)
	}
	if got := verdict.Failures(JudgeBars(s, []string{"qcon"}, nil)); len(got) != 1 || !strings.Contains(got[0], "cpu_per_packet of qcon was not measured") {
		t.Errorf("nothing was measured: %q", got)
	}
}

// Requests and round trips of a flow or a workload are compared phase by phase: requests
// are to be at least, round trips at most, the limit.
func TestBarsOfFlows(t *testing.T) {
	const head = `link: {bandwidth: 100mbit}
workloads: {a: {traffic: [{tcp_crr: {size: 200, answer: 2000, port: 7001}}, {ping: {}}, {tcp: {}}]}, b: {traffic: [{tcp: {}}]}}
beside: [htb, cake]
expect:
  - `
	result := func(scheduler string, requests, p50, mean float64) *Result {
		flows := []Flow{
			{Workload: "a", Flow: "tcp_crr:7001", RTT: RTT{P50: &p50}, Transactions: &requests},
			{Workload: "a", Flow: "tcp_crr:7002", Transactions: ptr(requests / 2)}, // the workload's row decides
			{Workload: "a", Flow: "ping", RTT: RTT{Mean: &mean, Most: ptr(2 * mean)}},
			{Workload: "a", Flow: "tcp"},
		}
		return &Result{Scheduler: scheduler, Phases: []Phase{{Number: 1, Workloads: []Workload{{Workload: "a", Flows: flows, Transactions: &requests}, {Workload: "b"}}}}}
	}
	var rows []Figures
	for _, r := range []*Result{result("fair", 900, 1.0, 0.150), result("htb", 850, 1.05, 0.155), result("cake", 950, 0.9, 0.084)} {
		rows = append(rows, r.Figures()...)
	}
	for _, tt := range []struct{ expect, figure, failures string }{
		{"{scheduler: fair, workload: a, flow: tcp_crr:7001, requests: 100%, of: htb}", "105.88 % of htb's", ""},
		{"{scheduler: fair, workload: a, flow: tcp_crr:7001, requests: 100%, of: cake}", "94.74 % of cake's",
			"bars.yaml:5: flow tcp_crr:7001, phase 1, workload a: requests of fair is 900/s, 94.74 % of cake's 950/s, expected at least 100.00 %"},
		{"{scheduler: fair, workload: a, requests: 850}", "900/s", ""},
		{"{scheduler: fair, workload: a, flow: tcp_crr:7001, rtt_p50: 100%, of: cake}", "111.11 % of cake's",
			"bars.yaml:5: flow tcp_crr:7001, phase 1, workload a: rtt_p50 of fair is 1000 us, 111.11 % of cake's 900 us, expected at most 100.00 %"},
		{"{scheduler: fair, workload: a, flow: ping, rtt_mean: 160us}", "150 us", ""},
		{"{scheduler: fair, workload: a, flow: ping, rtt_most: 0.2ms}", "300 us",
			"bars.yaml:5: flow ping, phase 1, workload a: rtt_most of fair is 300 us, expected at most 200 us"},
		{"{scheduler: fair, workload: a, flow: tcp, rtt_mean: 1ms}", "", "bars.yaml:5: rtt_mean of fair was not measured"},
		{"{scheduler: fair, workload: b, requests: 1}", "", "bars.yaml:5: requests of fair was not measured"},
	} {
		s := parse(t, head+tt.expect)
		s.File = "bars.yaml"
		got := JudgeBars(s, s.AllSchedulers(), rows)
		if len(got) != 1 {
			t.Fatalf("%s: %d verdicts", tt.expect, len(got))
		}
		if f := strings.Join(got[0].Failures, "\n"); f != tt.failures || got[0].Figure != tt.figure {
			t.Errorf("%s: figure %q, failures\n%s\nwant %q\n%s", tt.expect, got[0].Figure, f, tt.figure, tt.failures)
		}
	}
}

// A workload whose packets are not marked for 200 ms of nine seconds has its mean off by less than
// 5 % of what it should be, and the windows in between show it.
func TestADropOfAMomentIsSeen(t *testing.T) {
	const text = `link: {bandwidth: 100mbit}
workloads: {a: {weight: 1, traffic: [{tcp: {}}]}, b: {weight: 3, traffic: [{tcp: {}}]}}
expect: [{rate: ideal, within: 5%}, {steady: 5%}]
`
	s := parse(t, text)
	for _, c := range []struct {
		unmarked time.Duration
		want     string
	}{
		{0, ""},
		{200 * time.Millisecond, "test.yaml:3: phase 1, link: a rate is off in some window by 50.000 %, expected at most 5.000 %"},
		{10 * time.Millisecond, ""}, // a tenth of a window of a half of the link
	} {
		rates := func(w int, at time.Duration) float64 {
			rate := []float64{25e6, 75e6}[w]
			if at >= 4*time.Second && at < 4*time.Second+c.unmarked {
				rate = []float64{75e6, 25e6}[w]
			}
			return rate
		}
		m := Measurement{Scheduler: "fair", Backend: "bpf", Timeline: received(s, rates)}
		for i := range s.Flows() {
			m.Reports = append(m.Reports, traffic.FlowReport{Flow: i})
		}
		if got := strings.Join(Evaluate(s, m).Failures, "\n"); got != c.want {
			t.Errorf("unmarked for %v: %q, want %q", c.unmarked, got, c.want)
		}
	}
}

// A verdict says what was measured, whether its condition holds or not.
func TestVerdictsOfPhases(t *testing.T) {
	s := parse(t, file+`expect:
  - {phase: 1, workload: a, rate: ideal, within: 1%}
  - {phase: 1, workload: a, rate: 39.2mbit, within: 1%}
  - {bounds: held, within: 1%}
  - {workload: p, rtt_p99: 1ms}
  - {utilisation: 99%}
  - {reaction: 40ms}
  - {scheduler: htb, utilisation: 99%}
  - {phase: 1, steady: 5%}
`)
	verdicts := Evaluate(s, measurement(s)).Verdicts
	file := filepath.Join(t.TempDir(), "verdicts")
	if err := verdict.Add(file, verdicts); err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var v verdict.Verdict
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		held := "no"
		if v.Holds {
			held = "yes"
		}
		got = append(got, v.Check+" "+v.Scheduler+": "+v.Figure+", "+held)
	}
	want := "rate fair: +0.100 %, yes\nrate fair: +2.041 %, no\nbounds fair: held, yes\nrtt_p99 fair: 249µs, yes\n" +
		"utilisation fair: 100.040 %, yes\nreaction fair: 250ms, no\nsteady fair: 0.040 %, yes"
	if g := strings.Join(got, "\n"); g != want {
		t.Errorf("got\n%s\nwant\n%s", g, want)
	}
}
