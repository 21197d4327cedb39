// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"weir/internal/api"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// fakeAgent has policies and a link that refuses mins beyond its capacity.
type fakeAgent struct {
	api.Agent
	world    *world
	node     string
	capacity uint64
	mu       sync.Mutex
	min      map[string]uint64 // of containers here
	set      map[string]api.PolicyChange
	groups   []string
	kinds    map[string]string // of workloads that are no containers
}

func newAgent(w *world, node string, capacity uint64) *fakeAgent {
	return &fakeAgent{world: w, node: node, capacity: capacity, min: map[string]uint64{}, set: map[string]api.PolicyChange{}}
}

// reserve gives container `name` a min of bps before anybody asks.
func (a *fakeAgent) reserve(name string, bps uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.min[name] = bps
}

func (a *fakeAgent) Status(context.Context) (api.Status, error) {
	return api.Status{Links: []api.LinkStatus{{Device: "eth0", CapacityBps: a.capacity}}}, nil
}

func (a *fakeAgent) Workload(_ context.Context, name string) (api.Workload, error) {
	if !slices.Contains(a.world.where(name), a.node) {
		return api.Workload{}, &refusal.Error{Kind: refusal.Unknown, Field: "name", Value: name, Msg: "unknown"}
	}
	w := api.Workload{Name: name, ID: "id-" + name, Kind: "docker", Origin: map[string]string{}}
	a.mu.Lock()
	defer a.mu.Unlock()
	if kind := a.kinds[name]; kind != "" {
		w.Kind = kind
	}
	c := a.set[name]
	w.Policy = api.PolicyOf(c.Apply(policy.Default()))
	for _, name := range c.Given() {
		w.Origin[name] = "set"
	}
	return w, nil
}

// Workloads returns the host, and the containers that run here.
func (a *fakeAgent) Workloads(ctx context.Context) ([]api.Workload, error) {
	list := []api.Workload{{Name: "host", Kind: "host"}}
	a.world.mu.Lock()
	var names []string
	for name, running := range a.world.has[a.node] {
		if running {
			names = append(names, name)
		}
	}
	a.world.mu.Unlock()
	slices.Sort(names)
	for _, name := range names {
		if w, err := a.Workload(ctx, name); err == nil {
			list = append(list, w)
		}
	}
	return list, nil
}

func (a *fakeAgent) Set(ctx context.Context, name string, c api.PolicyChange, _ bool) (api.ChangeResult, error) {
	if _, err := a.Workload(ctx, name); err != nil {
		return api.ChangeResult{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.Gives("min") {
		var reserved uint64
		asked := uint64(c.To().Min.Of(policy.Rate(a.capacity)))
		for other, min := range a.min {
			if other != name {
				reserved += min
			}
		}
		if asked+reserved > a.capacity {
			return api.ChangeResult{}, &refusal.Error{Kind: refusal.NoRoom, Field: "min", Value: c.Texts()["min"], Msg: "link eth0 has no room for it", Remedy: "ask for less"}
		}
		a.min[name] = asked
	}
	if group := c.To().Group; c.Gives("group") && !slices.Contains(a.groups, group) {
		return api.ChangeResult{}, &refusal.Error{Kind: refusal.Invalid, Field: "group", Value: group, Msg: "no group has that name"}
	}
	kept := a.set[name]
	if c.Reset {
		kept = api.PolicyChange{}
	}
	kept.Change = kept.Over(c.Change) // what c does not say stays
	a.set[name] = kept
	return api.ChangeResult{}, nil
}

// profile is what the sampler would make of the world.
func (a *fakeAgent) profile(context.Context) (wire.Profile, error) {
	p := wire.Profile{V: 1, Node: a.node, Time: time.Now(), IntervalSeconds: 1,
		Capacity: wire.Capacity{CPUCores: 4, MemoryBytes: 8e9, NetworkTransmitBps: a.capacity, GuaranteedBps: a.capacity}}
	a.world.mu.Lock()
	defer a.world.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, running := range a.world.has[a.node] {
		if running {
			p.Containers = append(p.Containers, wire.ContainerProfile{ID: "id-" + name, Name: name, Engine: "docker",
				Policy: wire.Policy{MinBps: a.min[name]}, Usage: wire.Usage{CPUCores: 1, MemoryBytes: 100e6}})
		}
	}
	return p, nil
}
