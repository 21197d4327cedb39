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
	add(15, "vlan", "eth1.9", 3, 0, here)
	var names []string
	for _, dev := range above(all, 2) {
		names = append(names, dev.Name)
	}
	if want := []string{"lo", "bond0", "bond0.7", "br7", "macsec0", "fwln", "fwpr", "wg0", "br-int", "mac0"}; !slices.Equal(names, want) {
		t.Errorf("above eth0: %q, want %q", names, want)
	}
}
