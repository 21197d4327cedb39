// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"
	"time"

	"weir/internal/core/policy"
)

// Stretch is a time in which neither policies nor demands change, with what the
// contract gives each workload in it.
type Stretch struct {
	Phase    int // from 0
	From, To time.Duration
	Demand   []policy.Rate // per workload; 0 = sends nothing, policy.Unlimited
	Ideal    []float64     // per workload, bits per second
	// What the discipline makes of a workload's ideal, bits per second; NaN where it
	// promises nothing.
	Queues [][]float64 // per workload and queue of its policy
	Flows  []float64   // per flow
}

// Ideals divides the timeline into stretches. own(w) is what workload w was seen to send on average
// while it was on, which is the demand of one that only pings or waits for answers. own may be nil:
// then these want nothing.
func (s *Scenario) Ideals(own func(workload int) policy.Rate) []Stretch {
	flows, promises := s.Flows(), s.Promises()
	var list []Stretch
	for p, span := range s.Spans() {
		edges := s.edges(flows, span)
		for i, from := range edges[:len(edges)-1] {
			st := Stretch{Phase: p, From: from, To: edges[i+1], Demand: s.demands(flows, from, own)}
			if s.OVS != nil {
				s.OVS.ideals(s, flows, &st)
			} else {
				st.Ideal = s.divide(promises[p], st.Demand)
				st.Queues, st.Flows = inside(promises[p].Workloads, flows, st)
			}
			list = append(list, st)
		}
	}
	return list
}

// edges are the instants within a phase at which a flow begins or ends, and the
// phase's own two.
func (s *Scenario) edges(flows []Flow, span Span) []time.Duration {
	edges := []time.Duration{span.From, span.To}
	for _, f := range flows {
		if f.Kind.RR() {
			continue // cut at the measured window only so that netperf reports on it
		}
		for _, t := range []time.Duration{f.From, f.To} {
			if t > span.From && t < span.To {
				edges = append(edges, t)
			}
		}
	}
	slices.Sort(edges)
	return slices.Compact(edges)
}

func (s *Scenario) demands(flows []Flow, at time.Duration, own func(int) policy.Rate) []policy.Rate {
	list := make([]policy.Rate, len(s.Workloads))
	paced := make([]bool, len(s.Workloads))
	for _, f := range flows {
		w := f.Workload
		switch d := f.demand(); {
		case f.Kind.RR():
			paced[w] = true // also while netperf is not counting
		case at < f.From || at >= f.To:
		case f.Kind == Ping:
			paced[w] = true
		case d == policy.Unlimited || list[w] == policy.Unlimited:
			list[w] = policy.Unlimited
		default:
			list[w] += d
		}
	}
	for w := range list {
		if paced[w] && own != nil && list[w] == 0 {
			list[w] = own(w)
		}
	}
	return list
}

// IdealOver is each workload's ideal averaged over a window.
func IdealOver(list []Stretch, from, to time.Duration, workloads int) []float64 {
	sum := make([]float64, workloads)
	for _, st := range list {
		if part := min(to, st.To) - max(from, st.From); part > 0 {
			for w, v := range st.Ideal {
				sum[w] += v * float64(part) / float64(to-from)
			}
		}
	}
	return sum
}
