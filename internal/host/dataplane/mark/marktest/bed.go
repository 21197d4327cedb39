// SPDX-License-Identifier: Apache-2.0

// Package marktest is a host whose processes try to choose the class of their packets:
// by SO_MARK, by packet sockets, by the ways that their packets take. Docker gives
// every container CAP_NET_RAW, which is all that it takes (SO_MARK since Linux 5.17).
//
//	box: eth0 ── box0 ┐
//	             vxlan0 ┤ br0  (routing)  up0 ── up0p, where no program listens
//	stacked: eth0, a macvlan ──────────────┤
//	sealing: eth0, another one, whose own filter writes the seal of class 7
//
// The program of a test sends the packets itself, in processes of their own: its
// TestMain calls Sender.
package marktest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"weir/internal/base/cgroup"
	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device/netnstest"
)

// Uplink is the link; the test's goroutine has to be in its namespace.
const Uplink = "up0"

const (
	toEther = "02:00:00:00:00:09" // a neighbour on the link
	toIP    = "192.0.2.9"
	ownIP   = "192.0.2.1"

	bridgeIP  = "10.9.9.1"
	stackedIP = "192.0.2.7"
)

// Bed is that host.
type Bed struct {
	Agent             string // cgroup of the agent; of no workload
	host, box         *netnstest.Netns
	stacked, sealing  *netnstest.Netns
	six, eight, other string // cgroups of classes 6 and 8 (inside of six), and of no workload
	inside, deeper    string // cgroups inside of the agent's and of eight
	ports             []plan.Port
}

// New makes it around the namespace that the test's goroutine is in.
func New(t *testing.T, host *netnstest.Netns) *Bed {
	t.Helper()
	b := &Bed{host: host, box: netnstest.New(t), stacked: netnstest.New(t), sealing: netnstest.New(t)}
	b.six, b.other, b.Agent = Cgroup(t), Cgroup(t), Cgroup(t)
	b.inside, b.eight = below(t, b.Agent, "inside"), below(t, b.six, "eight")
	b.deeper = below(t, b.eight, "deeper")
	for _, n := range []*netnstest.Netns{host, b.box, b.stacked, b.sealing} {
		NoIPv6(n)
	}
	b.plug(t)
	b.inhabit(t, b.stacked, b.six)
	box0, err := net.InterfaceByName("box0")
	if err != nil {
		t.Fatal(err)
	}
	b.ports = []plan.Port{
		{Device: "box0", Ifindex: box0.Index, Class: 5}, {Cgroup: b.six, Class: 6}, {Cgroup: b.eight, Class: 8},
	}
	return b
}

func (b *Bed) plug(t *testing.T) {
	t.Helper()
	host := b.host
	host.Run("ip", "link", "add", Uplink, "type", "veth", "peer", "name", Uplink+"p")
	host.Run("ip", "link", "set", Uplink, "up")
	host.Run("ip", "link", "set", Uplink+"p", "up")
	host.Run("ip", "addr", "add", ownIP+"/24", "dev", Uplink)
	host.Run("ip", "neigh", "add", toIP, "lladdr", toEther, "dev", Uplink)
	host.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.lo.rp_filter=0", "net.ipv4.tcp_synack_retries=0")
	host.Run("ip", "link", "set", "lo", "up")
	host.Run("ip", "link", "add", "br0", "address", "02:00:00:00:00:0b", "type", "bridge", "mcast_snooping", "0")
	host.Run("ip", "link", "set", "br0", "up")
	host.Run("ip", "addr", "add", bridgeIP+"/24", "dev", "br0")
	listener, err := net.Listen("tcp", bridgeIP+":9")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	host.Run("ip", "link", "add", "box0", "type", "veth", "peer", "name", "eth0", "netns", b.box.Name)
	host.Run("ip", "link", "set", "box0", "master", "br0", "up")
	host.Run("ip", "link", "add", "vxlan0", "type", "vxlan", "id", "7", "dstport", "4789", "remote", toIP, "dev", Uplink)
	host.Run("ip", "link", "set", "vxlan0", "master", "br0", "up")
	b.box.Run("ip", "addr", "add", "10.9.9.9/24", "dev", "eth0")
	b.box.Run("ip", "link", "set", "eth0", "up")
	b.box.Run("ip", "route", "add", "default", "via", "10.9.9.1")
	b.box.Run("ip", "neigh", "add", "10.9.9.1", "lladdr", "02:00:00:00:00:0b", "dev", "eth0")
	b.stack(b.stacked, "mac0", stackedIP+"/24")
	b.stack(b.sealing, "mac1", "192.0.2.8/24")
	// The root of a container with CAP_NET_ADMIN can do this: 0x80e0 is the seal of class 7.
	b.sealing.Run("tc", "qdisc", "add", "dev", "eth0", "clsact")
	b.sealing.Run("tc", "filter", "add", "dev", "eth0", "egress", "u32", "match", "u32", "0", "0", "classid", "1:80e0")
}

