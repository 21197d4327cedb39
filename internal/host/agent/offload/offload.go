// SPDX-License-Identifier: Apache-2.0

// Package offload keeps the packets small that workloads with a reservation build. Links split
// the packets of all workloads that are too long for them (bpf/marking/split.h). But the frames of
// a packet of 64 KB, as segmentation offload makes them, come at once: at 7.5 Mbit/s they are
// 70 ms, of which CoDel drops some, and TCP then waits for its timer, in which the workload is
// below its reservation.
//
// Example: of two links of 1 Gbit/s and 20 Mbit/s, Follow(rulings, 20_000_000) tells the
// devices of workloads with a reservation the limit for 20 Mbit/s, and no other device anything.
package offload

import (
	"log/slog"

	"weir/internal/core/policy"
	"weir/internal/host/agent/decide"
	"weir/internal/host/discover"
)

// limit is what a workload's device was last told.
type limit struct {
	device   discover.Device
	capacity policy.Rate
}

// Limits are the limits of the size of offloaded packets that are set.
type Limits struct {
	Log *slog.Logger
	// Set keeps what a workload sends through a device in packets that suit a link of the given
	// capacity; nil = packets stay as they are.
	Set func(dev discover.Device, capacity policy.Rate) error
	// Restore undoes Set; nil = a limit stays.
	Restore func(dev discover.Device) error
	// RestoreOthers undoes what a former agent has set, but for what is sent through devices
	// with these indexes; nil = all that stays.
	RestoreOthers func(except []int) error

	told   map[int]limit // by the device's index
	others bool          // RestoreOthers has been called
}

// Follow limits what workloads with a reservation send over a slowest link of the given rate, 0 =
// there is none. The limit belongs on the workload's own end, so devices without a known other end
// (taps) are left alone. It does not fail anything: without it, only the workload itself is
// served less evenly. A device that belongs to no such workload any more gets its former limit
// back.
func (o *Limits) Follow(rulings []decide.Ruling, slowest policy.Rate) {
	if o.Set == nil {
		return
	}
	told, wanted := map[int]limit{}, limitsFor(rulings, slowest)
	o.giveOthersBack(wanted)
	for _, want := range wanted {
		if want.device.PeerNetns == "" {
			continue
		}
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

// limitsFor returns the limits of all devices of steered workloads with a reservation.
func limitsFor(rulings []decide.Ruling, slowest policy.Rate) []limit {
	if slowest == 0 {
		return nil
	}
	var list []limit
	for _, v := range rulings {
		if !v.Steered || v.Policy.Reserved(slowest) == 0 {
			continue
		}
		for _, dev := range v.Devices {
			list = append(list, limit{dev, slowest})
		}
	}
	return list
}

// giveOthersBack gives back, once, what a former agent has limited and is not wanted now. Where
// the other ends of the wanted devices are is not known before their source has reported.
func (o *Limits) giveOthersBack(wanted []limit) {
	if o.RestoreOthers == nil || o.others {
		return
	}
	o.others = true
	var except []int
	for _, l := range wanted {
		except = append(except, l.device.Ifindex)
	}
	if err := o.RestoreOthers(except); err != nil {
		o.Log.Warn("a size of offloaded packets that a former agent has changed is not set again; weir cleanup tries it", "err", err)
	}
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
