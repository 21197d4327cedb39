// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// bridge makes a bridge that forwards from the first packet on.
func (n *Net) bridge(ns *NS, name string) error {
	snooping := false
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, n.spec.MTU
	if err := ns.link.LinkAdd(&netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}); err != nil {
		return fmt.Errorf("make bridge %s in %s: %w", name, ns.Name, err)
	}
	return ns.up(name)
}

// veth makes a pair: device, a port of bridge (if that is not "") in ns a, and peer in ns b with
// the given address (nil: any). Both are up, without offload unless asked for.
func (n *Net) veth(a *NS, device, bridge string, b *NS, peer string, addr net.HardwareAddr) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = device, n.spec.MTU
	pair := &netlink.Veth{
		LinkAttrs: attrs, PeerName: peer, PeerMTU: uint32(n.spec.MTU),
		PeerHardwareAddr: addr, PeerNamespace: netlink.NsFd(b.handle),
	}
	if err := a.link.LinkAdd(pair); err != nil {
		return fmt.Errorf("make veth %s to %s: %w", device, b.Name, err)
	}
	if bridge != "" {
		if err := a.enslave(device, bridge); err != nil {
			return err
		}
	}
	for _, end := range []struct {
		ns   *NS
		name string
	}{{a, device}, {b, peer}} {
		if !n.spec.Offload {
			if err := end.ns.Do(func() error { return noOffload(end.name) }); err != nil {
				return err
			}
		}
		if err := end.ns.up(end.name); err != nil {
			return err
		}
	}
	return nil
}

func (n *NS) find(device string) (netlink.Link, error) {
	l, err := n.link.LinkByName(device)
	if err != nil {
		return nil, fmt.Errorf("find device %s in %s: %w", device, n.Name, err)
	}
	return l, nil
}

func (n *NS) up(device string) error {
	l, err := n.find(device)
	if err != nil {
		return err
	}
	if err := n.link.LinkSetUp(l); err != nil {
		return fmt.Errorf("bring up %s in %s: %w", device, n.Name, err)
	}
	return nil
}

func (n *NS) enslave(device, bridge string) error {
	l, err := n.find(device)
	if err != nil {
		return err
	}
	br, err := n.find(bridge)
	if err != nil {
		return err
	}
	if err := n.link.LinkSetMaster(l, br); err != nil {
		return fmt.Errorf("connect %s to %s in %s: %w", device, bridge, n.Name, err)
	}
	return nil
}

func (n *NS) address(device string, ip net.IP) error {
	l, err := n.find(device)
	if err != nil {
		return err
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: prefixMask}}
	if err := n.link.AddrAdd(l, addr); err != nil {
		return fmt.Errorf("give %s in %s the address %v: %w", device, n.Name, ip, err)
	}
	return nil
}

// neighbour makes the address known without asking for it.
func (n *NS) neighbour(device string, ip net.IP, addr net.HardwareAddr) error {
	l, err := n.find(device)
	if err != nil {
		return err
	}
	entry := &netlink.Neigh{
		LinkIndex: l.Attrs().Index, Family: unix.AF_INET, State: netlink.NUD_PERMANENT, IP: ip, HardwareAddr: addr,
	}
	if err := n.link.NeighSet(entry); err != nil {
		return fmt.Errorf("set neighbour %v in %s: %w", ip, n.Name, err)
	}
	return nil
}

// learn tells the bridge behind which of its ports an address is.
func (n *NS) learn(port string, addr net.HardwareAddr) error {
	l, err := n.find(port)
	if err != nil {
		return err
	}
	entry := &netlink.Neigh{
		LinkIndex: l.Attrs().Index, Family: unix.AF_BRIDGE, State: netlink.NUD_NOARP, // "static"; permanent would mean the bridge itself
		Flags: netlink.NTF_MASTER, HardwareAddr: addr,
	}
	if err := n.link.NeighSet(entry); err != nil {
		return fmt.Errorf("set bridge entry %v at %s in %s: %w", addr, port, n.Name, err)
	}
	return nil
}

// Ifindex of a device in the namespace.
func (n *NS) Ifindex(device string) (int, error) {
	l, err := n.find(device)
	if err != nil {
		return 0, err
	}
	return l.Attrs().Index, nil
}
