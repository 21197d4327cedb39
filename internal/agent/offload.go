// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"slices"

	"weir/internal/policy"
)

// offload is what a workload's device was last told.
type offload struct {
	ifindex  int
	capacity policy.Rate
}

// limitOffload keeps the packets that steered workloads build small enough for
// the slowest link: a packet of 64 KB, as segmentation offload makes them, keeps
// a link of 100 Mbit/s busy for 5 ms, in which nobody else sends. The limit
// belongs on the workload's own end, so devices without a known other end (taps)
// are left alone. It does not fail anything: without it, only others wait longer.
func (a *Agent) limitOffload() {
	if a.opts.LimitOffload == nil || len(a.links) == 0 {
		return
	}
	slowest := slices.MinFunc(a.links, func(x, y *link) int { return cmp.Compare(x.config.Egress, y.config.Egress) }) // that of ingress has it as well
	told := map[offload]bool{}
	for _, v := range a.decided.verdicts {
		for _, dev := range v.Devices {
			o := offload{dev.Ifindex, slowest.config.Egress}
			if !v.steered || dev.PeerNetns == "" {
				continue
			}
			if !a.offloads[o] {
				if err := a.opts.LimitOffload(dev, o.capacity); err != nil {
					a.log.Debug("the size of offloaded packets is not limited", "workload", v.Name, "device", dev.Name, "err", err)
					continue // perhaps not up yet; the next decision tries again
				}
			}
			told[o] = true
		}
	}
	a.offloads = told
}
