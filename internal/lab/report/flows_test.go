// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"weir/internal/lab/scenario"
	"weir/internal/lab/traffic"
)

const insideFile = `name: inside
link: {bandwidth: 8mbit}
workloads:
  a:
    discipline: pq
    queues: {voice: {match: [{udp: 5001}]}, rest: {}}
    traffic: [{udp: {rate: 5mbit, port: 5001}}, {udp: {rate: 9mbit, port: 5002}}, {tcp_rr: {}}]
  b: {traffic: [{ping: {}}]}
phases: [{for: 3s}]
expect:
  - {workload: a, flow: "udp:5001", rate: ideal, within: 1%, jitter: 1ms, loss: 0%}
  - {workload: a, queue: rest, rate: 3mbit, within: 1%, loss: 60%}
  - {workload: a, queue: rest, jitter: 1ms}
  - {workload: a, queue: rest, rtt_p99: 8ms}
  - {workload: a, flow: "udp:5001", queue: rest, phase: 1, loss: 1%}
  - {workload: a, jitter: 2ms}
`

// insideMeasured: 5 Mbit/s of voice, 3 of the rest; rows of the workloads first.
func insideMeasured(s *scenario.Scenario) Measurement {
	m := Measurement{Scheduler: "fair", Backend: "bpf"}
	row := func(bps float64) {
		var bytes, packets []uint64
		for range int(s.Duration() / scenario.Bucket) {
			bytes, packets = append(bytes, uint64(bps/800)), append(packets, 1)
		}
		m.Timeline.Bytes, m.Timeline.Packets = append(m.Timeline.Bytes, bytes), append(m.Timeline.Packets, packets)
		m.Timeline.Payload = append(m.Timeline.Payload, bytes)
	}
	for _, bps := range []float64{8e6, 0, 5e6, 3e6, 0, 0} {
		row(bps)
	}
	for i, f := range s.Flows() {
		r := traffic.FlowReport{Flow: i}
		in := traffic.IperfInterval{To: 3 * time.Second, Packets: 1000, Jitter: 200 * time.Microsecond}
		switch f.Name {
		case "udp:5002":
			in.Lost, in.Jitter = 700, 4*time.Millisecond
			fallthrough
		case "udp:5001":
			r.Intervals = []traffic.IperfInterval{in}
		case "tcp_rr":
			r.RR = &traffic.RR{P50: time.Millisecond, P99: 9 * time.Millisecond, Rate: 500}
		}
		m.Reports = append(m.Reports, r)
	}
	return m
}

func TestFlowsAndQueues(t *testing.T) {
	s := parse(t, insideFile)
	r := Evaluate(s, insideMeasured(s))
	want := []string{
		"test.yaml:12: phase 1, a queue rest: loss 70.000 %, expected at most 60.000 %",
		"test.yaml:13: phase 1, a queue rest: jitter 4ms, expected at most 1ms",
		"test.yaml:14: phase 1, a queue rest: rtt p99 9ms, expected at most 8ms",
		"test.yaml:15: phase 1, a udp:5001: sends nothing in this phase, or into another queue",
		"test.yaml:16: phase 1, a: jitter 2.1ms, expected at most 2ms",
	}
	if got := strings.Join(r.Failures, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got:\n%s", got)
	}
	var b strings.Builder
	if err := Table(&b, r); err != nil {
		t.Fatal(err)
	}
	golden(t, "inside.txt", b.String())
	b.Reset()
	if err := JSON(&b, r); err != nil {
		t.Fatal(err)
	}
	var a struct {
		Flows []struct {
			Queue, Flow string
			RateBps     *float64 `json:"rate_bps"`
		}
	}
	line, _, _ := strings.Cut(b.String(), "\n")
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Flows) != 3 || a.Flows[0].Queue != "voice" || *a.Flows[0].RateBps != 5e6 || a.Flows[2].Flow != "tcp_rr" || a.Flows[2].RateBps != nil {
		t.Errorf("flows: %s", line)
	}
}

// Where a workload has one entry, all that it sends is that entry's.
func TestTheOnlyFlowIsTheWorkload(t *testing.T) {
	s := parse(t, file)
	for _, w := range Evaluate(s, measurement(s)).Phases[0].Workloads {
		if len(w.Flows) != 1 || *w.Flows[0].RateBps != w.RateBps {
			t.Errorf("%s: %+v", w.Workload, w.Flows)
		}
	}
}

