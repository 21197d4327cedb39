// SPDX-License-Identifier: Apache-2.0

package look

import (
	"slices"

	"github.com/vishvananda/netlink"

	"weir/internal/core/paths"
)

// seen is what was found in a workload's namespaces.
type seen struct {
	inside []paths.Interface
	past   string
	more   map[int]int64 // by the host's device: packets that got in there beyond those that left by it, at most
	still  int           // looks for which past stays though nothing more got past
}

const (
	// someMore is how many packets get past a port between two looks before that is said.
	someMore = 32
	// remembered is for how many looks it is said after that.
	remembered = 60
)

// look looks into the namespaces that a workload's devices lead into.
func (k kernel) look(h host, w paths.Workload, before seen) (now seen) {
	now = seen{past: before.past, still: before.still - 1, more: map[int]int64{}}
	if now.still <= 0 {
		now.past = ""
	}
	visited := map[int][]netlink.Link{}
	for _, index := range w.Devices {
		nsid, there := h.nsids[index]
		device := slices.IndexFunc(h.devices, func(d paths.Device) bool { return d.Index == index })
		if !there || nsid == noNsid || device < 0 || h.devices[device].Kind != "veth" && h.devices[device].Kind != "netkit" {
			continue
		}
		first, err := k.sent(index)
		if err != nil {
			continue // it has just gone
		}
		list, err := k.inside(nsid)
		if err != nil {
			continue
		}
		last, err := k.sent(index)
		if err != nil {
			continue
		}
		visited[nsid] = list
		end := slices.IndexFunc(list, func(l netlink.Link) bool { return l.Attrs().Index == h.devices[device].Parent })
		if end < 0 {
			continue
		}
		got := packets(list[end]).in // between the first and the last
		most, known := before.more[index]
		if known && int64(got-last) > most+someMore {
			now.past, now.still = h.devices[device].Name, remembered
		}
		now.more[index] = int64(got - first)
	}
	for nsid, list := range visited {
		now.inside = append(now.inside, k.interfaces(nsid, list)...)
	}
	slices.SortFunc(now.inside, func(a, b paths.Interface) int { return a.Index - b.Index })
	return now
}

// interfaces returns the devices of a namespace, but lo.
func (k kernel) interfaces(nsid int, list []netlink.Link) (inside []paths.Interface) {
	own := noNsid
	for _, entry := range list {
		in := paths.Interface{Device: deviceOf(entry)}
		if in.Index == loopback {
			continue
		}
		if in.Away {
			if own == noNsid {
				own = k.own()
			}
			to := entry.Attrs().NetNsID
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
	list, err := k.inside(nsid)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(list, func(l netlink.Link) bool {
		a := l.Attrs()
		switch {
		case a.Index == loopback:
			return false
		case a.NetNsID != noNsid:
			return a.NetNsID != but
		}
		return l.Type() == "device" || l.Type() == "tuntap"
	})
}
