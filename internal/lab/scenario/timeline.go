// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"
	"time"

	"weir/internal/core/policy"
)

// Bucket is the meter's resolution: received bytes are counted in steps of it.
const Bucket = 10 * time.Millisecond

// maxBuckets is what the meter holds, over all workloads (96 MiB).
const maxBuckets = 4 << 20

// Flow is one run of a generator, with absolute times from the beginning of the
// first phase.
type Flow struct {
	Workload int
	Traffic
	From, To time.Duration
	Listen   int  // port at the receiver; 0 = none that is known beforehand
	Entry    int  // index into Entries
	Ingress  bool // it comes to the workload
	ECN      bool // a ping says that it can be marked; TCP asks for that by itself
}

// TrafficEntry is a traffic entry: all runs of the generators of one name in a workload.
type TrafficEntry struct {
	Workload int
	Name     string
}

// Entries are the scenario's traffic entries, a workload's together.
func (s *Scenario) Entries() []TrafficEntry {
	var list []TrafficEntry
	for w := range s.Workloads {
		for _, run := range s.runs(w) {
			for _, t := range run.list {
				if e := (TrafficEntry{w, t.Name}); !slices.Contains(list, e) {
					list = append(list, e)
				}
			}
		}
	}
	return list
}

// The ports that the lab chooses itself.
const (
	firstPort = 5201
	// NetserverPort is where netperf is controlled from, beside its test's own
	// connection.
	NetserverPort = 12865
)

// listen gives each iperf3 flow that names no port one of its own, counted per
// workload because each has an address of its own at the receiver.
func listen(flows []Flow) {
	type endpoint struct{ workload, port int }
	taken := map[endpoint]bool{}
	for _, f := range flows {
		taken[endpoint{f.Workload, f.Port}] = true
	}
	for i, f := range flows {
		switch {
		case f.Port != 0 || f.Kind != TCP && f.Kind != UDP:
			flows[i].Listen = f.Port
		default:
			at := endpoint{f.Workload, firstPort}
			for taken[at] {
				at.port++
			}
			taken[at] = true
			flows[i].Listen = at.port
		}
	}
}

// Span is a phase with absolute times. Its first Settle is not measured.
type Span struct {
	From, Measured, To time.Duration
}

// Spans are the phases in order.
func (s *Scenario) Spans() []Span {
	var list []Span
	var at time.Duration
	for _, p := range s.Phases {
		list = append(list, Span{at, at + s.Settle, at + p.For})
		at += p.For
	}
	return list
}

// Flows are all runs of all generators, ordered by their beginning. A
// request-response generator becomes one flow per phase that covers just its measured
// part, because netperf prints one set of percentiles per run.
func (s *Scenario) Flows() []Flow {
	var flows []Flow
	for w := range s.Workloads {
		for _, run := range s.runs(w) {
			flows = append(flows, s.flowsOf(w, run)...)
		}
	}
	slices.SortStableFunc(flows, func(a, b Flow) int { return int(a.From - b.From) })
	entries := s.Entries()
	for i, f := range flows {
		flows[i].Entry = slices.Index(entries, TrafficEntry{f.Workload, f.Name})
	}
	listen(flows)
	return flows
}

// run is a stretch of time in which a workload has one list of traffic. Times
// in the list count from origin.
type run struct {
	list             []Traffic
	origin, from, to time.Duration
}

func (s *Scenario) runs(w int) []run {
	var runs []run
	list, origin, since := s.Workloads[w].Traffic, time.Duration(0), time.Duration(0)
	on := true
	closeAt := func(t time.Duration) {
		if on && t > since {
			runs = append(runs, run{list, origin, since, t})
		}
		since = t
	}
	for i, span := range s.Spans() {
		for _, c := range s.Phases[i].Set {
			if c.Workload != w || c.Traffic == nil || c.Traffic.Mode == On && on {
				continue
			}
			closeAt(span.From)
			on = c.Traffic.Mode != Off
			if c.Traffic.Mode == Replace {
				list, origin = c.Traffic.List, span.From
			}
		}
	}
	closeAt(s.Duration())
	return runs
}

func (s *Scenario) flowsOf(w int, r run) []Flow {
	var flows []Flow
	for _, t := range r.list {
		f := Flow{Workload: w, Ingress: s.Link.Ingress, ECN: s.Link.ECN, Traffic: t, From: max(r.from, r.origin+t.Start), To: r.to}
		if t.Stop != 0 {
			f.To = min(f.To, r.origin+t.Stop)
		}
		switch {
		case f.From >= f.To:
		case t.Kind.RR():
			flows = append(flows, s.perPhase(f)...)
		default:
			flows = append(flows, f)
		}
	}
	return flows
}

func (s *Scenario) perPhase(f Flow) []Flow {
	var parts []Flow
	for _, span := range s.Spans() {
		p := f
		p.From, p.To = max(f.From, span.Measured), min(f.To, span.To)
		if p.From < p.To {
			parts = append(parts, p)
		}
	}
	return parts
}

// demand is what a flow wants to send, in wire bits per second. 0 for those that
// send at a pace of their own, known only afterwards: netperf waits for each
// answer, and ping's timer is coarse.
func (f Flow) demand() policy.Rate {
	switch f.Kind {
	case TCP:
		return policy.Unlimited
	case UDP:
		return f.Rate
	}
	return 0
}

// PayloadRate is the rate that each socket of a udp flow has to be given so
// that Rate is its rate on the wire.
func (f Flow) PayloadRate() float64 {
	return float64(f.Rate) / float64(f.Streams) * float64(f.Size) / float64(f.Size+header)
}
