// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"

	"weir/internal/dataplane/device"
	"weir/internal/dump"
	"weir/internal/plan"
)

// Where packets lose their class (bpf/marking/seal.h): in tunnels of WireGuard, in Open vSwitch, and
// by a filter of tc that ends with OK, which writes a class id of its own into the same field.

// lookLosing finds the devices in which packets lose what they carry. Of ports, the devices of
// workloads, and of links only the side counts by which workloads send.
func lookLosing(ports, links []string) (losing []Losing, err error) {
	devices, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return nil, err
	}
	filters, err := device.EndingOK(devices, ports, links)
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		name, up := d.Attrs().Name, d.Attrs().Flags&net.FlagUp != 0
		switch kind := d.Type(); {
		case kind == "wireguard" && up && !slices.Contains(links, name), // of a link its packets are told apart before
			kind == "openvswitch" && up && name != "ovs-system":
			losing = append(losing, Losing{Name: name, Kind: kind})
		}
		if filter := filters[name]; filter != "" {
			losing = append(losing, Losing{Name: name, Filter: filter})
		}
	}
	return losing, nil
}

// trouble says what a device does to the class of packets and what helps, "" if nothing with this
// mask.
func (l Losing) trouble(mask plan.Mask) (seen, remedy string) {
	const bits = "name bits of the mark that no other program here uses, mark_mask in weir.yaml, which "
	switch {
	case l.Kind == "wireguard":
		return "a WireGuard tunnel forgets whose packet it has encrypted, the mark too: what workloads send through it counts as the host's",
			"name the tunnel as a link in weir.yaml, with the limits there, or run it inside of the workload"
	case mask != 0:
		return "", ""
	case l.Kind == "openvswitch":
		return "packets that the daemon of Open vSwitch decides on, the first ones of a flow, lose their class and count as the host's",
			bits + "Open vSwitch keeps"
	}
	return fmt.Sprintf("the filter %s of another program may end with OK, by which packets lose their class and count as the host's", l.Filter),
		"have it end with pipe or continue, or put a tcx program in its place; or " + bits + "filters keep"
}

// Trouble is a condition of the host, as a problem has it.
type Trouble struct{ About, Seen, Remedy string }

// Losses returns where packets of workloads lose their class with a mask. Ports are the devices of
// workloads, links those that the agent steers.
func Losses(mask plan.Mask, ports, links []string) (list []Trouble, err error) {
	losing, err := lookLosing(ports, links)
	for _, l := range losing {
		if seen, remedy := l.trouble(mask); seen != "" {
			list = append(list, Trouble{l.Name, seen, remedy})
		}
	}
	return list, err
}

// MarkTrouble returns what other programs do with the bits of a mask; Seen is "" if they do nothing.
func MarkTrouble(ctx context.Context, mask plan.Mask) Trouble {
	if mask == 0 {
		return Trouble{}
	}
	h := Host{Marks: lookMarks(ctx)}
	taken, clashing := h.otherMarks(uint32(mask))
	switch {
	case len(clashing) > 0:
		seen := "a rule of another program " + clashing[0].clash(mask)
		if clashing[0].Rule == "" {
			seen = clashing[0].clash(mask)
		}
		if more := len(clashing) - 1; more > 0 {
			seen += fmt.Sprintf(" (and %d more, which weir doctor lists)", more)
		}
		return Trouble{"mark_mask", seen, clashing[0].remedy(taken)}
	case len(h.Marks.Unread) > 0:
		return Trouble{"mark_mask", fmt.Sprintf("it cannot be told whether others use Weir's bits %#x of the mark: %v", uint32(mask), h.Marks.Unread[0]),
			"see that the agent can run nft or iptables-save, or leave mark_mask out"}
	}
	return Trouble{}
}
