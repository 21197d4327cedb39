// SPDX-License-Identifier: Apache-2.0

package server

import (
	"weir/internal/api"
	"weir/internal/api/rest"
)

// The functions here make lists that are nil into empty ones, so that a client
// gets [] and {} as the OpenAPI document promises and never null. They copy what
// they change: a sample is shared by all who subscribed to it.

// list copies in with fix applied to each element; it never returns nil.
func list[T any](in []T, fix func(T) T) []T {
	out := make([]T, len(in))
	for i, v := range in {
		out[i] = fix(v)
	}
	return out
}

func wholeStatus(s api.Status) api.Status {
	s.Links = list(s.Links, wholeLink)
	s.Groups = list(s.Groups, wholeGroup)
	s.Sources = rest.Filled(s.Sources)
	s.Events.Sinks = rest.Filled(s.Events.Sinks)
	s.Problems = rest.Filled(s.Problems)
	return s
}

func wholeLink(l api.LinkStatus) api.LinkStatus {
	l.Gaps = rest.Filled(l.Gaps)
	return l
}

func wholeWorkloads(ws []api.Workload) []api.Workload { return list(ws, wholeWorkload) }

func wholeWorkload(w api.Workload) api.Workload {
	if w.Origin == nil {
		w.Origin = map[string]string{}
	}
	w.Devices = rest.Filled(w.Devices)
	w.Links = list(w.Links, wholeTraffic)
	return w
}

func wholeTraffic(l api.WorkloadLink) api.WorkloadLink {
	if l.Drops == nil {
		l.Drops = map[string]uint64{}
	}
	if l.Queues != nil {
		l.Queues = list(l.Queues, func(q api.QueueTraffic) api.QueueTraffic {
			if q.Drops == nil {
				q.Drops = map[string]uint64{}
			}
			return q
		})
	}
	return l
}

func wholeGroup(g api.Group) api.Group {
	if g.Origin == nil {
		g.Origin = map[string]string{}
	}
	g.Members = rest.Filled(g.Members)
	g.Links = list(g.Links, wholeTraffic)
	return g
}

func wholeResult(r api.ChangeResult) api.ChangeResult {
	r.Changes = rest.Filled(r.Changes)
	if r.Workload != nil {
		w := wholeWorkload(*r.Workload)
		r.Workload = &w
	}
	if r.Group != nil {
		g := wholeGroup(*r.Group)
		r.Group = &g
	}
	return r
}

func wholeExplanation(e api.Explanation) api.Explanation {
	e.Links = list(e.Links, func(l api.ExplainLink) api.ExplainLink {
		l.Text = rest.Filled(l.Text)
		l.Others = rest.Filled(l.Others)
		return l
	})
	return e
}

// sampleFor returns a sample as a stream sends it: the gaps of backends, which do not
// change from second to second, come with the first.
func sampleFor(s api.Sample, first bool) api.Sample {
	s = wholeSample(s)
	for i := range s.Links {
		if !first {
			s.Links[i].Gaps = nil
		}
	}
	return s
}

func wholeSample(s api.Sample) api.Sample {
	s.Links = list(s.Links, wholeLink)
	s.Workloads = wholeWorkloads(s.Workloads)
	s.Groups = list(s.Groups, wholeGroup)
	s.Problems = rest.Filled(s.Problems)
	return s
}

func wholeAllocation(a api.Allocation) api.Allocation {
	a.Pods, a.Mins = rest.Filled(a.Pods), rest.Filled(a.Mins)
	return a
}
