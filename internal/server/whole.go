// SPDX-License-Identifier: Apache-2.0

package server

import (
	"weir/internal/api"
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

// filled is in, or an empty list.
func filled[T any](in []T) []T {
	if in == nil {
		return []T{}
	}
	return in
}

func wholeStatus(s api.Status) api.Status {
	s.Links = list(s.Links, wholeLink)
	s.Sources = filled(s.Sources)
	return s
}

func wholeLink(l api.LinkStatus) api.LinkStatus {
	l.Gaps = filled(l.Gaps)
	return l
}

func wholeWorkloads(ws []api.Workload) []api.Workload { return list(ws, wholeWorkload) }

func wholeWorkload(w api.Workload) api.Workload {
	if w.Origin == nil {
		w.Origin = map[string]string{}
	}
	w.Devices = filled(w.Devices)
	w.Links = list(w.Links, func(wl api.WorkloadLink) api.WorkloadLink {
		if wl.Drops == nil {
			wl.Drops = map[string]uint64{}
		}
		return wl
	})
	return w
}

func wholeResult(r api.ChangeResult) api.ChangeResult {
	r.Changes = filled(r.Changes)
	if r.Workload != nil {
		w := wholeWorkload(*r.Workload)
		r.Workload = &w
	}
	return r
}

func wholeExplanation(e api.Explanation) api.Explanation {
	e.Links = list(e.Links, func(l api.ExplainLink) api.ExplainLink {
		l.Text = filled(l.Text)
		l.Others = filled(l.Others)
		return l
	})
	return e
}

func wholeSample(s api.Sample) api.Sample {
	s.Links = list(s.Links, wholeLink)
	s.Workloads = wholeWorkloads(s.Workloads)
	return s
}
