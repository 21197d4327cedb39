// SPDX-License-Identifier: Apache-2.0

package look

import (
	"slices"

	"weir/internal/core/paths"
)

// seen is what was found in a workload's namespaces.
type seen struct {
	inside []paths.Interface
	past   string
	ends   map[int]end // by the host's device
	still  int         // looks for which past stays though nothing more got past
	quiet  bool        // nothing was received since the look before
}

// end is the inner end of a pair.
type end struct {
	more int64  // packets that got in there beyond those that left by the host's device, at most
	got  uint64 // packets that it has received
}

const (
	// someMore is how many packets get past a port between two looks before that is said.
	someMore = 32
	// remembered is for how many looks it is said after that.
	remembered = 60
)

// look looks into the namespaces that a workload's devices lead into.
func (k kernel) look(h host, w paths.Workload, before seen) (now seen) {
	now = seen{past: before.past, still: before.still - 1, ends: map[int]end{}, quiet: true}
	if now.still <= 0 {
		now.past = ""
	}
	visited := map[int][]entry{}
	for _, index := range w.Devices {
		nsid, there := h.nsids[index]
		device := slices.IndexFunc(h.devices, func(d paths.Device) bool { return d.Index == index })
		if !there || nsid == noNsid || device < 0 || h.devices[device].Kind != "veth" && h.devices[device].Kind != "netkit" {
			continue
		}
		former, known := before.ends[index]
		inner, list, err := k.end(nsid, h.devices[device], former, before.quiet)
		if err != nil {
			continue // it has just gone
		}
		visited[nsid] = list
		if inner.past(former) && known {
			now.past, now.still = h.devices[device].Name, remembered
		}
		now.ends[index] = inner.end
		now.quiet = now.quiet && known && inner.got == former.got
	}
	for nsid, list := range visited {
		now.inside = append(now.inside, k.interfaces(nsid, list)...)
	}
	slices.SortFunc(now.inside, func(a, b paths.Interface) int { return a.Index - b.Index })
	return now
}

// measured is the inner end of a pair and at least how many packets got in there beyond those that
// left by the host's device.
type measured struct {
	end
	least int64
}

// past reports whether packets got in there by another way since the former look.
func (m measured) past(former end) bool { return m.least > former.more+someMore }

// end measures the inner end of a host's device, and lists what else is in the namespace. Of one that
// was quiet and still is, nothing else is asked.
func (k kernel) end(nsid int, device paths.Device, former end, quiet bool) (m measured, list []entry, err error) {
	received := func() uint64 {
		if i := slices.IndexFunc(list, func(e entry) bool { return e.Index == device.Parent }); i >= 0 {
			return list[i].in
		}
		return former.got
	}
	if quiet {
		if list, err = k.list(nsid); err != nil || received() == former.got {
			return measured{end: former, least: former.more}, list, err
		}
	}
	first, err := k.sent(device.Index)
	if err == nil {
		list, err = k.list(nsid)
	}
	if err != nil {
		return m, nil, err
	}
	last, err := k.sent(device.Index)
	m.got = received() // between the first and the last
	m.more, m.least = int64(m.got-first), int64(m.got-last)
	return m, list, err
}

// interfaces returns the devices of a namespace, but lo.
func (k kernel) interfaces(nsid int, list []entry) (inside []paths.Interface) {
	own := noNsid
	for _, e := range list {
		in := paths.Interface{Device: e.Device}
		if in.Index == loopback {
			continue
		}
		if in.Away {
			if own == noNsid {
				own = k.own()
			}
			to := e.nsid
			in.Host = to == own
			if !in.Host && (in.Kind == "veth" || in.Kind == "netkit") {
				in.Out = k.leadsOut(to, nsid)
			}
		}
		inside = append(inside, in)
	}
	return inside
}

const loopback = 1 // index of lo in every network namespace

// leadsOut reports whether a namespace has a way out other than into another one.
func (k kernel) leadsOut(nsid, but int) bool {
	list, err := k.list(nsid)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(list, func(e entry) bool {
		switch {
		case e.Index == loopback:
			return false
		case e.nsid != noNsid:
			return e.nsid != but
		}
		return e.Kind == "device" || e.Kind == "tuntap"
	})
}
