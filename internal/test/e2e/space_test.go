// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"weir/internal/base/nsthread"
)

// space is a named network namespace.
type space struct {
	t      testing.TB
	name   string
	handle netns.NsHandle
	*netlink.Handle
	gone bool
}

// newSpace makes a namespace that sends nothing by itself. It goes with the
// test, or before by remove.
func newSpace(t testing.TB, name string) *space {
	t.Helper()
	s := &space{t: t, name: name}
	err := nsthread.Do(func() (err error) {
		if s.handle, err = netns.NewNamed(name); err != nil {
			return err
		}
		for _, key := range []string{"all", "default"} {
			// Absent where the kernel has no IPv6: as good.
			_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+key+"/disable_ipv6", []byte("1"), 0)
		}
		s.Handle, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		t.Fatalf("make network namespace %s: %v", name, err)
	}
	t.Cleanup(s.remove)
	s.up("lo")
	return s
}

func (s *space) remove() {
	if s.gone {
		return
	}
	s.gone = true
	s.Handle.Close()
	if err := s.handle.Close(); err != nil {
		s.t.Error(err)
	}
	if err := netns.DeleteNamed(s.name); err != nil {
		s.t.Errorf("remove network namespace %s: %v", s.name, err)
	}
}

// do runs f inside the namespace.
func (s *space) do(f func() error) error {
	return nsthread.In(s.handle, f)
}

// start starts a process inside the namespace. Mounts are as in the test, which
// "ip netns exec" would change.
func (s *space) start(cmd *exec.Cmd) {
	s.t.Helper()
	if err := s.do(cmd.Start); err != nil {
		s.t.Fatalf("start %s in %s: %v", cmd.Path, s.name, err)
	}
}

// run runs a command inside and returns what it printed.
func (s *space) run(command string) string {
	s.t.Helper()
	args := strings.Fields(command)
	var out []byte
	err := s.do(func() (err error) {
		out, err = exec.Command(args[0], args[1:]...).CombinedOutput()
		return err
	})
	if err != nil {
		s.t.Fatalf("%s: %v: %s", command, err, out)
	}
	return string(out)
}

func (s *space) device(name string) netlink.Link {
	s.t.Helper()
	l, err := s.LinkByName(name)
	if err != nil {
		s.t.Fatalf("find %s in %s: %v", name, s.name, err)
	}
	return l
}

func (s *space) must(doing string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s in %s: %v", doing, s.name, err)
	}
}

func (s *space) up(name string)   { s.t.Helper(); s.must("up "+name, s.LinkSetUp(s.device(name))) }
func (s *space) down(name string) { s.t.Helper(); s.must("down "+name, s.LinkSetDown(s.device(name))) }

func (s *space) delete(name string) {
	s.t.Helper()
	s.must("delete "+name, s.LinkDel(s.device(name)))
}

// bridge makes a bridge.
func (s *space) bridge(name string) {
	s.t.Helper()
	snooping := false
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	s.must("make "+name, s.LinkAdd(&netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}))
	s.up(name)
}

// plug connects a namespace to a bridge of s: name is s's end of the veth, peer
// the other one. The bridge knows from the start where the address is. On return
// packets pass, which on a busy machine is a second after both ends are up.
func (s *space) plug(bridge, name string, box *space, peer string, addr endpoint) {
	s.t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	s.must("make "+name, s.LinkAdd(&netlink.Veth{
		LinkAttrs: attrs, PeerName: peer, PeerHardwareAddr: addr.mac, PeerNamespace: netlink.NsFd(box.handle),
	}))
	s.must("connect "+name, s.LinkSetMaster(s.device(name), s.device(bridge)))
	s.must("learn "+name, s.NeighSet(&netlink.Neigh{
		LinkIndex: s.device(name).Attrs().Index, Family: unix.AF_BRIDGE, State: netlink.NUD_NOARP,
		Flags: netlink.NTF_MASTER, HardwareAddr: addr.mac,
	}))
	box.must("address "+peer, box.AddrAdd(box.device(peer), &netlink.Addr{IPNet: &net.IPNet{IP: addr.ip, Mask: net.CIDRMask(16, 32)}}))
	s.up(name)
	box.up(peer)
	await(s.t, 5*time.Second, name+" forwards", func() error {
		if state := s.device(name).Attrs().OperState; state != netlink.OperUp {
			return fmt.Errorf("it is %v", state)
		}
		return nil
	})
}

// knows makes an address known by a device without asking: ARP would be counted
// as the workload's packets.
func (s *space) knows(device string, addr endpoint) {
	s.t.Helper()
	s.must("neighbour", s.NeighSet(&netlink.Neigh{
		LinkIndex: s.device(device).Attrs().Index, Family: unix.AF_INET, State: netlink.NUD_PERMANENT,
		IP: addr.ip, HardwareAddr: addr.mac,
	}))
}

// endpoint holds the addresses at which a namespace can be reached.
type endpoint struct {
	ip  net.IP
	mac net.HardwareAddr
}

// ipv6 returns the endpoint's IPv6 address: fd88::10.88.0.1 for 10.88.0.1.
func (e endpoint) ipv6() net.IP {
	return append(net.IP{0xfd, 0x88, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, e.ip.To4()...)
}

// addIPv6 gives a device its endpoint's IPv6 address, and nothing that would
// make it send by itself. Call knowsIPv6 at the other end.
func (s *space) addIPv6(device string, addr endpoint) {
	s.t.Helper()
	err := s.do(func() error {
		for key, value := range map[string]string{"addr_gen_mode": "1", "accept_ra": "0", "accept_dad": "0", "disable_ipv6": "0"} {
			if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+device+"/"+key, []byte(value), 0); err != nil {
				return err
			}
		}
		return nil
	})
	s.must("IPv6 at "+device, err)
	s.must("address "+device, s.AddrAdd(s.device(device), &netlink.Addr{
		IPNet: &net.IPNet{IP: addr.ipv6(), Mask: net.CIDRMask(96, 128)}, Flags: unix.IFA_F_NODAD,
	}))
}

// knowsIPv6 does for IPv6 what knows does for IPv4.
func (s *space) knowsIPv6(device string, addr endpoint) {
	s.t.Helper()
	s.must("neighbour", s.NeighSet(&netlink.Neigh{
		LinkIndex: s.device(device).Attrs().Index, Family: unix.AF_INET6, State: netlink.NUD_PERMANENT,
		IP: addr.ipv6(), HardwareAddr: addr.mac,
	}))
}

// workloadAt returns the endpoint of workload i (1, 2, ...) in network n.
func workloadAt(n, i int) endpoint {
	return endpoint{net.IPv4(10, byte(88+n), byte(i>>8), byte(i)).To4(), net.HardwareAddr{2, 0x88, byte(n), 0, byte(i >> 8), byte(i)}}
}

// serverAt returns the server's endpoint in network n.
func serverAt(n int) endpoint {
	return endpoint{net.IPv4(10, byte(88+n), 255, 1).To4(), net.HardwareAddr{2, 0x88, byte(n), 1, 0, 0}}
}
