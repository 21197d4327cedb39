// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"slices"
	"time"

	"weir/internal/lab/scenario"
)

// Flow is what was measured of one traffic entry in one phase. Nil: not measured,
// or for IdealBps that the discipline promises it nothing by itself.
type Flow struct {
	Workload    string   `json:"workload"`
	Queue       string   `json:"queue,omitempty"` // "" = the discipline has no queues with rules
	Flow        string   `json:"flow"`
	RateBps     *float64 `json:"rate_bps"`
	IdealBps    *float64 `json:"ideal_bps"`
	Loss        *float64 `json:"loss"`
	JitterMs    *float64 `json:"jitter_ms"`
	RTT         RTT      `json:"rtt_ms"`
	GoodputBps  *float64 `json:"goodput_bps"`
	Retransmits *uint64  `json:"retransmits"`
	// Transactions of netperf, per second.
	Transactions *float64 `json:"transactions_per_s,omitempty"`
}

// Queue is what was measured of one queue in one phase: of its flows together, and
// of latency, jitter and loss the worst of them.
type Queue struct {
	Workload string   `json:"workload"`
	Queue    string   `json:"queue"`
	RateBps  *float64 `json:"rate_bps"`
	IdealBps *float64 `json:"ideal_bps"`
	Loss     *float64 `json:"loss"`
	JitterMs *float64 `json:"jitter_ms"`
	RTT      RTT      `json:"rtt_ms"`
}

// flowsOf are the results of a workload's traffic entries that sent in a phase.
func (e *evaluation) flowsOf(w, p int, span scenario.Span, whole Workload) []Flow {
	var list []Flow
	policy := e.s.Policies()[p][w]
	entries := e.s.Entries()
	for n, entry := range entries {
		if entry.Workload != w {
			continue
		}
		first, sends := scenario.Flow{}, false
		for _, f := range e.flows {
			if f.Entry == n && f.From < span.To && f.To > span.Measured {
				if !sends {
					first, sends = f, true
				}
			}
		}
		if !sends {
			continue
		}
		of := func(f scenario.Flow) bool { return f.Entry == n }
		x := e.traffic(span, of)
		r := Flow{
			Workload: whole.Workload, Flow: entry.Name,
			Loss: x.Loss, JitterMs: x.JitterMs, RTT: x.RTT, GoodputBps: e.meanGoodput(e.entryRows(w, n), span, of),
			Retransmits: x.Retransmits, Transactions: x.Transactions,
		}
		if !first.Kind.RR() { // it is known in the measured part only, and wants what it gets
			r.IdealBps = e.flowIdeal(n, span)
		}
		r.Queue = e.s.QueueName(policy, first)
		switch row := len(e.s.Workloads) + n; {
		case len(e.m.Timeline.Bytes) <= len(e.s.Workloads):
			r.RateBps = &whole.RateBps // it is the only one
		case first.Kind == scenario.Ping || first.Listen != 0:
			r.RateBps = ptr(e.rate(row, span.Measured, span.To))
		}
		list = append(list, r)
	}
	return list
}

// moveIntervals puts what iperf3 says about a udp flow to when its first datagram
// came: its client and server talk by TCP first, which takes some round trips of a
// link that may be full.
func (e *evaluation) moveIntervals() {
	for i, r := range e.m.Reports {
		f := e.flows[r.Flow]
		row := len(e.s.Workloads) + f.Entry
		if f.Kind != scenario.UDP || row >= len(e.m.Timeline.Bytes) {
			continue
		}
		late := e.firstDatagram(row, r.Began, f) - r.Began
		moved := slices.Clone(r.Intervals)
		for n := range moved {
			moved[n].From, moved[n].To = moved[n].From+late, moved[n].To+late
		}
		e.m.Reports[i].Intervals = moved
	}
}

// firstDatagram is when the first full datagram of a flow came, or when it began
// if none is seen. What comes before is iperf3's greeting of four bytes.
func (e *evaluation) firstDatagram(row int, began time.Duration, f scenario.Flow) time.Duration {
	counts := e.m.Timeline.Bytes[row]
	for b := int(began / scenario.Bucket); b < min(len(counts), int(f.To/scenario.Bucket)); b++ {
		if counts[b] >= uint64(f.Size) {
			return max(began, time.Duration(b)*scenario.Bucket)
		}
	}
	return began
}

