// SPDX-License-Identifier: Apache-2.0

package clustertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"weir/internal/base/nsthread"
)

// Subnet of the nodes; the switch has .1, the nodes .11 and following.
const (
	Subnet        = "10.77.0.0/24"
	SwitchAddress = "10.77.0.1"
	prefix        = "10.77.0."
)

const cables = "br0" // the bridge between the nodes

// newSwitch makes the namespace with the bridge.
func newSwitch() (netns.NsHandle, error) {
	return nsthread.New(func() error {
		if err := up("lo", ""); err != nil {
			return err
		}
		return addBridge(cables, SwitchAddress)
	})
}

// addBridge makes a bridge in this thread's namespace.
func addBridge(name, addr string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return fmt.Errorf("make the switch %s: %w", name, err)
	}
	return up(name, addr)
}

// enslave makes a device a port of a bridge, and brings it up.
func enslave(port, bridge string) error {
	b, err := netlink.LinkByName(bridge)
	if err != nil {
		return err
	}
	l, err := netlink.LinkByName(port)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetMaster(l, b); err != nil {
		return err
	}
	return netlink.LinkSetUp(l)
}

// newHost makes a node's namespace, connected to the switch by port.
func newHost(sw netns.NsHandle, port, addr string) (netns.NsHandle, error) {
	host, err := nsthread.New(func() error { return up("lo", "") })
	if err != nil {
		return 0, err
	}
	err = nsthread.In(sw, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = port
		pair := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(host)}
		if err := netlink.LinkAdd(pair); err != nil {
			return fmt.Errorf("connect %s to the switch: %w", addr, err)
		}
		return enslave(port, cables)
	})
	if err == nil {
		err = nsthread.In(host, func() error {
			if err := up("eth0", addr); err != nil {
				return err
			}
			return netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(SwitchAddress)})
		})
	}
	return host, err
}

// AddBridge makes a second bridge beside the switch's, with an address of its own, for
// what shall not be cut with the cables.
func (c *Cluster) AddBridge(name, addr string) error {
	return nsthread.In(c.sw, func() error { return addBridge(name, addr) })
}

// Plug connects a machine of the caller's to the switch by a tap, which is gone when
// all copies of the file are closed. Cut and Join know it by the name.
func (c *Cluster) Plug(name string) (*os.File, error) { return c.PlugInto(cables, name) }

// PlugInto is Plug for another bridge.
func (c *Cluster) PlugInto(bridge, name string) (tap *os.File, err error) {
	port := c.port(name)
	err = nsthread.In(c.sw, func() error {
		if tap, err = openTap(port); err != nil {
			return fmt.Errorf("make a tap for %s: %w", name, err)
		}
		return enslave(port, bridge)
	})
	if err != nil && tap != nil {
		tap.Close()
	}
	return tap, err
}

// openTap makes a tap in this thread's namespace, with the header that a virtual
// machine's device puts before each packet.
func openTap(device string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	request, err := unix.NewIfreq(device)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), device), nil
}

// up brings devices up: name, address ("" = none), name, address, ...
func up(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		l, err := netlink.LinkByName(pairs[i])
		if err != nil {
			return err
		}
		if pairs[i+1] != "" {
			a, err := netlink.ParseAddr(pairs[i+1] + "/24")
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(l, a); err != nil {
				return err
			}
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
	}
	return nil
}

// Cut pulls a node's cable.
func (c *Cluster) Cut(node string) error { return c.cable(node, netlink.LinkSetDown) }

// Join puts it in again.
func (c *Cluster) Join(node string) error { return c.cable(node, netlink.LinkSetUp) }

func (c *Cluster) cable(node string, set func(netlink.Link) error) error {
	err := nsthread.In(c.sw, func() error {
		l, err := netlink.LinkByName(c.portOf(node))
		if err != nil {
			return err
		}
		return set(l)
	})
	return err
}

// Shape gives a node's cable a rate each way, such as "200mbit"; that of a machine
// only towards it.
func (c *Cluster) Shape(name, rate string) error {
	err := shape(c.sw, c.portOf(name), rate)
	for _, n := range c.nodes {
		if n.Name == name && n.machine == nil {
			err = errors.Join(err, shape(n.netns, "eth0", rate))
		}
	}
	return err
}

func shape(ns netns.NsHandle, device, rate string) error {
	err := nsthread.In(ns, func() error {
		out, err := exec.Command("tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", "256k", "latency", "50ms").CombinedOutput()
		if err != nil {
			return fmt.Errorf("shape %s to %s: %w: %s", device, rate, err, strings.TrimSpace(string(out)))
		}
		return nil
	})
	return err
}

// Inside runs f on a thread of its own in the switch's namespace. Programs that f
// starts are in that namespace too.
func (c *Cluster) Inside(f func() error) error {
	return nsthread.In(c.sw, f)
}

// Listen opens a TCP socket in the switch's namespace.
func (c *Cluster) Listen(port string) (l net.Listener, err error) {
	err = nsthread.In(c.sw, func() error {
		l, err = net.Listen("tcp", net.JoinHostPort(SwitchAddress, port))
		return err
	})
	return l, err
}

// ListenPacket opens a UDP socket in the switch's namespace. It takes packets that
// have no way back.
func (c *Cluster) ListenPacket(port string) (conn net.PacketConn, err error) {
	err = nsthread.In(c.sw, func() error {
		conn, err = net.ListenPacket("udp4", net.JoinHostPort(SwitchAddress, port))
		return err
	})
	return conn, err
}

// Command returns a command that will run in the switch's network namespace.
func (c *Cluster) Command(ctx context.Context, args ...string) *exec.Cmd {
	netns := fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), int(c.sw))
	return exec.CommandContext(ctx, "nsenter", append([]string{netns, "--"}, args...)...)
}

// Listen opens a TCP socket in the node's namespace.
func (n *Node) Listen(port string) (l net.Listener, err error) {
	err = nsthread.In(n.netns, func() error {
		l, err = net.Listen("tcp", net.JoinHostPort(n.IP, port))
		return err
	})
	return l, err
}

// Dial connects from the switch's namespace.
func (c *Cluster) Dial(network, address string) (conn net.Conn, err error) {
	err = nsthread.In(c.sw, func() error {
		conn, err = net.Dial(network, address)
		return err
	})
	return conn, err
}

// Dial connects from the node's namespace.
func (n *Node) Dial(network, address string) (conn net.Conn, err error) {
	err = nsthread.In(n.netns, func() error {
		conn, err = net.Dial(network, address)
		return err
	})
	return conn, err
}
