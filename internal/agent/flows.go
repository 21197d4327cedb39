// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"weir/internal/agent/decide"
	"weir/internal/api"
	"weir/internal/dataplane/goodput"
	"weir/internal/plan"
	"weir/internal/refusal"
)

// flowsFor is how long connections are measured.
const flowsFor = time.Second

// flowKey tells flows apart.
type flowKey struct {
	protocol      string
	local, remote netip.AddrPort
}

// flowsNow are what the connections of a workload have moved so far.
type flowsNow struct {
	at     time.Time
	name   string
	queues []plan.Queue // of its class
	counts map[flowKey]goodput.Flow
}

// Flows implements api.Agent: two looks, a second apart.
func (a *Agent) Flows(ctx context.Context, name string) (api.Flows, error) {
	look := func() (flows flowsNow, err error) {
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
	return after.since(before), nil
}

// flows returns what the connections of a workload have moved so far.
func (r *regulator) flows(v decide.Verdict, ls links, at time.Time) (flowsNow, error) {
	switch {
	case len(r.view(v, ls).Loops) == 0:
		return flowsNow{}, noLoop(v.Name)
	case r.meter == nil:
		return flowsNow{}, &refusal.Error{Kind: refusal.Conflict, Field: "goodput", Msg: "nothing measures the goodput of " + v.Name, Remedy: cmp.Or(r.complaint, "try again in a second")}
	}
	now := flowsNow{at: at, name: v.Name, counts: map[flowKey]goodput.Flow{}}
	for _, l := range ls {
		if class, ok := l.classes[v.Class]; ok && len(now.queues) == 0 {
			now.queues = class.Queues
		}
	}
	flows, err := r.meter.Flows(v.Class)
	for _, f := range flows {
		now.counts[flowKey{f.Protocol, f.Local, f.Remote}] = f
	}
	return now, err
}

// since returns what moved between two looks, the busiest first.
func (f flowsNow) since(before flowsNow) api.Flows {
	all := api.Flows{Name: f.name, Seconds: f.at.Sub(before.at).Seconds()}
	rate := func(now, then uint64) float64 { return 8 * float64(now-min(now, then)) / all.Seconds }
	for key, now := range f.counts {
		then := before.counts[key]
		x := api.Flow{
			Protocol: key.protocol, Local: key.local.String(), Remote: key.remote.String(),
			SentBps: rate(now.Delivered(), then.Delivered()), ReceivedBps: rate(now.Came(), then.Came()), ResentBps: rate(now.Again, then.Again),
		}
		if now.Queue < len(f.queues) {
			x.Queue = f.queues[now.Queue].Name
		}
		if x.SentBps+x.ReceivedBps+x.ResentBps > 0 {
			all.Flows = append(all.Flows, x)
		}
	}
	slices.SortFunc(all.Flows, func(a, b api.Flow) int {
		return cmp.Or(cmp.Compare(b.SentBps+b.ReceivedBps, a.SentBps+a.ReceivedBps), cmp.Compare(a.Local, b.Local), cmp.Compare(a.Remote, b.Remote), cmp.Compare(a.Protocol, b.Protocol))
	})
	return all
}
