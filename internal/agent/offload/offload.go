// SPDX-License-Identifier: Apache-2.0

// Package offload keeps the packets that workloads build small enough for the slowest link: a
// packet of 64 KB, as segmentation offload makes them, keeps a link of 100 Mbit/s busy for 5 ms,
// in which no other workload sends.
//
// Example: of two links of 1 Gbit/s and 20 Mbit/s, Follow(verdicts, 20_000_000) tells the
// devices of all steered workloads the limit for 20 Mbit/s.
package offload

import (
	"log/slog"

	"weir/internal/agent/decide"
	"weir/internal/discover"
	"weir/internal/policy"
)

// limit is what a workload's device was last told.
type limit struct {
	device   discover.Device
	capacity policy.Rate
}

// Limits are the limits of the size of offloaded packets that are set.
type Limits struct {
	Log     *slog.Logger
	Set     func(dev discover.Device, capacity policy.Rate) error // nil = packets stay as they are
	Restore func(dev discover.Device) error                       // nil = a limit stays

	told map[int]limit // by the device's index
}

// Follow limits what steered workloads send over a slowest link of the given rate, 0 = there is
// none. The limit belongs on the workload's own end, so devices without a known other end (taps)
// are left alone. It does not fail anything: without it, only others wait longer.
// A device that belongs to no steered workload any more gets its former limit back.
func (o *Limits) Follow(verdicts []decide.Verdict, slowest policy.Rate) {
	if o.Set == nil {
		return
	}
	told := map[int]limit{}
	for _, want := range limitsFor(verdicts, slowest) {
		before, known := o.told[want.device.Ifindex]
		if known && before.capacity == want.capacity {
			told[want.device.Ifindex] = before
			continue
		}
		if err := o.Set(want.device, want.capacity); err == nil {
			told[want.device.Ifindex] = want
			continue
		} else { // perhaps not up yet; the next decision tries again
			o.Log.Debug("the size of offloaded packets is not limited", "device", want.device.Name, "err", err)
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
func limitsFor(verdicts []decide.Verdict, slowest policy.Rate) []limit {
	if slowest == 0 {
		return nil
	}
	var list []limit
	for _, v := range verdicts {
		for _, dev := range v.Devices {
			if v.Steered && dev.PeerNetns != "" {
				list = append(list, limit{dev, slowest})
			}
		}
	}
	return list
}

// giveBack gives a device its former limit back.
func (o *Limits) giveBack(dev discover.Device) {
	if o.Restore == nil {
		return
	}
	if err := o.Restore(dev); err != nil {
		o.Log.Warn("the former size of offloaded packets is not set again; weir cleanup tries it", "device", dev.Name, "err", err)
	}
}
