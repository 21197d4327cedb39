// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"slices"
	"time"

	"weir/internal/lab/scenario"
	"weir/internal/lab/traffic"
)

// tally sums up what the generators of one workload say about a window.
type tally struct {
	span          scenario.Span
	tcp, udp      float64   // intervals, whole and parts
	retransmits   float64   // tcp
	packets, lost float64   // udp
	jitter        float64   // udp: sum over intervals, ms
	rtts, steps   []float64 // ping: round trips, and from one to the next, ms
	asked         int       // ping
	rr            *traffic.RR
}

// traffic returns the numbers that the generators of some flows report about a window.
func (e *evaluation) traffic(span scenario.Span, of func(scenario.Flow) bool) Workload {
	t := tally{span: span}
	for _, r := range e.m.Reports {
		f := e.flows[r.Flow]
		if !of(f) {
			continue
		}
		for _, in := range r.Intervals {
			t.interval(f.Kind, in)
		}
		t.pings(r.Pings)
		if r.RR != nil && f.From >= span.From && f.To <= span.To {
			t.transactions(r.RR)
		}
	}
	return t.workload()
}

// transactions counts those of one netperf. Of several, the sum of their rates counts, and
// the longest of each kind of round trip, since quantiles cannot be put together.
func (t *tally) transactions(rr *traffic.RR) {
	if t.rr == nil {
		t.rr = &traffic.RR{}
	}
	t.rr.P50, t.rr.P99 = max(t.rr.P50, rr.P50), max(t.rr.P99, rr.P99)
	t.rr.Mean, t.rr.Most = max(t.rr.Mean, rr.Mean), max(t.rr.Most, rr.Most)
	t.rr.Rate += rr.Rate
}

// interval counts as far as it lies within the window.
func (t *tally) interval(kind scenario.Kind, in traffic.IperfInterval) {
	part := overlap(in.From, in.To, t.span.Measured, t.span.To)
	if kind == scenario.UDP {
		t.udp += part
		t.packets += float64(in.Packets) * part
		t.lost += float64(in.Lost) * part
		t.jitter += ms(in.Jitter) * part
		return
	}
	t.tcp += part
	t.retransmits += float64(in.Retransmits) * part
}

func (t *tally) pings(all []traffic.Ping) {
	pings := window(all, t.span)
	for i, p := range pings {
		t.rtts = append(t.rtts, ms(p.RTT))
		if i > 0 {
			t.steps = append(t.steps, math.Abs(ms(p.RTT-pings[i-1].RTT)))
		}
	}
	if n := len(pings); n > 0 {
		t.asked += pings[n-1].Seq - pings[0].Seq + 1
	}
}

// workload fills in what was measured and leaves nil what was not. Where a
// workload has udp and ping, loss and jitter are of udp.
func (t *tally) workload() Workload {
	var x Workload
	if t.tcp > 0 {
		x.Retransmits = ptr(uint64(math.Round(t.retransmits)))
	}
	if t.rr != nil {
		x.RTT, x.Transactions = RTT{ptr(ms(t.rr.P50)), ptr(ms(t.rr.P99)), ptr(ms(t.rr.Mean)), ptr(ms(t.rr.Most))}, ptr(t.rr.Rate)
	}
	if n := len(t.rtts); n > 0 {
		slices.Sort(t.rtts)
		x.Pings, x.RTT = n, RTT{quantile(t.rtts, 0.50), quantile(t.rtts, 0.99), ptr(mean(t.rtts)), ptr(t.rtts[n-1])}
		x.Loss, x.JitterMs = ptr(max(0, 1-float64(n)/float64(t.asked))), ptr(mean(t.steps))
	}
	if t.packets > 0 {
		x.Loss, x.JitterMs = ptr(t.lost/t.packets), ptr(t.jitter/t.udp)
	}
	return x
}

// shown are the conditions that a kind of traffic shows something of.
var shown = map[scenario.Kind][]scenario.Check{
	scenario.Ping:   {scenario.CheckRTT50, scenario.CheckRTT99, scenario.CheckLoss, scenario.CheckJitter},
	scenario.UDP:    {scenario.CheckLoss, scenario.CheckJitter},
	scenario.TCPRR:  {scenario.CheckRTT50, scenario.CheckRTT99},
	scenario.UDPRR:  {scenario.CheckRTT50, scenario.CheckRTT99},
	scenario.TCPCRR: {scenario.CheckRTT50, scenario.CheckRTT99},
}

// shows are the conditions of which a workload's generators should show something in the
// measured part of a phase, because one of them runs through all of it.
func (e *evaluation) shows(w int, span scenario.Span) map[scenario.Check]bool {
	checks := map[scenario.Check]bool{}
	for _, f := range e.flows {
		if f.Workload == w && f.From <= span.Measured && f.To >= span.To {
			for _, c := range shown[f.Kind] {
				checks[c] = true
			}
		}
	}
	return checks
}

func ptr[T any](v T) *T { return &v }

// window cuts the round trips of a phase out, by when their answer came.
func window(pings []traffic.Ping, span scenario.Span) []traffic.Ping {
	var list []traffic.Ping
	for _, p := range pings {
		if p.At >= span.Measured && p.At < span.To {
			list = append(list, p)
		}
	}
	return list
}

// overlap is the share of an interval that lies within a window.
func overlap(from, to, start, end time.Duration) float64 {
	part := min(to, end) - max(from, start)
	if part <= 0 || to <= from {
		return 0
	}
	return float64(part) / float64(to-from)
}

// quantile by the nearest rank of sorted values.
func quantile(sorted []float64, q float64) *float64 {
	v := sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
	return &v
}

func mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