// A udp flow whose client takes 700 ms to get through: what iperf3 says about its
// first second is about the one from then on.
func TestIntervalsCountFromTheFirstDatagram(t *testing.T) {
	s := parse(t, "link: {bandwidth: 8mbit}\nsettle: 500ms\nworkloads: {a: {traffic: [{udp: {rate: 5mbit}}]}}\nphases: [{for: 2s}, {for: 2s}]\n")
	m := Measurement{Scheduler: "fair"}
	row := make([]uint64, 400)
	row[20] = 46 // the greeting
	for b := 70; b < 400; b++ {
		row[b] = 2500
	}
	m.Timeline.Bytes, m.Timeline.Packets = [][]uint64{row, row}, [][]uint64{row, row}
	m.Reports = []traffic.FlowReport{{Intervals: []traffic.IperfInterval{
		{To: 1300 * time.Millisecond, Packets: 100, Lost: 100, Jitter: time.Millisecond},
		{From: 1300 * time.Millisecond, To: 3 * time.Second, Packets: 100, Jitter: time.Millisecond},
	}}}
	r := Evaluate(s, m)
	if first, second := *r.Phases[0].Workloads[0].Loss, *r.Phases[1].Workloads[0].Loss; first != 1 || second != 0 {
		t.Errorf("loss %v and %v, want all of the first phase's and none of the second's", first, second)
	}
	if m.Reports[0].Intervals[0].From != 0 {
		t.Error("the measurement itself was changed")
	}
}

// The demand of a request-response flow does not have the bulk flow's bytes in it.
func TestDemandOfOneThatWaitsBesideABulkFlow(t *testing.T) {
	s := parse(t, "link: {bandwidth: 8mbit}\nworkloads: {a: {traffic: [{tcp_rr: {port: 7000}}, {tcp: {start: 2s}}]}}\nphases: [{for: 2s}, {for: 2s}]\n")
	row := func(before, after uint64) (list []uint64) {
		for b := range 400 {
			list = append(list, []uint64{before, after}[b/200])
		}
		return list
	}
	m := Measurement{Scheduler: "fair"}
	m.Timeline.Bytes = [][]uint64{row(100, 10000), row(100, 100), row(0, 9900)}
	m.Timeline.Packets = m.Timeline.Bytes
	// 100 bytes in 10 ms for 4 s, counted over the two seconds that are measured.
	if got := Evaluate(s, m).Phases[0].Workloads[0].IdealBps; got != 160e3 {
		t.Errorf("ideal %v, want 160 kbit/s", got)
	}
}

// A workload with several netperfs has the transactions of all of them, and the longest
// round trips; it had those of the last one.
func TestTransactionsOfSeveral(t *testing.T) {
	s := parse(t, `name: several
link: {bandwidth: 8mbit}
workloads:
  a: {traffic: [{tcp_crr: {port: 7001}}, {tcp_crr: {port: 7002}}]}
phases: [{for: 3s}]
`)
	m := insideMeasured(s)
	m.Reports = []traffic.FlowReport{
		{Flow: 0, RR: &traffic.RR{P50: 2 * time.Millisecond, P99: 9 * time.Millisecond, Mean: 3 * time.Millisecond, Most: 10 * time.Millisecond, Rate: 500}},
		{Flow: 1, RR: &traffic.RR{P50: time.Millisecond, P99: 12 * time.Millisecond, Mean: time.Millisecond, Most: 12 * time.Millisecond, Rate: 700}},
	}
	p := Evaluate(s, m).Phases[0]
	a := p.Workloads[0]
	if got := *a.Transactions; got != 1200 {
		t.Errorf("%v transactions a second, want those of both, 1200", got)
	}
	if *a.RTT.P50 != 2 || *a.RTT.P99 != 12 || *a.RTT.Mean != 3 || *a.RTT.Most != 12 {
		t.Errorf("round trips %v, %v, %v, %v ms; want the longest of each", *a.RTT.P50, *a.RTT.P99, *a.RTT.Mean, *a.RTT.Most)
	}
	for i, want := range []float64{500, 700} {
		if got := *a.Flows[i].Transactions; got != want {
			t.Errorf("flow %d has %v, want %v", i, got, want)
		}
	}
}
