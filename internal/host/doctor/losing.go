// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/mark/chain"
	"weir/internal/host/dump"
)

// Where packets lose their class (bpf/marking/seal.h): in tunnels of WireGuard, in Open vSwitch,
// and by a filter of tc that ends with OK, which writes a class id of its own into the same field.

// lookLosing finds the devices in which packets lose what they carry, and returns the indexes of
// those between workloads and links. Of ports, the devices of workloads, and of links only the side
// counts by which workloads send.
func lookLosing(ports, links []string) (losing []Losing, way []int, err error) {
	devices, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return nil, nil, err
	}
	filters, err := device.EndingOK(devices, ports, links)
	if err != nil {
		return nil, nil, err
	}
	programs := chain.Names{}
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
		// At ports and links Weir's program goes first, and writes the seal anew.
		if slices.Contains(ports, name) || slices.Contains(links, name) || !device.Between(d) {
			continue
		}
		way = append(way, d.Attrs().Index)
		if program := programs.At(d.Attrs().Index); program != "" {
			losing = append(losing, Losing{Name: name, Program: program})
		}
	}
	return losing, way, nil
}

// trouble says what a device does to the class of packets and what helps, "" if nothing with this
// mask.
func (l Losing) trouble(mask plan.Mask) (seen, remedy string) {
	const bits = "have the agent take bits of the mark that no other program here uses, mark_mask: auto in weir.yaml, which "
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
	if l.Program != "" {
		return fmt.Sprintf("the tcx program %q of another owner may end its chain with TCX_PASS, by which packets lose their class and count as the host's", l.Program),
			"have it return TCX_NEXT; or " + bits + "tcx programs keep"
	}
	return fmt.Sprintf("the filter %s of another program may end with OK, by which packets lose their class and count as the host's", l.Filter),
		"have it end with pipe or continue, or put a tcx program in its place; or " + bits + "filters keep"
}

// Trouble is a condition of the host, as a problem has it.
type Trouble struct{ About, Seen, Remedy string }

// ClassLosses are where packets of workloads lose their class.
type ClassLosses struct {
	Troubles  []Trouble
	Way       []int  // indexes of the devices between workloads and links
	Revisions uint64 // of Way
}

// LookLosses returns where packets of workloads lose their class with a mask. Ports are the devices
// of workloads, links those that the agent steers.
func LookLosses(mask plan.Mask, ports, links []string) (l ClassLosses, err error) {
	losing, way, err := lookLosing(ports, links)
	l.Way, l.Revisions = way, Revisions(way)
	for _, at := range losing {
		if seen, remedy := at.trouble(mask); seen != "" {
			l.Troubles = append(l.Troubles, Trouble{at.Name, seen, remedy})
		}
	}
	return l, err
}

// Revisions changes with each tcx program that comes to, or goes from, one of the devices: the
// kernel sends no notice.
func Revisions(way []int) (sum uint64) {
	for _, index := range way {
		sum = sum*31 + chain.Revision(index)
	}
	return sum
}

// MarkTrouble returns what other programs do with the bits of a mask, which the agent has chosen
// with auto; Seen is "" if they do nothing.
func MarkTrouble(ctx context.Context, mask plan.Mask, auto bool) Trouble {
	if mask == 0 && !auto {
		return Trouble{}
	}
	h := Host{Marks: lookMarks(ctx)}
	if auto {
		return h.autoTrouble(mask)
	}
	if seen := h.clashText(mask); seen != "" {
		taken, clashing := h.otherMarks(uint32(mask))
		return Trouble{"mark_mask", seen, clashing[0].remedy(taken)}
	}
	if len(h.Marks.Unread) > 0 {
		return Trouble{"mark_mask", h.unreadText(mask), "see that the agent can run nft or iptables-save, or leave mark_mask out"}
	}
	return Trouble{}
}

// clashText says what others do with the bits of a mask, "" if nothing.
func (h Host) clashText(mask plan.Mask) string {
	_, clashing := h.otherMarks(uint32(mask))
	if len(clashing) == 0 {
		return ""
	}
	seen := clashing[0].clash(mask)
	if clashing[0].Rule != "" {
		seen = "a rule of another program " + seen
	}
	if more := len(clashing) - 1; more > 0 {
		seen += fmt.Sprintf(" (and %d more, which weir doctor lists)", more)
	}
	return seen
}

func (h Host) unreadText(mask plan.Mask) string {
	return fmt.Sprintf("it cannot be told whether others use Weir's bits %#x of the mark: %v", uint32(mask), h.Marks.Unread[0])
}
