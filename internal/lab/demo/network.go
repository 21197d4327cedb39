// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"net"
	"os"
	"os/exec"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"weir/internal/base/nsthread"
)

// Names and addresses of the private host.
const (
	uplink          = "up0"
	hostAddress     = "10.99.0.1/30"
	receiverAddress = "10.99.0.2"
	receiverDevice  = "eth0"

	bridgeDevice  = "br0" // where workloads are namespaces; Docker brings its own
	bridgeAddress = "10.98.0.1"
)

// namespace is a network namespace that is not the process's own.
type namespace struct {
	name   string
	handle netns.NsHandle
	link   *netlink.Handle // speaks netlink inside
}

// newNamespace makes a network namespace that is known by name under /run/netns.
func newNamespace(name string) (*namespace, error) {
	n := &namespace{name: name}
	err := nsthread.Do(func() (err error) {
		if n.handle, err = netns.NewNamed(name); err != nil {
			return err
		}
		n.link, err = netlink.NewHandleAt(n.handle, unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make network namespace %s: %w", name, err)
	}
	return n, up(n.link, "lo")
}

// do runs f inside the namespace.
func (n *namespace) do(f func() error) error {
	return nsthread.In(n.handle, f)
}

// start starts a program inside the namespace.
func (n *namespace) start(cmd *exec.Cmd) error { return n.do(cmd.Start) }

// connect makes a veth pair between device on the host and eth0 in the
// namespace, which gets an address and a default route.
func (n *namespace) connect(host *netlink.Handle, device, address, gateway string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = device
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: receiverDevice, PeerNamespace: netlink.NsFd(n.handle)}
	if err := host.LinkAdd(pair); err != nil {
		return fmt.Errorf("make veth %s to %s: %w", device, n.name, err)
	}
	if err := give(n.link, receiverDevice, address); err != nil {
		return fmt.Errorf("namespace %s: %w", n.name, err)
	}
	route := &netlink.Route{Gw: net.ParseIP(gateway)}
	if err := n.link.RouteAdd(route); err != nil {
		return fmt.Errorf("namespace %s: default route by %s: %w", n.name, gateway, err)
	}
	return nil
}

// up brings a device up.
func up(h *netlink.Handle, device string) error {
	l, err := h.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find device %s: %w", device, err)
	}
	if err := h.LinkSetUp(l); err != nil {
		return fmt.Errorf("bring up %s: %w", device, err)
	}
	return nil
}

// give gives a device an address such as 10.0.0.1/24 and brings it up.
func give(h *netlink.Handle, device, address string) error {
	l, err := h.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find device %s: %w", device, err)
	}
	addr, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	if err := h.AddrAdd(l, addr); err != nil {
		return fmt.Errorf("give %s the address %s: %w", device, address, err)
	}
	return up(h, device)
}

// network is the private host's.
type network struct {
	host     *netlink.Handle
	receiver *namespace
}

// buildNetwork makes the uplink and the receiver behind it. The workloads connect
// themselves.
func buildNetwork() (*network, error) {
	host, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	if err := up(host, "lo"); err != nil {
		return nil, err
	}
	// The host routes between the workloads and its uplink, as Docker's do.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return nil, fmt.Errorf("switch forwarding on: %w", err)
	}
	receiver, err := newNamespace("receiver")
	if err != nil {
		return nil, err
	}
	gateway, _, _ := net.ParseCIDR(hostAddress)
	if err := receiver.connect(host, uplink, receiverAddress+"/30", gateway.String()); err != nil {
		return nil, err
	}
	return &network{host, receiver}, give(host, uplink, hostAddress)
}

// addBridge makes the bridge for workloads that are namespaces.
func (n *network) addBridge() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = bridgeDevice
	if err := n.host.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return fmt.Errorf("make bridge %s: %w", bridgeDevice, err)
	}
	return give(n.host, bridgeDevice, bridgeAddress+"/24")
}

// plugIn connects a namespace with the bridge as its nth.
func (n *network) plugIn(ns *namespace, nth int) error {
	device := "v-" + ns.name
	address := net.IPv4(10, 98, 0, byte(2+nth))
	if err := ns.connect(n.host, device, address.String()+"/24", bridgeAddress); err != nil {
		return err
	}
	port, err := n.host.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find device %s: %w", device, err)
	}
	bridge, err := n.host.LinkByName(bridgeDevice)
	if err != nil {
		return fmt.Errorf("find device %s: %w", bridgeDevice, err)
	}
	if err := n.host.LinkSetMaster(port, bridge); err != nil {
		return fmt.Errorf("connect %s to %s: %w", device, bridgeDevice, err)
	}
	return up(n.host, device)
}
