// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"time"

	"weir/internal/base/verdict"
	"weir/internal/core/policy"
	"weir/internal/lab/scenario"
	"weir/internal/lab/topology"
)

// evaluation is a run on its way from measurement to result.
type evaluation struct {
	s       *scenario.Scenario
	m       Measurement
	flows   []scenario.Flow
	stretch []scenario.Stretch
}

// Evaluate judges a measurement.
func Evaluate(s *scenario.Scenario, m Measurement) *Result {
	m.Reports = slices.Clone(m.Reports)
	e := &evaluation{s: s, m: m, flows: s.Flows()}
	e.stretch = s.Ideals(e.ownRate)
	e.moveIntervals()
	r := &Result{
		Scenario: s, Scheduler: m.Scheduler, Backend: m.Backend, Notes: append(s.Warnings(), m.Notes...),
		Stretch: e.stretch, Rates: e.rates(), Goodput: e.goodputs(),
	}
	for p, span := range s.Spans() {
		r.Phases = append(r.Phases, e.phase(p, span))
	}
	for _, rep := range m.Reports {
		if rep.Problem != "" {
			f := e.flows[rep.Flow]
			r.Problems = append(r.Problems, fmt.Sprintf("%s of %s from %v: %s", f.Kind, s.Workloads[f.Workload].Name, f.From, rep.Problem))
		}
	}
	r.Verdicts = r.check()
	r.Failures = verdict.Failures(r.Verdicts)
	return r
}

// ownRate is what the generators of a workload that wait for their answers sent
// over the whole scenario, which is their demand: all that it sent but for what
// the others did.
func (e *evaluation) ownRate(w int) policy.Rate {
	var on time.Duration
	bytes, _ := e.received(w, 0, e.s.Duration())
	others := map[int]bool{} // rows
	for _, f := range e.flows {
		switch {
		case f.Workload != w:
		case f.Kind.RR() || f.Kind == scenario.Ping:
			on += f.To - f.From
		default:
			others[len(e.s.Workloads)+f.Entry] = true
		}
	}
	for row := range others {
		sent, _ := e.received(row, 0, e.s.Duration())
		bytes -= min(bytes, sent)
	}
	if on == 0 {
		return 0
	}
	return policy.Rate(float64(bytes) * 8 / on.Seconds())
}

// received sums a workload's buckets in a window.
func (e *evaluation) received(w int, from, to time.Duration) (bytes, packets uint64) {
	if w >= len(e.m.Timeline.Bytes) {
		return 0, 0
	}
	row, count := e.m.Timeline.Bytes[w], e.m.Timeline.Packets[w]
	for b := int(from / scenario.Bucket); b < min(int(to/scenario.Bucket), len(row)); b++ {
		bytes += row[b]
		packets += count[b]
	}
	return bytes, packets
}

// rate of a workload in a window, which is cut to whole buckets.
func (e *evaluation) rate(w int, from, to time.Duration) float64 {
	from, to = from.Truncate(scenario.Bucket), to.Truncate(scenario.Bucket)
	if to <= from {
		return 0
	}
	bytes, _ := e.received(w, from, to)
	return float64(bytes) * 8 / (to - from).Seconds()
}

func (e *evaluation) rates() [][]float64 {
	rows := make([][]float64, len(e.s.Workloads))
	for w := range rows {
		for at := time.Duration(0); at+Step <= e.s.Duration(); at += Step {
			rows[w] = append(rows[w], e.rate(w, at, at+Step))
		}
	}
	return rows
}