// inhabit starts a process in a namespace and a cgroup, and readies its lo for packets that are
// to be forwarded.
func (b *Bed) inhabit(t *testing.T, n *netnstest.Netns, group string) {
	t.Helper()
	n.Run("ip", "link", "set", "lo", "up")
	n.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.lo.rp_filter=0")
	cmd := exec.Command("sh", "-c", fmt.Sprintf("echo $$ > %s/cgroup.procs && exec nsenter --net=%s sh -c 'echo here; exec cat'", group, n.Path()))
	in, noIn := cmd.StdinPipe()
	out, noOut := cmd.StdoutPipe()
	if err := errors.Join(noIn, noOut, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
}

// stack gives a namespace a macvlan of the link.
func (b *Bed) stack(n *netnstest.Netns, name, address string) {
	b.host.Run("ip", "link", "add", name, "link", Uplink, "type", "macvlan", "mode", "bridge")
	b.host.Run("ip", "link", "set", name, "name", "eth0", "netns", n.Name)
	n.Run("ip", "addr", "add", address, "dev", "eth0")
	n.Run("ip", "link", "set", "eth0", "up")
	n.Run("ip", "neigh", "add", toIP, "lladdr", toEther, "dev", "eth0")
}

// State are the classes and ports that a link of this host has: 5 is the container box,
// 6 and 8 are cgroups, 7 has neither port nor cgroup.
func (b *Bed) State() plan.State {
	var classes []plan.Class
	for _, id := range []plan.ClassID{0, 5, 6, 7, 8} {
		classes = append(classes, plan.Class{ID: id, Name: fmt.Sprintf("c%d", id), Weight: 1})
	}
	return plan.State{Classes: classes, Ports: b.ports}
}

// Try is one way of sending a packet.
type Try struct {
	Name  string
	Mark  uint32 // that its packet has to have where the link sends it, if plan.UsualMask is Weir's
	in    *netnstest.Netns
	group string // the cgroup of the process; "" = the test's own
	how   []string
}

// Tries are all of them.
func (b *Bed) Tries(t *testing.T) []Try {
	t.Helper()
	const forged, foreign = "0x70003", "0x5" // class 7 and bits of others; these alone
	// HTB reads skb->priority before every filter: its handle is "at once, unshaped".
	const handle, handleOf7 = "0x77e10000", "0x77e10007"
	br0, err := net.InterfaceByName("br0")
	if err != nil {
		t.Fatal(err)
	}
	bridge := br0.HardwareAddr.String()
	udp := func(mark string) []string { return []string{"udp", mark, "0"} }
	packet := func(mark, device, to string) []string { return []string{"packet", mark, "0", device, to} }
	forgedTo := func(what, to string) []string { return []string{"forged", "0", "0", what, to} }
	return []Try{
		{"container, an echo in another's name", 0x50000, b.box, b.other, forgedTo("echo", bridgeIP)},
		{"the host's own, to the same", 0x3, b.host, b.other, udp(forged)},
		{"the host's own question to the same", 0, b.host, b.other, []string{"echo", "0", "0"}},
		{"the host's echo in another's name", 0, b.host, b.other, forgedTo("echo", ownIP)},
		{"container, a closed port in another's name", 0x50000, b.box, b.other, forgedTo("closed", bridgeIP)},
		{"container, a listener of the host's refuses", 0x50000, b.box, b.other, forgedTo("ack", bridgeIP)},
		{"container, a listener of the host's accepts", 0x50000, b.box, b.other, forgedTo("syn", bridgeIP)},
		{"an echo in another's name", 0x60000, b.host, b.six, forgedTo("echo", ownIP)},
		{"an echo in another's name, nested", 0x80000, b.host, b.deeper, forgedTo("echo", ownIP)},
		{"macvlan, an echo in another's name", 0x60000, b.stacked, b.six, forgedTo("echo", stackedIP)},
		{"macvlan, a closed port in another's name", 0x60000, b.stacked, b.six, forgedTo("closed", stackedIP)},
		{"UDP, unmarked", 0x60005, b.host, b.six, udp(foreign)},
		{"SO_MARK of another class", 0x60003, b.host, b.six, udp(forged)},
		{"packet socket", 0x60000, b.host, b.six, packet("0", Uplink, toEther)},
		{"packet socket with SO_MARK", 0x60003, b.host, b.six, packet(forged, Uplink, toEther)},
		{"answer to a connection, SO_MARK", 0x60003, b.host, b.six, []string{"listen", forged, "0"}},
		{"SO_PRIORITY, the handle of HTB", 0x60000, b.host, b.six, []string{"udp", "0", handle}},
		{"SO_PRIORITY, another class of HTB", 0x60000, b.host, b.six, []string{"udp", "0", handleOf7}},
		{"SO_PRIORITY, packet socket", 0x60000, b.host, b.six, []string{"packet", "0", handleOf7, Uplink, toEther}},
		{"SO_PRIORITY, the host's", 0, b.host, b.other, []string{"udp", "0", handleOf7}},
		{"SO_PRIORITY, macvlan", 0x60000, b.stacked, b.six, []string{"udp", "0", handleOf7}},
		{"SO_PRIORITY, container", 0x50000, b.box, b.other, []string{"udp", "0", handleOf7}},
		{"in a workload inside of it", 0x80003, b.host, b.eight, packet(forged, Uplink, toEther)},
		{"in a nested cgroup", 0x80003, b.host, b.deeper, packet(forged, Uplink, toEther)},
		{"the agent's own", 0x3, b.host, b.Agent, udp(forged)},
		{"the agent's own, as a workload with a port", 0x3, b.host, b.Agent, udp("0x50003")},
		{"in a cgroup inside of the agent's", 0x3, b.host, b.inside, udp(forged)},
		{"the host's queue", 0x40000003, b.host, b.other, udp("0x40000003")},
		{"the host's SO_MARK", 0x3, b.host, b.other, udp(forged)},
		{"the host's packet socket", 0x3, b.host, b.other, packet(forged, Uplink, toEther)},
		{"the host's answer to a connection", 0x3, b.host, b.other, []string{"listen", forged, "0"}},
		{"packet socket into lo, forwarded", 0x60003, b.host, b.six, packet(forged, "lo", "00:00:00:00:00:00")},
		{"packet socket into lo, in a nested cgroup", 0x80003, b.host, b.deeper, packet(forged, "lo", "00:00:00:00:00:00")},
		{"packet socket into lo, the host's", 0x3, b.host, b.other, packet(forged, "lo", "00:00:00:00:00:00")},
		{"packet socket into lo, for a tunnel of the host", 0x60003, b.host, b.six, []string{"encapsulated", forged, "0", "lo", bridge}},
		{"packet socket into a tunnel", 0x60003, b.host, b.six, packet(forged, "vxlan0", toEther)},
		{"container, routed", 0x50000, b.box, b.other, udp(forged)},
		{"container, packet socket", 0x50000, b.box, b.other, packet(forged, "eth0", bridge)},
		{"container, bridged into a tunnel", 0x50000, b.box, b.other, packet(forged, "eth0", toEther)},
		{"macvlan, SO_MARK", 0x60003, b.stacked, b.six, udp(forged)},
		{"macvlan, packet socket", 0x60003, b.stacked, b.six, packet(forged, "eth0", toEther)},
		{"macvlan, packet socket into its lo, forwarded", 0x60003, b.stacked, b.six, packet(forged, "lo", "00:00:00:00:00:00")},
		{"macvlan, a seal by a filter inside", 0x60003, b.sealing, b.six, udp(forged)},
		{"macvlan, a seal, packet socket", 0x60003, b.sealing, b.six, packet(forged, "eth0", toEther)},
		{"macvlan, a seal, in a nested cgroup", 0x80003, b.sealing, b.deeper, packet(forged, "eth0", toEther)},
		{"macvlan of no workload", 0x3, b.stacked, b.other, packet(forged, "eth0", toEther)},
	}
}

// Class is the one that its packet has to be of.
func (try Try) Class() plan.ClassID {
	class, _ := plan.UsualMask.Split(try.Mark)
	return class
}

// Untouched is the mark that its packet has at the link as without Weir: the sender's, but for what
// has lost it on its way to the host.
func (try Try) Untouched() uint32 {
	if try.Mark&0xffff == 0 {
		return 0
	}
	mark, _ := strconv.ParseUint(try.how[1], 0, 32)
	return uint32(mark)
}

// Frame is a packet socket's frame with the mark of class 7, into a device: of class 6
// ("workload"), of class 8 ("nested") or of no workload ("host").
func (b *Bed) Frame(sender, device, to string) Try {
	group := map[string]string{"workload": b.six, "nested": b.eight, "host": b.other}[sender]
	return Try{Name: sender, in: b.host, group: group, how: []string{"packet", "0x70003", "0", device, to}}
}

// Send sends the packet of a try, and waits until the link has sent it.
func (b *Bed) Send(t *testing.T, try Try) {
	t.Helper()
	b.SendBy(t, try, Uplink)
}

// SendBy is Send by another device than Uplink.
func (b *Bed) SendBy(t *testing.T, try Try, device string) {
	t.Helper()
	before := b.sent(device)
	try.send(t)
	for deadline := time.Now().Add(10 * time.Second); b.sent(device) == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: no packet came to %s", try.Name, device)
		}
	}
}

