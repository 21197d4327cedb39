// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"slices"

	"weir/internal/discover"
	"weir/internal/policy"
)

// offload is what a workload's device was last told.
type offload struct {
	device   discover.Device
	capacity policy.Rate
}

// limitOffload keeps the packets that steered workloads build small enough for
// the slowest link: a packet of 64 KB, as segmentation offload makes them, keeps
// a link of 100 Mbit/s busy for 5 ms, in which nobody else sends. The limit
// belongs on the workload's own end, so devices without a known other end (taps)
// are left alone. It does not fail anything: without it, only others wait longer.
// A device that belongs to no steered workload any more gets its former limit back.
func (a *Agent) limitOffload() {
	if a.opts.LimitOffload == nil {
		return
	}
	told := map[int]offload{}
	for _, o := range a.offloadsWanted() {
		before, known := a.offloads[o.device.Ifindex]
		if known && before.capacity == o.capacity {
			told[o.device.Ifindex] = before
			continue
		}
		if err := a.opts.LimitOffload(o.device, o.capacity); err == nil {
			told[o.device.Ifindex] = o
			continue
		} else { // perhaps not up yet; the next decision tries again
			a.log.Debug("the size of offloaded packets is not limited", "device", o.device.Name, "err", err)
		}
		if known {
			told[o.device.Ifindex] = before
		}
	}
	for index, o := range a.offloads {
		if _, still := told[index]; !still {
			a.restoreOffload(o.device)
		}
	}
	a.offloads = told
}

// offloadsWanted are the limits of all devices of steered workloads.
func (a *Agent) offloadsWanted() []offload {
	if len(a.links) == 0 {
		return nil
	}
	slowest := slices.MinFunc(a.links, func(x, y *link) int { return cmp.Compare(x.config.Egress, y.config.Egress) }) // that of ingress has it as well
	var list []offload
	for _, v := range a.decided.Verdicts {
		for _, dev := range v.Devices {
			if v.Steered && dev.PeerNetns != "" {
				list = append(list, offload{dev, slowest.config.Egress})
			}
		}
	}
	return list
}

// restoreOffload gives a device its former limit back.
func (a *Agent) restoreOffload(dev discover.Device) {
	if a.opts.RestoreOffload == nil {
		return
	}
	if err := a.opts.RestoreOffload(dev); err != nil {
		a.log.Warn("the former size of offloaded packets is not set again; weir cleanup tries it", "device", dev.Name, "err", err)
	}
}
