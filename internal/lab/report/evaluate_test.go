// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/lab/meter"
	"weir/internal/lab/scenario"
	"weir/internal/lab/traffic"
	"weir/internal/test/goldentest"
)

const file = `name: two and a ping
link: {bandwidth: 100mbit}
workloads:
  a: {weight: 1, traffic: [{tcp: {}}]}
  b: {weight: 3, max: 60mbit, traffic: [{udp: {rate: 200mbit}}]}
  p: {traffic: [{ping: {}}]}
phases:
  - {for: 3s}
  - {for: 3s, set: {b: {traffic: off}}}
paper: {source: somewhere, rates: [{a: 39}]}
`

func parse(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// received makes a timeline: rate(w, t) in bits per second for the bucket that
// begins at t, in frames of 1250 bytes, of which 1000 are payload.
func received(s *scenario.Scenario, rate func(w int, at time.Duration) float64) meter.Timeline {
	var t meter.Timeline
	n := int(s.Duration() / scenario.Bucket)
	for w := range s.Workloads {
		bytes, packets := make([]uint64, n), make([]uint64, n)
		for b := range n {
			bytes[b] = uint64(rate(w, time.Duration(b)*scenario.Bucket) / 8 * scenario.Bucket.Seconds())
			packets[b] = bytes[b] / 1250
		}
		t.Bytes, t.Packets = append(t.Bytes, bytes), append(t.Packets, packets)
	}
	t.Payload = payload(s, func(w int, at time.Duration) float64 { return rate(w, at) * 0.8 })
	return t
}

// payload makes the timeline of what the programs read: rate(w, t) in bits per second.
func payload(s *scenario.Scenario, rate func(w int, at time.Duration) float64) (rows [][]uint64) {
	for w := range s.Workloads {
		row := make([]uint64, int(s.Duration()/scenario.Bucket))
		for b := range row {
			row[b] = uint64(rate(w, time.Duration(b)*scenario.Bucket) / 8 * scenario.Bucket.Seconds())
		}
		rows = append(rows, row)
	}
	return rows
}

// steady is what the contract gives, with b stopping 200 ms late and a taking
// another 50 ms to notice.
func steady(w int, at time.Duration) float64 {
	late, noticed := 3200*time.Millisecond, 3250*time.Millisecond
	switch {
	case w == 0 && at < noticed:
		return 40e6
	case w == 0:
		return 100e6
	case w == 1 && at < late:
		return 60e6
	case w == 2:
		return 40e3
	}
	return 0
}

func measurement(s *scenario.Scenario) Measurement {
	drops, cpu := uint64(17), 0.25
	m := Measurement{
		Scheduler: "fair", Backend: "bpf", Timeline: received(s, steady),
		Phases: []Account{{Drops: &drops, CPU: &cpu, CPUExact: true, CPUs: 1}, {CPU: &cpu, CPUs: 1}},
	}
	for i, f := range s.Flows() {
		r := traffic.FlowReport{Flow: i}
		for at := f.From; at < f.To; at += 500 * time.Millisecond {
			in := traffic.IperfInterval{From: at, To: at + 500*time.Millisecond}
			switch f.Kind {
			case scenario.TCP:
				in.Retransmits = 2
			case scenario.UDP:
				in.Packets, in.Lost, in.Jitter = 100, 5, 300*time.Microsecond
			}
			if f.Kind != scenario.Ping {
				r.Intervals = append(r.Intervals, in)
			}
		}
		if f.Kind == scenario.Ping {
			for n := range 250 { // every 20 ms, one in ten unanswered, 1 to 250 us
				if n%10 != 9 {
					r.Pings = append(r.Pings, traffic.Ping{At: time.Duration(n) * 20 * time.Millisecond, Seq: n, RTT: time.Duration(n+1) * time.Microsecond})
				}
			}
		}
		m.Reports = append(m.Reports, r)
	}
	return m
}

func TestEvaluate(t *testing.T) {
	s := parse(t, file)
	r := Evaluate(s, measurement(s))
	first, a, b, p := r.Phases[0], r.Phases[0].Workloads[0], r.Phases[0].Workloads[1], r.Phases[0].Workloads[2]
	check := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > math.Abs(want)/1e3+1e-9 {
			t.Errorf("%s = %v, want %v", what, got, want)
		}
	}
	check("a's rate", a.RateBps, 40e6)
	check("a's ideal", a.IdealBps, 40e6-p.IdealBps)
	check("a's error", a.Error, (a.RateBps-a.IdealBps)/100e6)
	check("a's goodput", *a.GoodputBps, 32e6)
	if p.GoodputBps != nil {
		t.Errorf("a ping has a goodput of %v", *p.GoodputBps)
	}
	check("a's retransmits", float64(*a.Retransmits), 8)
	check("a in the paper", *a.PaperBps, 39e6)
	check("b's ideal", b.IdealBps, 60e6)
	check("b's loss", *b.Loss, 0.05)
	check("b's jitter", *b.JitterMs, 0.3)
	check("p's ideal is what it sent", p.IdealBps, p.RateBps)
	check("p's median", *p.RTT.P50, 0.099)
	check("p's 99th percentile", *p.RTT.P99, 0.149)
	check("p's loss", *p.Loss, 1-90.0/99) // the last unanswered one may still be under way
	check("link", first.Link.RateBps, 100.04e6)
	check("utilisation", first.Link.Utilisation, 1.0004)
	check("Jain", *first.Link.Jain, 1)
	check("drops", float64(*first.Link.Drops), 17)
	check("CPU per packet", *first.Link.CPUNsPerPacket, 0.25*2e9/float64(first.Link.Packets))
	check("CPU per gigabyte", *first.Link.CPUSPerGbyte, 0.25/(100.04e6/8/1e9))
	if first.Link.ReactionMs != nil {
		t.Errorf("the beginning has a reaction of %v ms", *first.Link.ReactionMs)
	}
	if got := r.Phases[1].Link.ReactionMs; got == nil || *got < 240 || *got > 260 {
		t.Errorf("reaction to b's end = %v, want about 250 ms after b was stopped", got)
	}
	if r.Phases[1].Link.Drops != nil {
		t.Error("drops that nobody counted are reported")
	}
}