// sent is how many packets a device has sent.
func (b *Bed) sent(device string) string {
	return b.host.Run("ip", "-o", "-s", "link", "show", device)
}

func (try Try) send(t *testing.T) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Not by `ip netns exec`, which mounts another /sys.
	enter := fmt.Sprintf("echo $$ > %s/cgroup.procs && exec nsenter --net=%s %s", try.group, try.in.Path(), exe)
	cmd := exec.Command("sh", "-c", enter)
	cmd.Env = append(os.Environ(), senderEnv+"="+join(try.how))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", try.Name, err, out)
	}
}

// NoIPv6 keeps the devices that are made from now on from sending packets of their
// own, so that those that are seen are the test's.
func NoIPv6(host *netnstest.Netns) {
	host.Run("sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6")
}

// Cgroup is a fresh cgroup of version 2 that the test's processes may enter.
func Cgroup(t *testing.T) string {
	t.Helper()
	mounts := cgroup.Mounts()
	if len(mounts) == 0 {
		t.Skip("skipped: no cgroup2 file system is mounted")
	}
	dir, err := os.MkdirTemp(mounts[0], "weir-test-")
	if err != nil {
		t.Skip("skipped: cannot make a cgroup: ", err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	return dir
}

// below makes a cgroup inside of another one.
func below(t *testing.T, parent, name string) string {
	t.Helper()
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
	return dir
}
