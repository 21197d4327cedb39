// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"slices"

	"weir/internal/api"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
)

// Allocations implements api.Agent.
func (f *Fake) Allocations(context.Context) ([]api.Allocation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.allocations), f.Fail
}

// Allocate implements api.Agent: of the only link, eth0, as much as is free.
func (f *Fake) Allocate(_ context.Context, name string, req api.AllocationRequest, dryRun bool) (api.ChangeResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Fail != nil {
		return api.ChangeResult{}, f.Fail
	}
	a := api.Allocation{Name: name, For: req.For, Pods: req.Pods}
	free := f.link().FreeBps
	if i := f.allocation(name); i >= 0 {
		free += f.allocations[i].Mins[0].MinBps
	}
	for _, m := range req.Mins {
		if m.Device != "eth0" {
			return api.ChangeResult{}, &refusal.Error{Kind: refusal.Unknown, Field: "mins.device", Value: m.Device, Msg: "no such link", Remedy: "this host has eth0"}
		}
		if m.MinBps > free {
			return api.ChangeResult{}, &refusal.Error{Kind: refusal.NoRoom, Object: "link eth0", Field: "min", Value: policy.Rate(m.MinBps).Compact(),
				Msg: fmt.Sprintf("link eth0 has no room for it: free %s", policy.Rate(free)), Remedy: "ask for less"}
		}
		a.Mins = append(a.Mins, api.AllocatedMin{LinkMin: m, Held: true})
	}
	if !dryRun {
		f.release(name)
		f.allocations = append(f.allocations, a)
	}
	return api.ChangeResult{DryRun: dryRun, Changes: []api.Edit{{What: "eth0: allocate " + req.For, Why: "allocated for " + req.For}}}, nil
}

// Release implements api.Agent.
func (f *Fake) Release(_ context.Context, name string, dryRun bool) (api.ChangeResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.allocation(name)
	if i < 0 {
		return api.ChangeResult{}, &refusal.Error{Kind: refusal.Unknown, Field: "allocation", Value: name, Msg: fmt.Sprintf("no allocation is called %q", name)}
	}
	what := "eth0: release " + f.allocations[i].For
	if !dryRun {
		f.release(name)
	}
	return api.ChangeResult{DryRun: dryRun, Changes: []api.Edit{{What: what, Why: "released"}}}, nil
}

// allocation returns the index of an allocation, -1 if there is none of this name.
func (f *Fake) allocation(name string) int {
	return slices.IndexFunc(f.allocations, func(a api.Allocation) bool { return a.Name == name })
}

func (f *Fake) release(name string) {
	f.allocations = slices.DeleteFunc(f.allocations, func(a api.Allocation) bool { return a.Name == name })
}
