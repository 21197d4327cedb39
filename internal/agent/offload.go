// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"log/slog"

	"weir/internal/agent/decide"
	"weir/internal/discover"
	"weir/internal/policy"
)

// offload is what a workload's device was last told.
type offload struct {
	device   discover.Device
	capacity policy.Rate
}

// offloads are the limits of the size of offloaded packets that are set.
type offloads struct {
	log     *slog.Logger
	limit   func(dev discover.Device, capacity policy.Rate) error // nil = packets stay as they are
	restore func(dev discover.Device) error                       // nil = a limit stays
	told    map[int]offload                                       // by the device's index
}

// follow keeps the packets that steered workloads build small enough for
// the slowest link: a packet of 64 KB, as segmentation offload makes them, keeps
// a link of 100 Mbit/s busy for 5 ms, in which no other workload sends. The limit
// belongs on the workload's own end, so devices without a known other end (taps)
// are left alone. It does not fail anything: without it, only others wait longer.
// A device that belongs to no steered workload any more gets its former limit back.
func (o *offloads) follow(verdicts []decide.Verdict, ls links) {
	if o.limit == nil {
		return
	}
	told := map[int]offload{}
	for _, want := range limitsFor(verdicts, ls) {
		before, known := o.told[want.device.Ifindex]
		if known && before.capacity == want.capacity {
			told[want.device.Ifindex] = before
			continue
		}
		if err := o.limit(want.device, want.capacity); err == nil {
			told[want.device.Ifindex] = want
			continue
		} else { // perhaps not up yet; the next decision tries again
			o.log.Debug("the size of offloaded packets is not limited", "device", want.device.Name, "err", err)
		}
		if known {
			told[want.device.Ifindex] = before
		}
	}
	for index, was := range o.told {
		if _, still := told[index]; !still {
			o.giveBack(was.device)
		}
	}
	o.told = told
}

// limitsFor returns the limits of all devices of steered workloads.
func limitsFor(verdicts []decide.Verdict, ls links) []offload {
	var slowest policy.Rate
	for _, l := range ls { // that of ingress has the same rate of egress
		if rate := l.config.Egress; rate != 0 && (slowest == 0 || rate < slowest) {
			slowest = rate
		}
	}
	if slowest == 0 {
		return nil
	}
	var list []offload
	for _, v := range verdicts {
		for _, dev := range v.Devices {
			if v.Steered && dev.PeerNetns != "" {
				list = append(list, offload{dev, slowest})
			}
		}
	}
	return list
}

// giveBack gives a device its former limit back.
func (o *offloads) giveBack(dev discover.Device) {
	if o.restore == nil {
		return
	}
	if err := o.restore(dev); err != nil {
		o.log.Warn("the former size of offloaded packets is not set again; weir cleanup tries it", "device", dev.Name, "err", err)
	}
}