// TestReaction: what the workloads get is known, so the time is too. b's max of
// 60 goes down to 20 at 3 s; a takes what it leaves, after a while, for ever or
// in bursts as qcon's are.
func TestReaction(t *testing.T) {
	const text = `link: {bandwidth: 100mbit}
workloads:
  a: {traffic: [{tcp: {}}]}
  b: {weight: 9, max: 60mbit, traffic: [{tcp: {}}]}
phases:
  - {for: 3s}
  - {for: 3s, set: {b: {max: 20mbit}}}
expect: [{phase: 2, reaction: 200ms}]
`
	const never = 5 * time.Second
	// Twice a period's bytes in its first half, none in the second.
	bursts := func(bps float64, at time.Duration) float64 {
		if at%(30*time.Millisecond) >= 20*time.Millisecond {
			return 0
		}
		return bps * 1.5
	}
	level := func(bps float64, _ time.Duration) float64 { return bps }
	tests := []struct {
		name, scheduler string
		shape           func(bps float64, at time.Duration) float64
		after           time.Duration // that the shares change
		lapse           time.Duration // at which, after the change, they are the old ones again for 50 ms
		want            float64       // ms
		failure         string
	}{
		{"at once", "fair", level, 0, never, 0, ""},
		{"in 150 ms", "fair", level, 150 * time.Millisecond, never, 150, ""},
		{"in 400 ms", "fair", level, 400 * time.Millisecond, never, 400, "link: reaction"},
		{"a relapse counts", "fair", level, 0, 2 * time.Second, 2050, "link: reaction"},
		{"never", "fair", level, never, never, -1, "link: the new shares never hold, expected within 200ms"},
		{"bursts, at once", "qcon", bursts, 0, never, 0, ""},
		{"bursts, in 150 ms", "qcon", bursts, 150 * time.Millisecond, never, 150, ""},
		{"bursts, in 400 ms", "qcon", bursts, 400 * time.Millisecond, never, 400, "link: reaction"},
		{"bursts, a relapse counts", "qcon", bursts, 0, 2 * time.Second, 2050, "link: reaction"},
		{"bursts, never", "qcon", bursts, never, never, -1, "link: the new shares never hold, expected within 200ms"},
		{"bursts of one that has no period", "fair", bursts, 0, never, -1, "link: the new shares never hold, expected within 200ms"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := parse(t, text)
			r := Evaluate(s, Measurement{Scheduler: tt.scheduler, Timeline: received(s, func(w int, at time.Duration) float64 {
				since := at - 3*time.Second
				lapsed := since >= tt.lapse && since < tt.lapse+50*time.Millisecond
				if since >= tt.after && !lapsed {
					return tt.shape([]float64{80e6, 20e6}[w], at)
				}
				return tt.shape([]float64{40e6, 60e6}[w], at)
			})})
			// A window of w that is wrong by 40 % of the link holds while less than
			// an eighth of it is.
			early := float64(ReactionWindow(tt.scheduler)/time.Millisecond) / 8
			got := r.Phases[1].Link.ReactionMs
			switch {
			case tt.want < 0 && got != nil:
				t.Errorf("reaction %v ms although the shares never hold", *got)
			case tt.want >= 0 && got == nil:
				t.Error("no reaction was seen")
			case tt.want >= 0 && (*got > tt.want || *got < tt.want-early-10):
				t.Errorf("reaction %v ms, want %v", *got, tt.want)
			}
			failures := strings.Join(r.Failures, "\n")
			if tt.failure == "" && failures != "" || !strings.Contains(failures, tt.failure) {
				t.Errorf("failures %q, want %q", failures, tt.failure)
			}
		})
	}
}

