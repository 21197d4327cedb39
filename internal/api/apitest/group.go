// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"slices"

	"weir/internal/api"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
	"weir/internal/core/workload"
)

// WithGroup adds a group to the fake and returns it; mins and maxes are in Mbit/s,
// 0 = none. Its members are the workloads whose policy names it.
func (f *Fake) WithGroup(name string, weight uint32, min, max uint64) *Fake {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.groups = append(f.groups, api.Group{
		Name: name, Class: uint16(100 + len(f.groups)), State: workload.StateActive,
		Policy: api.GroupPolicy{Policy: policy.Policy{Weight: weight, Min: mbit(min), Max: mbit(max)}},
		Origin: map[string]string{"weight": "set", "min": "set", "max": "set"},
		Links:  []api.WorkloadLink{{Device: "eth0", Direction: "egress", MinBps: min * 1e6, MaxBps: max * 1e6}},
	})
	return f
}

// groupViews returns the groups with the traffic of their members.
func (f *Fake) groupViews() []api.Group {
	views := []api.Group{}
	for _, g := range f.groups {
		g.Members, g.Links = []string{}, slices.Clone(g.Links)
		for _, w := range f.workloads {
			if w.Policy.Group != g.Name {
				continue
			}
			g.Members = append(g.Members, w.Name)
			for _, l := range w.Links {
				sum := &g.Links[0]
				sum.RateBps += l.RateBps
				sum.Share += l.Share
				sum.IdealBps += l.IdealBps
				sum.OfferedBps += l.OfferedBps
				sum.BacklogPackets += l.BacklogPackets
				sum.BacklogBytes += l.BacklogBytes
				sum.SentPackets += l.SentPackets
				sum.SentBytes += l.SentBytes
				sum.DropsPerSecond += l.DropsPerSecond
			}
		}
		views = append(views, g)
	}
	return views
}

// Groups implements api.Agent.
func (f *Fake) Groups(context.Context) ([]api.Group, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.groupViews(), f.Fail
}

// Group implements api.Agent.
func (f *Fake) Group(_ context.Context, name string) (api.Group, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Fail != nil {
		return api.Group{}, f.Fail
	}
	for _, g := range f.groupViews() {
		if g.Name == name {
			return g, nil
		}
	}
	return api.Group{}, unknownGroup(name)
}

// ExplainGroup implements api.Agent.
func (f *Fake) ExplainGroup(ctx context.Context, name string) (api.Explanation, error) {
	g, err := f.Group(ctx, name)
	if err != nil {
		return api.Explanation{}, err
	}
	e := api.Explanation{Name: "group " + name, Links: []api.ExplainLink{}}
	for _, l := range g.Links {
		x := api.ExplainLink{Device: l.Device, Direction: l.Direction, Binds: "share", IdealBps: l.IdealBps, RateBps: l.RateBps,
			Text: []string{fmt.Sprintf("Group %s has weight %d.", name, g.Policy.Weight)}}
		for _, member := range g.Members {
			x.Members = append(x.Members, api.Other{Name: member, Weight: 1, Binds: "share"})
		}
		e.Links = append(e.Links, x)
	}
	return e, nil
}

func unknownGroup(name string) error {
	return &refusal.Error{Kind: refusal.Unknown, Field: "group", Value: name,
		Msg: fmt.Sprintf("no group is called %q", name), Remedy: "weir group list shows those that there are"}
}

// SetGroup implements api.Agent.
func (f *Fake) SetGroup(_ context.Context, name string, change api.GroupChange, dryRun bool) (api.ChangeResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Fail != nil {
		return api.ChangeResult{}, f.Fail
	}
	i := slices.IndexFunc(f.groups, func(g api.Group) bool { return g.Name == name })
	g := api.Group{Name: name, Class: uint16(100 + len(f.groups)), State: workload.StateActive, Policy: api.GroupPolicy{Policy: policy.Default()},
		Origin: map[string]string{}, Links: []api.WorkloadLink{{Device: "eth0", Direction: "egress"}}}
	what := fmt.Sprintf("eth0: add group %s:", name)
	if i >= 0 {
		g = f.groups[i]
		what = fmt.Sprintf("eth0: group %s:", name)
	}
	if err := change.Readable(); err != nil {
		return api.ChangeResult{}, api.Mistake(err)
	}
	g.Policy.Policy = change.Apply(g.Policy.Policy)
	for _, name := range change.Given() {
		what += " " + name + " " + change.Texts()[name]
	}
	g.Links = slices.Clone(g.Links)
	g.Links[0].MinBps, g.Links[0].MaxBps = uint64(g.Policy.Min.Of(Capacity)), uint64(g.Policy.Max.Of(Capacity))
	if !dryRun {
		if i < 0 {
			f.groups = append(f.groups, g)
		} else {
			f.groups[i] = g
		}
	}
	return api.ChangeResult{DryRun: dryRun, Changes: []api.Edit{{What: what, Why: "asked by weir group set"}}, Group: &g}, nil
}

// DeleteGroup implements api.Agent.
func (f *Fake) DeleteGroup(_ context.Context, name string, dryRun bool) (api.ChangeResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.groups, func(g api.Group) bool { return g.Name == name })
	if i < 0 {
		return api.ChangeResult{}, unknownGroup(name)
	}
	what := "eth0: remove group " + name
	if !dryRun {
		f.groups = slices.Delete(f.groups, i, i+1)
	}
	return api.ChangeResult{DryRun: dryRun, Changes: []api.Edit{{What: what, Why: "asked by weir group delete"}}}, nil
}

// Classify implements api.Agent: every packet goes to the first queue.
func (f *Fake) Classify(_ context.Context, name string, p api.Packet) (api.Placement, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find(name)
	if err != nil {
		return api.Placement{}, err
	}
	w := f.workloads[i]
	place := api.Placement{Name: w.Name, Discipline: string(w.Policy.Discipline),
		Text: fmt.Sprintf("A packet of %s to %s port %d.", p.Proto, p.Dst, p.Dport)}
	if len(w.Policy.Queues) > 0 {
		place.Queue = w.Policy.Queues[0].Name
	}
	return place, nil
}