func (e *evaluation) phase(p int, span scenario.Span) Phase {
	ph := Phase{Number: p + 1}
	ideals := scenario.IdealOver(e.stretch, span.Measured, span.To, len(e.s.Workloads))
	capacity := float64(e.s.Link.Capacity())
	for w := range e.s.Workloads {
		x := e.traffic(span, func(f scenario.Flow) bool { return f.Workload == w })
		x.Phase, x.Workload = p+1, e.s.Workloads[w].Name
		x.GoodputBps = e.meanGoodput(e.payloadRows(w), span, func(f scenario.Flow) bool { return f.Workload == w })
		x.wirePayload, x.shows = e.wirePayload(w, span), e.shows(w, span)
		x.Scenario, x.Scheduler, x.Backend = e.s.Name, e.m.Scheduler, e.m.Backend
		x.RateBps, x.IdealBps = e.rate(w, span.Measured, span.To), ideals[w]
		x.Error = (x.RateBps - x.IdealBps) / capacity
		_, x.Packets = e.received(w, span.Measured, span.To)
		x.floor, x.ceiling = e.bounds(w, p, span)
		e.step(&x, w, p, span)
		e.lasts(&x, w, p, span)
		if p < len(e.s.Paper.Rates) {
			if v, ok := e.s.Paper.Rates[p][x.Workload]; ok {
				bps := float64(v)
				x.PaperBps = &bps
			}
		}
		x.Flows = e.flowsOf(w, p, span, x)
		x.Queues = e.queuesOf(w, p, span, x.Flows)
		ph.Workloads = append(ph.Workloads, x)
	}
	ph.Link = e.link(p, span, ph.Workloads)
	return ph
}

// bounds are the least and the most that a workload may get over the window:
// its min as far as it asked for it, and its max (infinite if it has none).
func (e *evaluation) bounds(w, p int, span scenario.Span) (floor, ceiling float64) {
	pol := e.s.Policies()[p][w]
	for _, st := range e.stretch {
		if part := min(span.To, st.To) - max(span.Measured, st.From); part > 0 {
			floor += float64(min(pol.Min, st.Demand[w])) * float64(part) / float64(span.To-span.Measured)
		}
	}
	if pol.Max == 0 {
		return floor, math.Inf(1)
	}
	return floor, float64(pol.Max)
}

func (e *evaluation) link(p int, span scenario.Span, workloads []Workload) Link {
	l := Link{
		Scenario: e.s.Name, Scheduler: e.m.Scheduler, Backend: e.m.Backend,
		Phase: p + 1, Link: topology.Uplink, CapacityBps: float64(e.s.Link.Capacity()), Jain: jain(workloads),
	}
	for _, w := range workloads {
		l.RateBps += w.RateBps
		l.Packets += w.Packets
	}
	l.Utilisation = l.RateBps / l.CapacityBps
	var changed bool
	if l.ReactionMs, changed = e.reaction(p); changed {
		l.ReactionWindowMs = ptr(ms(ReactionWindow(e.m.Scheduler)))
	}
	l.Unsteady = e.unsteady(span)
	if p >= len(e.m.Phases) {
		return l
	}
	a := e.m.Phases[p]
	l.Drops, l.CPU, l.CPUExact, l.ApplyMs = a.Drops, a.CPU, a.CPUExact, ms(a.Applied)
	if a.CPU != nil && l.Packets > 0 {
		seconds := (span.To - span.Measured).Seconds()
		busy := *a.CPU * seconds * float64(a.CPUs)
		perPacket, perGbyte := busy*1e9/float64(l.Packets), busy/(l.RateBps*seconds/8/1e9)
		l.CPUNsPerPacket, l.CPUSPerGbyte = &perPacket, &perGbyte
	}
	return l
}

// jain is Jain's index of rate/ideal over the workloads that should get
// something: 1 if all deviate alike, 1/n if one has everything.
func jain(workloads []Workload) *float64 {
	var sum, squares, n float64
	for _, w := range workloads {
		if w.IdealBps > 0 {
			x := w.RateBps / w.IdealBps
			sum, squares, n = sum+x, squares+x*x, n+1
		}
	}
	if squares == 0 {
		return nil
	}
	v := sum * sum / (n * squares)
	return &v
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
