// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

// What stands on a link or sends by it is above it. A container's veth and a bridge of containers
// alone are not.
func TestAbove(t *testing.T) {
	var all []netlink.Link
	add := func(index int, kind, name string, parent, master, namespace int) {
		all = append(all, &netlink.GenericLink{LinkType: kind, LinkAttrs: netlink.LinkAttrs{
			Index: index, Name: name, ParentIndex: parent, MasterIndex: master, NetNsID: namespace}})
	}
	const here = -1
	add(1, "device", "lo", 0, 0, here)
	add(2, "device", "eth0", 0, 4, here)
	add(3, "device", "eth1", 0, 0, here)
	add(4, "bond", "bond0", 0, 0, here)
	add(5, "vlan", "bond0.7", 4, 6, here)
	add(6, "bridge", "br7", 0, 0, here)
	add(7, "macsec", "macsec0", 6, 0, here)
	add(8, "bridge", "docker0", 0, 0, here)
	add(9, "veth", "of-a-container", 2, 8, 0) // eth0 of another namespace
	add(10, "veth", "fwln", 11, 0, here)
	add(11, "veth", "fwpr", 10, 6, here)
	add(12, "wireguard", "wg0", 0, 0, here)
	add(13, "openvswitch", "br-int", 0, 0, here)
	add(14, "macvlan", "mac0", 2, 0, here)
	add(16, "macvlan", "mac1", 3, 0, here)
	add(15, "vlan", "eth1.9", 3, 0, here)
	add(17, "veth", "weir-in-eth0", 18, 0, here) // sockets send nothing there
	add(18, "veth", "weir-ib-eth0", 17, 0, here)
	var names []string
	for _, dev := range above(all, 2) {
		names = append(names, dev.Name)
	}
	if want := []string{"lo", "bond0", "bond0.7", "br7", "macsec0", "fwln", "fwpr", "wg0", "br-int", "mac0", "mac1"}; !slices.Equal(names, want) {
		t.Errorf("above eth0: %q, want %q", names, want)
	}
}

// Each kind of device by which what a socket sends may come to a link is above it, though it stands
// on another one or on none.
func TestKindsAbove(t *testing.T) {
	const here = -1
	hardware := netlink.LinkAttrs{ParentDev: "0000:01:00.0"}
	for _, c := range []struct {
		kind  string
		attrs netlink.LinkAttrs
		want  bool
	}{
		{"ppp", netlink.LinkAttrs{}, true},
		{"gtp", netlink.LinkAttrs{}, true},
		{"ovpn", netlink.LinkAttrs{}, true},
		{"wireguard", netlink.LinkAttrs{}, true},
		{"xfrm", netlink.LinkAttrs{}, true},
		{"sit", netlink.LinkAttrs{}, true},
		{"amt", netlink.LinkAttrs{}, true},
		{"pfcp", netlink.LinkAttrs{}, true},
		{"hsr", netlink.LinkAttrs{}, true},
		{"device", netlink.LinkAttrs{}, true}, // l2tpeth
		{"device", hardware, false},           // another card
		{"macvlan", netlink.LinkAttrs{ParentIndex: 3}, true},
		{"macvtap", netlink.LinkAttrs{ParentIndex: 3}, true},
		{"ipvlan", netlink.LinkAttrs{ParentIndex: 3}, true},
		{"ipvtap", netlink.LinkAttrs{ParentIndex: 3}, true},
		{"vlan", netlink.LinkAttrs{ParentIndex: 3}, false},
		{"bridge", netlink.LinkAttrs{}, false},
		{"dummy", netlink.LinkAttrs{}, false},
		{"tun", netlink.LinkAttrs{}, false}, // a program sends what comes by it, by its own sockets
		{"ifb", netlink.LinkAttrs{}, false}, // another program refuses sockets there
	} {
		c.attrs.Index, c.attrs.Name, c.attrs.NetNsID = 9, c.kind, here
		device := func(index int, name string) netlink.Link {
			return &netlink.GenericLink{LinkType: "device", LinkAttrs: netlink.LinkAttrs{Index: index, Name: name, NetNsID: here, ParentDev: "0000:00:00." + name}}
		}
		all := []netlink.Link{device(1, "lo"), device(2, "eth0"), device(3, "eth1"), &netlink.GenericLink{LinkType: c.kind, LinkAttrs: c.attrs}}
		got := slices.ContainsFunc(above(all, 2), func(d Device) bool { return d.Index == 9 })
		if got != c.want {
			t.Errorf("%s %+v: above %v, want %v", c.kind, c.attrs.ParentDev, got, c.want)
		}
	}
	// Where no device says what hardware it is, those without a kind are taken for hardware.
	bare := &netlink.GenericLink{LinkType: "device", LinkAttrs: netlink.LinkAttrs{Index: 9, Name: "eth9", NetNsID: here}}
	if got := above([]netlink.Link{bare}, 2); len(got) > 0 {
		t.Errorf("above on an old kernel: %v", got)
	}
}

// Below a link are the devices that carry what it sends: the ports of a bond or team, what a VLAN
// or a macvlan stands on. Ports of a bridge carry what the bridge chooses, and a veth's other end
// is no device below.
func TestBelow(t *testing.T) {
	var all []netlink.Link
	add := func(index int, kind, name string, parent, master int) {
		all = append(all, &netlink.GenericLink{LinkType: kind, LinkAttrs: netlink.LinkAttrs{Index: index, Name: name, ParentIndex: parent, MasterIndex: master, NetNsID: -1}})
	}
	add(2, "device", "eth0", 0, 4)
	add(3, "device", "eth1", 0, 4)
	add(4, "bond", "bond0", 0, 0)
	add(5, "vlan", "bond0.7", 4, 6)
	add(6, "bridge", "br7", 0, 0)
	add(7, "veth", "a", 8, 6)
	add(8, "veth", "b", 7, 0)
	add(9, "macvlan", "mac0", 3, 0)
	for link, want := range map[int][]string{2: nil, 4: {"eth0", "eth1"}, 5: {"bond0", "eth0", "eth1"}, 6: nil, 8: nil, 9: {"eth1"}} {
		var names []string
		for _, dev := range below(all, link) {
			names = append(names, dev.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("below %d: %q, want %q", link, names, want)
		}
	}
}
