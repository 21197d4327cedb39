// SPDX-License-Identifier: Apache-2.0

package clustertest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Subnet of the nodes; the switch has .1, the nodes .11 and following.
const (
	Subnet        = "10.77.0.0/24"
	SwitchAddress = "10.77.0.1"
	prefix        = "10.77.0."
)

// inNamespace runs f on a thread in ns (0 = a new one, which is returned), and gives
// the thread up.
func inNamespace(ns netns.NsHandle, f func() error) (made netns.NsHandle, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if ns == 0 {
			if ns, err = netns.New(); err != nil {
				return
			}
			made = ns
		} else if err = netns.Set(ns); err != nil {
			return
		}
		err = f()
	}()
	<-done
	return made, err
}

// newSwitch makes the namespace with the bridge.
func newSwitch() (netns.NsHandle, error) {
	return inNamespace(0, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "br0"
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
			return fmt.Errorf("make the switch: %w", err)
		}
		return up("lo", "", "br0", SwitchAddress)
	})
}

// newHost makes a node's namespace, connected to the switch by port.
func newHost(sw netns.NsHandle, port, addr string) (netns.NsHandle, error) {
	host, err := inNamespace(0, func() error { return up("lo", "") })
	if err != nil {
		return 0, err
	}
	_, err = inNamespace(sw, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = port
		pair := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(host)}
		if err := netlink.LinkAdd(pair); err != nil {
			return fmt.Errorf("connect %s to the switch: %w", addr, err)
		}
		bridge, err := netlink.LinkByName("br0")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetMaster(pair, bridge); err != nil {
			return err
		}
		return up(port, "")
	})
	if err == nil {
		_, err = inNamespace(host, func() error {
			if err := up("eth0", addr); err != nil {
				return err
			}
			return netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(SwitchAddress)})
		})
	}
	return host, err
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
	_, err := inNamespace(c.sw, func() error {
		l, err := netlink.LinkByName(c.Node(node).port)
		if err != nil {
			return err
		}
		return set(l)
	})
	return err
}

// Shape gives a node's cable a rate each way, such as "200mbit".
func (c *Cluster) Shape(node, rate string) error {
	n := c.Node(node)
	for _, end := range []struct {
		ns     netns.NsHandle
		device string
	}{{c.sw, n.port}, {n.netns, "eth0"}} {
		_, err := inNamespace(end.ns, func() error {
			out, err := exec.Command("tc", "qdisc", "replace", "dev", end.device, "root", "tbf", "rate", rate, "burst", "256k", "latency", "50ms").CombinedOutput()
			if err != nil {
				return fmt.Errorf("shape %s to %s: %w: %s", node, rate, err, strings.TrimSpace(string(out)))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Listen opens a TCP socket in the switch's namespace.
func (c *Cluster) Listen(port string) (l net.Listener, err error) {
	_, err = inNamespace(c.sw, func() error {
		l, err = net.Listen("tcp", net.JoinHostPort(SwitchAddress, port))
		return err
	})
	return l, err
}

// ListenPacket opens a UDP socket in the switch's namespace. It takes packets that
// have no way back.
func (c *Cluster) ListenPacket(port string) (conn net.PacketConn, err error) {
	_, err = inNamespace(c.sw, func() error {
		conn, err = net.ListenPacket("udp4", net.JoinHostPort(SwitchAddress, port))
		return err
	})
	return conn, err
}

// Command is a command that will run in the switch's network namespace.
func (c *Cluster) Command(ctx context.Context, args ...string) *exec.Cmd {
	netns := fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), int(c.sw))
	return exec.CommandContext(ctx, "nsenter", append([]string{netns, "--"}, args...)...)
}

// Listen opens a TCP socket in the node's namespace.
func (n *Node) Listen(port string) (l net.Listener, err error) {
	_, err = inNamespace(n.netns, func() error {
		l, err = net.Listen("tcp", net.JoinHostPort(n.IP, port))
		return err
	})
	return l, err
}

// Dial connects from the switch's namespace.
func (c *Cluster) Dial(network, address string) (conn net.Conn, err error) {
	_, err = inNamespace(c.sw, func() error {
		conn, err = net.Dial(network, address)
		return err
	})
	return conn, err
}

// Dial connects from the node's namespace.
func (n *Node) Dial(network, address string) (conn net.Conn, err error) {
	_, err = inNamespace(n.netns, func() error {
		conn, err = net.Dial(network, address)
		return err
	})
	return conn, err
}
