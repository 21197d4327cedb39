// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"

	"github.com/vishvananda/netlink"

	"weir/internal/host/dump"
)

// pairs are kinds of devices whose "parent" is their other end, perhaps in another namespace.
var pairs = []string{"veth", "netkit", "vxcan"}

// apart are kinds of devices from which packets come to a link by routing, or by the flows of
// an Open vSwitch, and which the kernel does not call its children. A macvlan hands a frame for
// another one of the same parent back to the host, which may forward it, as lo does.
var apart = []string{
	"vxlan", "geneve", "bareudp", "gre", "gretap", "erspan", "ip6gre", "ip6gretap", "ip6erspan", "ipip", "sit", "ip6tnl",
	"vti", "vti6", "xfrm", "wireguard", "ovpn", "ppp", "gtp", "amt", "pfcp", "hsr", "openvswitch",
	"macvlan", "macvtap", "ipvlan", "ipvtap",
}

// tunnelOfNoKind reports whether a device has neither a kind nor hardware, as those of L2TP
// (l2tpeth). Kernels before 5.14 do not tell hardware.
func tunnelOfNoKind(dev netlink.Link, told bool) bool {
	return told && dev.Type() == "device" && dev.Attrs().ParentDev == ""
}

// Above returns the devices by which packets of sockets of this host may come to a link: lo,
// those that stand on the link (bridge, bond, team, VLAN, macsec and the like), all tunnels,
// macvlans and ports of an Open vSwitch, pairs with both ends here, but for those of IFB, and what
// stands on any of these.
func (c *Conn) Above(link Device) ([]Device, error) {
	all, err := dump.Whole(c.links.LinkList)
	if err != nil {
		return nil, Explain("list the network devices", err)
	}
	return above(all, link.Index), nil
}

func above(all []netlink.Link, link int) (list []Device) {
	ends := []int{link}
	told := slices.ContainsFunc(all, func(dev netlink.Link) bool { return dev.Attrs().ParentDev != "" })
	for _, dev := range all {
		attrs := dev.Attrs()
		inside := slices.Contains(pairs, dev.Type()) && attrs.ParentIndex != 0 && attrs.NetNsID < 0
		if attrs.Index != link && (attrs.Index == loopback || inside || slices.Contains(apart, dev.Type()) || tunnelOfNoKind(dev, told)) {
			ends = append(ends, attrs.Index)
		}
	}
	stacked := onTop(all, ends, func(kind string) bool { return !slices.Contains(pairs, kind) })
	for _, dev := range all {
		if attrs := dev.Attrs(); attrs.Index != link && slices.Contains(stacked, attrs.Index) && !IsIFBName(attrs.Name) {
			list = append(list, fromAttrs(attrs))
		}
	}
	return list
}

// loopback is the index of lo in every network namespace.
const loopback = 1

// onTop returns the indices of some devices, and behind them those of the devices on top of them.
// stands says which kinds of devices stand on the one that the kernel calls their parent.
func onTop(all []netlink.Link, ends []int, stands func(kind string) bool) []int {
	found := slices.Clone(ends)
	for i := 0; i < len(found); i++ {
		for _, dev := range all {
			attrs := dev.Attrs()
			// The parent may be in another namespace.
			child := attrs.ParentIndex == found[i] && attrs.NetNsID < 0 && stands(dev.Type())
			holds := attrs.Index == found[i] && attrs.MasterIndex != 0
			switch {
			case child && !slices.Contains(found, attrs.Index):
				found = append(found, attrs.Index)
			case holds && !slices.Contains(found, attrs.MasterIndex):
				found = append(found, attrs.MasterIndex)
			}
		}
	}
	return found
}

// Below returns the devices of this host that carry what a link sends: the ports of a bond or a
// team, the device that a VLAN, a macvlan and the like stand on, and what is below these.
func Below(c *Conn, link Device) ([]Device, error) {
	all, err := dump.Whole(c.links.LinkList)
	if err != nil {
		return nil, Explain("list the network devices", err)
	}
	return below(all, link.Index), nil
}

func below(all []netlink.Link, link int) (list []Device) {
	found := []int{link}
	for i := 0; i < len(found); i++ {
		parent, joined := 0, false
		for _, dev := range all {
			if attrs := dev.Attrs(); attrs.Index == found[i] {
				joined = slices.Contains([]string{"bond", "team"}, dev.Type())
				if attrs.NetNsID < 0 && !slices.Contains(pairs, dev.Type()) {
					parent = attrs.ParentIndex
				}
			}
		}
		for _, dev := range all {
			attrs := dev.Attrs()
			if (attrs.Index == parent || joined && attrs.MasterIndex == found[i]) && !slices.Contains(found, attrs.Index) {
				found, list = append(found, attrs.Index), append(list, fromAttrs(attrs))
			}
		}
	}
	return list
}
