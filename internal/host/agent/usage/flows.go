// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"weir/internal/api"
	"weir/internal/core/plan"
	"weir/internal/host/dataplane/goodput"
)

// FlowKey tells flows apart.
type FlowKey struct {
	Protocol      string
	Local, Remote netip.AddrPort
}

// Flows are what the connections of a workload have moved so far.
type Flows struct {
	At     time.Time
	Name   string
	Queues []plan.Queue // of its class
	Counts map[FlowKey]goodput.Flow
}

// Since returns what moved between two looks, the busiest first.
func (f Flows) Since(before Flows) api.Flows {
	all := api.Flows{Name: f.Name, Seconds: f.At.Sub(before.At).Seconds()}
	rate := func(now, then uint64) float64 { return 8 * float64(now-min(now, then)) / all.Seconds }
	for key, now := range f.Counts {
		then := before.Counts[key]
		x := api.Flow{
			Protocol: key.Protocol, Local: key.Local.String(), Remote: key.Remote.String(),
			SentBps: rate(now.Delivered(), then.Delivered()), ReceivedBps: rate(now.Came(), then.Came()), ResentBps: rate(now.Again, then.Again),
		}
		if now.Queue < len(f.Queues) {
			x.Queue = f.Queues[now.Queue].Name
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
