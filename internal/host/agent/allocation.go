// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"

	"weir/internal/api"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
	"weir/internal/host/agent/decide"
)

// allocator is the part of an agent that is about allocations.
type allocator struct{ agent *Agent }

// Allocations implements api.Agent.
func (a allocator) Allocations(ctx context.Context) (list []api.Allocation, err error) {
	err = a.agent.ask(ctx, func(now moment) error {
		list = []api.Allocation{}
		for _, allocation := range now.World.Allocations {
			list = append(list, now.AllocationView(allocation, now.links.unsteered))
		}
		return nil
	})
	return list, err
}

// Allocate implements api.Agent. It also refuses what the plan of a link would hold and the
// kernel does not, because the link is not steered now.
func (a allocator) Allocate(ctx context.Context, name string, req api.AllocationRequest, dryRun bool) (api.ChangeResult, error) {
	asked := decide.Allocation{Name: name, For: req.For, Pods: req.Pods}
	for _, m := range req.Mins {
		asked.Mins = append(asked.Mins, decide.LinkMin{Link: api.LinkName(m.Device, m.Direction), Min: policy.Rate(m.MinBps)})
	}
	return a.agent.change(ctx, dryRun, func(d decide.Decision) (decide.ChangeRequest, error) {
		r, err := d.Allocate(asked)
		if err != nil {
			return r, err
		}
		for _, m := range asked.Mins {
			if why := a.agent.links.unsteered(m.Link); why != "" {
				return r, &refusal.Error{Kind: refusal.Busy, Object: "link " + m.Link, Field: "mins.device", Value: m.Link, Msg: why, Remedy: "weir status says more; ask again"}
			}
		}
		return r, nil
	})
}

// Release implements api.Agent.
func (a allocator) Release(ctx context.Context, name string, dryRun bool) (api.ChangeResult, error) {
	return a.agent.change(ctx, dryRun, func(d decide.Decision) (decide.ChangeRequest, error) { return d.Release(name) })
}

// unsteered returns why a link is not steered now, "" if it is.
func (ls links) unsteered(name string) string {
	switch l := ls.named(name); {
	case l == nil:
		return fmt.Sprintf("no link is called %q", name)
	case l.backend == nil || l.err != nil:
		return fmt.Sprintf("link %s is not steered%s", name, reason(l.err))
	}
	return ""
}