// flowIdeal is the mean of what an entry should get over a window.
func (e *evaluation) flowIdeal(entry int, span scenario.Span) *float64 {
	return e.mean(span, func(st scenario.Stretch) float64 {
		sum, sends := 0.0, false
		for i, f := range e.flows {
			if f.Entry == entry && f.From <= st.From && f.To >= st.To {
				sum, sends = sum+st.Flows[i], true
			}
		}
		if !sends {
			return 0
		}
		return sum
	})
}

// mean of a figure of the stretches over a window, nil if it is not known in all.
func (e *evaluation) mean(span scenario.Span, of func(scenario.Stretch) float64) *float64 {
	sum, total := 0.0, time.Duration(0)
	for _, st := range e.stretch {
		if part := min(span.To, st.To) - max(span.Measured, st.From); part > 0 {
			sum += of(st) * float64(part)
			total += part
		}
	}
	if total == 0 || math.IsNaN(sum) {
		return nil
	}
	return ptr(sum / float64(total))
}

// queuesOf sums a workload's flows up by queue.
func (e *evaluation) queuesOf(w, p int, span scenario.Span, flows []Flow) []Queue {
	var list []Queue
	for q, named := range e.s.Policies()[p][w].Queues {
		r := Queue{Workload: e.s.Workloads[w].Name, Queue: named.Name}
		r.IdealBps = e.mean(span, func(st scenario.Stretch) float64 {
			if st.Phase != p {
				return math.NaN()
			}
			return st.Queues[w][q]
		})
		for _, f := range flows {
			if f.Queue == named.Name {
				r.add(f)
			}
		}
		list = append(list, r)
	}
	return list
}

func (q *Queue) add(f Flow) {
	if f.RateBps != nil {
		q.RateBps = ptr(value(q.RateBps) + *f.RateBps)
	}
	q.Loss, q.JitterMs = worst(q.Loss, f.Loss), worst(q.JitterMs, f.JitterMs)
	q.RTT = RTT{worst(q.RTT.P50, f.RTT.P50), worst(q.RTT.P99, f.RTT.P99), worst(q.RTT.Mean, f.RTT.Mean), worst(q.RTT.Most, f.RTT.Most)}
}

func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

func worst(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// violationOf returns the violation of an expectation on one flow or queue, "" if it holds.
func violationOf(name string, e scenario.Expectation, rate, ideal, loss, jitter *float64, rtt RTT) string {
	switch e.Check {
	case scenario.CheckRate:
		want := &e.Value
		if e.Ideal {
			want = ideal
		}
		switch {
		case rate == nil:
			return name + ": rate was not measured"
		case want == nil:
			return name + ": rate has no ideal here; write the rate itself"
		}
		return missed(name, *rate, *want, e)
	case scenario.CheckLoss:
		return atMost(name+": loss", loss, e.Value, percent)
	case scenario.CheckJitter:
		return atMost(name+": jitter", jitter, e.Value*1000, millis)
	case scenario.CheckRTT50:
		return atMost(name+": rtt p50", rtt.P50, e.Value*1000, millis)
	default: // scenario.CheckRTT99
		return atMost(name+": rtt p99", rtt.P99, e.Value*1000, millis)
	}
}

// insideViolation judges an expectation that names a flow or a queue. One that
// does not send in the phase breaks it only if the expectation names the phase.
func (w Workload) insideViolation(e scenario.Expectation) (problem string, judged bool) {
	for _, f := range w.Flows {
		if e.Flow == f.Flow && (e.Queue == "" || e.Queue == f.Queue) {
			return violationOf(w.Workload+" "+f.Flow, e, f.RateBps, f.IdealBps, f.Loss, f.JitterMs, f.RTT), true
		}
	}
	for _, q := range w.Queues {
		if e.Flow == "" && e.Queue == q.Queue {
			return violationOf(w.Workload+" queue "+q.Queue, e, q.RateBps, q.IdealBps, q.Loss, q.JitterMs, q.RTT), true
		}
	}
	if e.Phase == 0 {
		return "", false
	}
	if e.Flow != "" {
		return w.Workload + " " + e.Flow + ": sends nothing in this phase, or into another queue", true
	}
	return w.Workload + " queue " + e.Queue + ": is not there in this phase", true
}
