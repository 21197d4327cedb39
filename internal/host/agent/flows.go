// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"time"

	"weir/internal/api"
	"weir/internal/core/refusal"
	"weir/internal/host/agent/decide"
	"weir/internal/host/agent/usage"
	"weir/internal/host/dataplane/goodput"
)

// flowsFor is how long connections are measured.
const flowsFor = time.Second

// Flows implements api.Agent: two looks, a second apart.
func (a *Agent) Flows(ctx context.Context, name string) (api.Flows, error) {
	look := func() (flows usage.Flows, err error) {
		err = a.ask(ctx, func(now moment) error {
			v, err := now.Resolve(name)
			if err == nil {
				flows, err = a.regulator.flows(v, now.links, time.Now())
			}
			return err
		})
		return flows, err
	}
	before, err := look()
	if err != nil {
		return api.Flows{}, err
	}
	timer := time.NewTimer(flowsFor)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return api.Flows{}, ctx.Err()
	}
	after, err := look()
	if err != nil {
		return api.Flows{}, err
	}
	return after.Since(before), nil
}

// flows returns what the connections of a workload have moved so far.
func (r *regulator) flows(v decide.Ruling, ls links, at time.Time) (usage.Flows, error) {
	switch {
	case len(r.view(v, ls).Loops) == 0:
		return usage.Flows{}, noLoop(v.Name)
	case r.meter == nil:
		return usage.Flows{}, &refusal.Error{Kind: refusal.Conflict, Field: "goodput", Msg: "nothing measures the goodput of " + v.Name, Remedy: cmp.Or(r.complaint, "try again in a second")}
	}
	now := usage.Flows{At: at, Name: v.Name, Counts: map[usage.FlowKey]goodput.Flow{}}
	for _, l := range ls {
		if class, ok := l.classes[v.Class]; ok && len(now.Queues) == 0 {
			now.Queues = class.Queues
		}
	}
	flows, err := r.meter.Flows(v.Class)
	for _, f := range flows {
		now.Counts[usage.FlowKey{Protocol: f.Protocol, Local: f.Local, Remote: f.Remote}] = f
	}
	return now, err
}