// TestReactionCountsFromTheGenerator: what a scheduler withholds from a newcomer, or goes
// on giving to one that was stopped, is time that it takes.
func TestReactionCountsFromTheGenerator(t *testing.T) {
	const text = "link: {bandwidth: 100mbit}\nworkloads: {a: {weight: %d, traffic: [{tcp: {}}]}, b: {traffic: [{tcp: {%s}}]}}\nphases: [{for: 4s}]\nexpect: [{phase: 1, reaction: 100ms}]"
	const joins, leaves = "start: 2s", "stop: 2s"
	tests := []struct {
		name   string
		weight int // of a; b's is 1
		when   string
		late   time.Duration // that b's rate changes
		want   float64       // ms
	}{
		{"a newcomer at once", 1, joins, 0, 0},
		{"a newcomer starved", 1, joins, 900 * time.Millisecond, 900},
		{"a small newcomer starved", 39, joins, 900 * time.Millisecond, 900},
		{"one that leaves at once", 1, leaves, 0, 0},
		{"one that leaves and is still served", 1, leaves, 900 * time.Millisecond, 900},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := parse(t, fmt.Sprintf(text, tt.weight, tt.when))
			share := 100e6 / float64(tt.weight+1)
			m := Measurement{Scheduler: "fair", Timeline: received(s, func(w int, at time.Duration) float64 {
				rates := []float64{100e6, 0}
				if at >= 2*time.Second+tt.late == (tt.when == joins) {
					rates = []float64{100e6 - share, share}
				}
				return rates[w]
			})}
			r := Evaluate(s, m)
			got := r.Phases[0].Link.ReactionMs
			// A window that is wrong for a part of it may still hold.
			if got == nil || *got > tt.want || *got < tt.want-60 {
				t.Fatalf("reaction %v, want %v ms", value(got), tt.want)
			}
			if slow := len(r.Failures) > 0; slow != (tt.late > 0) {
				t.Errorf("failures %q", r.Failures)
			}
			// Nor does the ideal wait: b is due its share from when its generator
			// starts (measured from 1 s on).
			if ideal, due := r.Phases[0].Workloads[1].IdealBps, map[string]float64{joins: 2, leaves: 1}[tt.when]; math.Abs(ideal-share*due/3) > 1e3 {
				t.Errorf("ideal %v, want %v", ideal, share*due/3)
			}
		})
	}
}

