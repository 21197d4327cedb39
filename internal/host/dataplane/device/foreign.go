// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"weir/internal/host/dump"
)

// EndingOK returns, by device, a filter of another program that may end with OK between a workload
// and a link: the kernel writes the filter's class id over the seal then (bpf/marking/seal.h). Of
// ports, the devices of workloads, and of links only the side counts by which workloads send.
func EndingOK(devices []netlink.Link, ports, links []string) (map[string]string, error) {
	filtered, err := filteredDevices()
	if err != nil {
		return nil, Explain("list the qdiscs", err)
	}
	found := map[string]string{}
	for _, d := range devices {
		name := d.Attrs().Name
		if !filtered[d.Attrs().Index] {
			continue
		}
		for _, parent := range parentsOnTheWay(d, slices.Contains(ports, name), slices.Contains(links, name)) {
			filters, err := netlink.FilterList(d, parent)
			if err != nil {
				continue // the device, or the place for filters, is gone
			}
			if i := slices.IndexFunc(filters, mayEndOK); i >= 0 {
				found[name] = filterText(filters[i])
				break
			}
		}
	}
	return found, nil
}

// filteredDevices returns the indexes of the devices that have a place for filters.
func filteredDevices() (map[int]bool, error) {
	qdiscs, err := dump.Whole(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(nil) })
	have := map[int]bool{}
	for _, q := range qdiscs {
		if q.Type() == "clsact" || q.Type() == "ingress" {
			have[q.Attrs().LinkIndex] = true
		}
	}
	return have, err
}

// parentsOnTheWay returns the places of a device that packets pass between a workload and a link.
func parentsOnTheWay(d netlink.Link, port, link bool) []uint32 {
	switch {
	case port:
		return []uint32{netlink.HANDLE_MIN_INGRESS}
	case link:
		return []uint32{netlink.HANDLE_MIN_EGRESS}
	case !Between(d):
		return nil
	}
	return []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS}
}

// Between reports whether a device that is neither a workload's nor a link may be on the way from
// one to the other, by its kind: a bridge, a VLAN, a tunnel.
func Between(d netlink.Link) bool {
	return !slices.Contains([]string{"device", "veth", "tuntap", "tun", "ifb", "dummy"}, d.Type())
}

// mayEndOK reports whether a filter that is not Weir's may have the kernel write a class id. One
// that drops, steals, redirects or goes on with the next one does not.
func mayEndOK(f netlink.Filter) bool {
	var actions []netlink.Action
	switch f := f.(type) {
	case *netlink.BpfFilter:
		if strings.HasPrefix(f.Name, ownPrefix) {
			return false
		}
		return true // with direct action the program says it, and without, the actions are not listed
	case *netlink.U32:
		actions = f.Actions
	case *netlink.Flower:
		actions = f.Actions
	case *netlink.MatchAll:
		actions = f.Actions
	case *netlink.FwFilter:
		actions = f.Actions
	}
	if len(actions) == 0 {
		return true
	}
	return slices.ContainsFunc(actions, func(a netlink.Action) bool {
		if p, ok := a.(*netlink.PoliceAction); ok && endsOK(netlink.TcAct(p.NotExceedAction)) {
			return true
		}
		return endsOK(a.Attrs().Action)
	})
}

// ownPrefix is what the names of Weir's filters begin with.
const ownPrefix = "weir"

func endsOK(action netlink.TcAct) bool {
	return action == netlink.TC_ACT_OK || action == netlink.TC_ACT_RECLASSIFY
}

// filterText names a filter as tc does.
func filterText(f netlink.Filter) string {
	text := fmt.Sprintf("%s pref %d", f.Type(), f.Attrs().Priority)
	if b, ok := f.(*netlink.BpfFilter); ok {
		text += " " + b.Name
	}
	return text
}