func TestExpectations(t *testing.T) {
	tests := []struct{ name, expect, failure string }{
		{"holds", "{phase: 1, workload: a, rate: 40mbit, within: 1%}", ""},
		{"rate off", "{phase: 1, workload: a, rate: 50mbit, within: 2%}",
			"test.yaml:12: phase 1, a: rate 40 Mbit/s, expected 50 Mbit/s within 1 Mbit/s, off by 10 Mbit/s"},
		{"every phase", "{workload: b, rate: 60mbit, within: 1mbit}", "phase 2, b: rate 0 bit/s, expected 60 Mbit/s"},
		{"ideal of all", "{phase: 1, rate: ideal, within: 100kbit}", ""},
		{"ideal with b gone", "{phase: 2, workload: a, rate: ideal, within: 100kbit}", ""},
		{"meant for another scheduler", "{scheduler: qcon, phase: 1, workload: a, rate: 1mbit, within: 1%}", ""},
		{"bounds", "{phase: 1, bounds: held, within: 100kbit}", ""},
		{"utilisation", "{phase: 1, utilisation: 99%}", ""},
		{"latency", "{phase: 1, workload: p, rtt_p99: 0.1ms}", "phase 1, p: rtt p99 149µs, expected at most 100µs"},
		{"latency of one that has none", "{phase: 1, workload: a, rtt_p50: 1ms}", "a: rtt p50 was not measured"},
		{"latency of all skips those without", "{phase: 1, rtt_p50: 1ms}", ""},
		{"loss", "{phase: 1, workload: b, loss: 1%}", "b: loss 5.000 %, expected at most 1.000 %"},
		{"drops", "{phase: 1, drops: 16}", "link: drops 17, expected at most 16"},
		{"drops not counted", "{phase: 2, drops: 0}", "link: drops was not measured"},
		{"own margin", "{phase: 1, bounds: held, within: 1%}", ""},
		{"the goodput is what the wire carries", "{phase: 1, workload: a, goodput: wire, within: 1%}", "a: goodput: rate 32 Mbit/s, expected 37.9 Mbit/s"},
		{"overshoot of all where none is measured", "{overshoot: 5%}", "test.yaml:12: overshoot: nothing was measured that this is about"},
		{"settling of all where none is measured", "{settle: 5s}", "test.yaml:12: settle: nothing was measured that this is about"},
		{"ideal of one that sends nothing", "{phase: 2, workload: b, rate: ideal, within: 1%}", "test.yaml:12: rate: nothing was measured that this is about"},
		{"loss of all where one should be", "{phase: 2, loss: 10%}", ""},
		{"reaction", "{phase: 2, reaction: 10ms}", "link: reaction"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := parse(t, file+"expect:\n  - "+tt.expect)
			got := strings.Join(Evaluate(s, measurement(s)).Failures, "\n")
			if tt.failure == "" && got != "" || !strings.Contains(got, tt.failure) {
				t.Errorf("got %q, want %q", got, tt.failure)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	s := parse(t, "link: {bandwidth: 100mbit}\nworkloads:\n  a: {min: 50mbit, traffic: [{tcp: {}}]}\n  b: {max: 10mbit, traffic: [{tcp: {}}]}\n"+
		"phases: [{for: 3s}]\nexpect: [{bounds: held, within: 1mbit}]")
	m := Measurement{Timeline: received(s, func(w int, _ time.Duration) float64 { return []float64{45e6, 12e6}[w] })}
	got := strings.Join(Evaluate(s, m).Failures, "\n")
	for _, want := range []string{"a: rate 45 Mbit/s is below its min of 50 Mbit/s", "b: rate 12 Mbit/s is above its max of 10 Mbit/s"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
}

// TestNothingMeasured: an expectation needs something that it is about.
func TestNothingMeasured(t *testing.T) {
	const quiet = "link: {bandwidth: 100mbit}\nworkloads: {a: {traffic: [{tcp: {}}]}, p: {traffic: [{ping: {}}]}}\n" +
		"phases: [{for: 3s}, {for: 3s, set: {a: {traffic: off}}}]\nexpect: ["
	nobody := func(int, time.Duration) float64 { return 0 }
	for _, tt := range []struct{ expect, failure string }{
		{"{drops: 0}", "drops: nothing was measured that this is about"},
		{"{phase: 2, bounds: held, within: 1mbit}", "bounds: nothing was measured"},
		{"{phase: 2, rate: ideal, within: 1mbit}", "rate: nothing was measured"},
		{"{rtt_p99: 1ms}", "p: rtt p99 was not measured"},
		{"{recovery: 1s}", "recovery: nothing was measured"},
		{"{jitter: 1ms}", "p: jitter was not measured"},
	} {
		s := parse(t, quiet+tt.expect+"]")
		none := uint64(0)
		m := Measurement{Scheduler: "fair", Timeline: received(s, nobody), Phases: []Account{{Drops: &none}, {Drops: &none}}}
		if got := strings.Join(Evaluate(s, m).Failures, "\n"); !strings.Contains(got, tt.failure) {
			t.Errorf("%s: %q, want %q", tt.expect, got, tt.failure)
		}
	}
}

// TestGeneratorFails: the run does, whatever is expected.
func TestGeneratorFails(t *testing.T) {
	s := parse(t, file+"expect: [{phase: 1, utilisation: 99%}]")
	m := measurement(s)
	if r := Evaluate(s, m); r.Failed() {
		t.Fatalf("%q %q", r.Failures, r.Problems)
	}
	m.Reports[2].Problem = "ping got no answer"
	if r := Evaluate(s, m); !r.Failed() || !slices.Equal(r.Problems, []string{"ping of p from 0s: ping got no answer"}) {
		t.Errorf("failed %v, problems %q", r.Failed(), r.Problems)
	}
}

// The keys of the public format, as documented.
func TestJSONKeys(t *testing.T) {
	s := parse(t, file)
	var b strings.Builder
	if err := JSON(&b, Evaluate(s, measurement(s))); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 2*(3+1) {
		t.Fatalf("%d lines, want one per phase and workload and one per phase", len(lines))
	}
	need := func(line string, keys ...string) {
		t.Helper()
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			if _, ok := object[k]; !ok {
				t.Errorf("key %s is missing in %s", k, line)
			}
		}
	}
	need(lines[0], "phase", "workload", "rate_bps", "ideal_bps", "error", "rtt_ms", "jitter_ms", "loss", "retransmits",
		"goodput_bps", "scenario", "scheduler", "backend")
	need(lines[3], "phase", "rate_bps", "utilisation", "cpu", "jain", "reaction_ms", "reaction_window_ms", "link", "scenario", "scheduler", "backend")
	if !strings.Contains(lines[2], `"rtt_ms":{"p50":0.099`) || !strings.Contains(lines[0], `"rtt_ms":{"p50":null,"p99":null}`) {
		t.Errorf("round trips: %s\n%s", lines[0], lines[2])
	}
}

func TestTable(t *testing.T) {
	s := parse(t, file+"expect:\n  - {phase: 1, workload: a, rate: 50mbit, within: 2%}\n")
	m := measurement(s)
	m.Notes = []string{"a note"}
	m.Reports[1].Problem = "the client's report is missing"
	r := Evaluate(s, m)
	var b strings.Builder
	if err := Table(&b, r); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.txt", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	goldentest.Check(t, filepath.Join("testdata", name), got)
}

func TestPlotWritesBothFormats(t *testing.T) {
	s := parse(t, file)
	s.File = "some dir/my scenario.yaml"
	base, err := Plot(filepath.Join(t.TempDir(), "new"), Evaluate(s, measurement(s)))
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Base(base) != "my-scenario-fair" {
		t.Errorf("base name %s", base)
	}
	svg, err := os.ReadFile(base + ".svg")
	if err != nil || !strings.Contains(string(svg), "two and a ping") {
		t.Errorf("the drawing has no title: %v", err)
	}
	png, err := os.ReadFile(base + ".png")
	if err != nil || !strings.HasPrefix(string(png), "\x89PNG") {
		t.Errorf("no PNG: %v", err)
	}
}

func TestQuantileIsANearestRank(t *testing.T) {
	values := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for q, want := range map[float64]float64{0.01: 1, 0.5: 5, 0.99: 10, 1: 10} {
		if got := *quantile(values, q); got != want {
			t.Errorf("quantile %v = %v, want %v", q, got, want)
		}
	}
	if !slices.IsSorted(values) {
		t.Error("values were moved")
	}
}

func TestCostTableAndJSON(t *testing.T) {
	c := &CostResult{Name: "cost", Packets: 1000, Size: 64, Rows: []CostRow{
		{Case: "veths", Scheduler: "htb", Backend: "kernel", Workloads: 5, Active: 5, NsPerPacket: 7400, BaseNs: 6000, Delivered: 1},
		{Case: "veths", Scheduler: "fair", Backend: "bpf", Workloads: 5, Active: 5, NsPerPacket: 6700, BaseNs: 6000, Delivered: 1},
		{Case: "throttled", Scheduler: "fair", Backend: "bpf", Workloads: 100, Active: 100, NsPerPacket: 9000, BaseNs: 6000, Delivered: 0.999},
	}}
	var table, lines strings.Builder
	if err := CostTable(&table, c); err != nil {
		t.Fatal(err)
	}
	golden(t, "cost.txt", table.String())
	if err := CostJSON(&lines, c); err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(lines.String(), "\n")[1]; !strings.Contains(got, `"added_ns":700,"of_htb":0.5`) {
		t.Errorf("fair: %s", got)
	}
}
