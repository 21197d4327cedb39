// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/internal/dataplane/device"
	"weir/internal/dataplane/device/netnstest"
	"weir/internal/plan"
)

// Sockets that choose a mark by themselves, or that go past the program at their
// cgroup: Docker gives every container CAP_NET_RAW, which is all that SO_MARK (since
// Linux 5.17) and packet sockets need.

const (
	senderEnv = "WEIR_TEST_SEND" // how, with which mark, by which device: "packet 0x70000 up0"
	toEther   = "020000000009"   // a neighbour on the link
	toIP      = "192.0.2.9"
)

// TestSender is no test: it sends one packet from a process of its own, which a cgroup
// and a network namespace can be chosen for.
func TestSender(t *testing.T) {
	how, ok := os.LookupEnv(senderEnv)
	if !ok {
		t.Skip("skipped: only other tests need it")
	}
	fields := strings.Fields(how)
	mark, err := strconv.ParseUint(fields[1], 0, 32)
	if err != nil {
		t.Fatal(err)
	}
	fatal := func(err error) {
		if err != nil {
			t.Fatal(how, ": ", err)
		}
	}
	domain, kind := unix.AF_INET, unix.SOCK_DGRAM
	if fields[0] != "udp" {
		domain, kind = unix.AF_PACKET, unix.SOCK_RAW
	}
	fd, err := unix.Socket(domain, kind, 0)
	fatal(err)
	defer unix.Close(fd)
	fatal(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(mark)))
	if fields[0] == "udp" {
		fatal(unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte(net.ParseIP(toIP).To4())}))
		return
	}
	if fields[0] == "bypass" {
		fatal(unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1))
	}
	dev, err := net.InterfaceByName(fields[2])
	fatal(err)
	to := dev.HardwareAddr.String()
	if len(fields) > 3 {
		to = fields[3]
	}
	// From 10.9.9.9: no address of this host, so it may be forwarded.
	const udp = "4500001c 00070000 40110000 0a090909 c0000209 9c400009 00080000"
	frame, err := hex.DecodeString(strings.NewReplacer(":", "", " ", "").Replace(to + "020000000001" + "0800" + udp))
	fatal(err)
	checksum(frame[14:34])
	fatal(unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: dev.Index, Protocol: 8}))
}

// checksum fills in that of an IPv4 header.
func checksum(header []byte) {
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		sum += uint32(header[i])<<8 | uint32(header[i+1])
	}
	sum = sum&0xffff + sum>>16
	sum = ^(sum&0xffff + sum>>16)
	header[10], header[11] = byte(sum>>8), byte(sum)
}

// sendFrom runs TestSender in a cgroup ("" = the test's own), in a namespace.
func sendFrom(t *testing.T, in *netnstest.Netns, group, how string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	enter := ""
	if group != "" {
		enter = fmt.Sprintf("echo $$ > %s/cgroup.procs && ", group)
	}
	// Not by `ip netns exec`, which mounts another /sys.
	enter += fmt.Sprintf("exec env %s='%s' nsenter --net=%s %s -test.run '^TestSender$'", senderEnv, how, in.Path(), exe)
	if out, err := exec.Command("sh", "-c", enter).CombinedOutput(); err != nil {
		t.Fatalf("send %s: %v\n%s", how, err, out)
	}
}

// socketBed is a host whose link is the veth up0, with a cgroup of class 6 and one of
// class 8 inside of it, and a container of class 5 on a bridge.
type socketBed struct {
	host, box, stacked *netnstest.Netns
	m                  *Marker
	six, eight, other  string // cgroups; the last one is of no workload
	agent              string // the agent's own
	box0               plan.Port
	up                 device.Device
	seen               func() uint32
}

func newSocketBed(t *testing.T, m *Marker, host *netnstest.Netns) *socketBed {
	b := &socketBed{host: host, box: netnstest.New(t), stacked: netnstest.New(t), m: m, six: cgroup2(t), other: cgroup2(t), agent: cgroup2(t)}
	agent, err := openCgroup(b.agent)
	if err != nil {
		t.Fatal(err)
	}
	m.self = agent.id
	agent.Close()
	inside := filepath.Join(b.agent, "inside")
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(inside) })
	b.eight = filepath.Join(b.six, "eight")
	deeper := filepath.Join(b.eight, "deeper")
	if err := errors.Join(os.Mkdir(b.eight, 0o755), os.Mkdir(deeper, 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(os.Remove(deeper), os.Remove(b.eight)); err != nil {
			t.Error(err)
		}
	})
	for _, n := range []*netnstest.Netns{host, b.box, b.stacked} {
		noIPv6(n)
	}
	up := addPort(t, host, m, "up0")
	host.Run("ip", "addr", "add", "192.0.2.1/24", "dev", "up0")
	host.Run("ip", "neigh", "add", toIP, "lladdr", "02:00:00:00:00:09", "dev", "up0")
	host.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.lo.rp_filter=0")
	host.Run("ip", "link", "add", "br0", "address", "02:00:00:00:00:0b", "type", "bridge", "mcast_snooping", "0")
	host.Run("ip", "link", "set", "br0", "up")
	host.Run("ip", "addr", "add", "10.9.9.1/24", "dev", "br0")
	host.Run("ip", "link", "add", "box0", "type", "veth", "peer", "name", "eth0", "netns", b.box.Name)
	host.Run("ip", "link", "set", "box0", "master", "br0", "up")
	host.Run("ip", "link", "add", "vxlan0", "type", "vxlan", "id", "7", "dstport", "4789", "remote", toIP, "dev", "up0")
	host.Run("ip", "link", "set", "vxlan0", "master", "br0", "up")
	b.box.Run("ip", "addr", "add", "10.9.9.9/24", "dev", "eth0")
	b.box.Run("ip", "link", "set", "eth0", "up")
	b.box.Run("ip", "route", "add", "default", "via", "10.9.9.1")
	b.box.Run("ip", "neigh", "add", "10.9.9.1", "lladdr", "02:00:00:00:00:0b", "dev", "eth0")
	host.Run("ip", "link", "add", "mac0", "link", "up0", "type", "macvlan", "mode", "bridge")
	host.Run("ip", "link", "set", "mac0", "name", "eth0", "netns", b.stacked.Name)
	b.stacked.Run("ip", "addr", "add", "192.0.2.7/24", "dev", "eth0")
	b.stacked.Run("ip", "link", "set", "eth0", "up")
	b.stacked.Run("ip", "neigh", "add", toIP, "lladdr", "02:00:00:00:00:09", "dev", "eth0")
	if b.up, err = m.conn.LookupIndex(up.Ifindex); err != nil {
		t.Fatal(err)
	}
	box, err := m.conn.Lookup("box0")
	if err != nil {
		t.Fatal(err)
	}
	b.box0 = plan.Port{Device: "box0", Ifindex: box.Index, Class: 5}
	return b
}

// steer attaches what a link with those classes has.
func (b *socketBed) steer(t *testing.T) {
	t.Helper()
	six, eight := plan.Port{Cgroup: b.six, Class: 6}, plan.Port{Cgroup: b.eight, Class: 8}
	state := plan.State{
		Classes: []plan.Class{{ID: 0}, {ID: 5}, {ID: 6}, {ID: 7}, {ID: 8}},
		Ports:   []plan.Port{b.box0, six, eight},
	}
	for _, port := range state.Ports {
		if err := b.m.Attach(port, Marking{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := attachLink(b.m, b.up, state); err != nil {
		t.Fatal(err)
	}
}

func attachLink(m *Marker, dev device.Device, state plan.State) error {
	return m.AttachLink(dev, state)
}

// Whatever mark a socket sets, and whatever way it takes to the link, its packets are
// of the class of the cgroup that it was made in, or of the port that they came by.
func TestSocketsDoNotChooseTheirClass(t *testing.T) {
	t.Run("tcx", func(t *testing.T) { // where a witness can stand behind Weir's program
		host := netnstest.Enter(t)
		m := newMarker(t, netnstest.Options(t), "tcx")
		b := newSocketBed(t, m, host)
		b.steer(t)
		b.seen = witness(t, b.up.Index, ebpf.AttachTCXEgress, onlyUDP...)
		deeper := filepath.Join(b.eight, "deeper")
		const forged, foreign = "0x70003", "0x5" // class 7 and bits of others; these alone
		for _, tt := range []struct {
			name  string
			in    *netnstest.Netns
			group string
			how   string
			want  uint32
		}{
			{"UDP, unmarked", host, b.six, "udp " + foreign, 0x60005},
			{"SO_MARK of another class", host, b.six, "udp " + forged, 0x60003},
			{"packet socket", host, b.six, "packet 0 up0 " + toEther, 0x60000},
			{"packet socket with SO_MARK", host, b.six, "packet " + forged + " up0 " + toEther, 0x60003},
			{"in a workload inside of it", host, b.eight, "packet " + forged + " up0 " + toEther, 0x80003},
			{"in a nested cgroup", host, deeper, "packet " + forged + " up0 " + toEther, 0x80003},
			{"the agent's own", host, b.agent, "udp " + forged, 0x70003},
			{"the agent's own, as a workload with a port", host, b.agent, "udp 0x50003", 0x3},
			{"in a cgroup inside of the agent's", host, filepath.Join(b.agent, "inside"), "udp " + forged, 0x3},
			{"the host's queue", host, b.other, "udp 0x40000003", 0x40000003},
			{"the host's SO_MARK", host, b.other, "udp " + forged, 0x3},
			{"the host's packet socket", host, b.other, "packet " + forged + " up0 " + toEther, 0x3},
			{"packet socket into lo, forwarded", host, b.six, "packet " + forged + " lo 000000000000", 0x3},
			{"container, routed", b.box, "", "udp " + forged, 0x50000},
			{"container, packet socket", b.box, b.other, "packet " + forged + " eth0 " + hardware(t, "br0"), 0x50000},
			{"container, bridged into a tunnel", b.box, b.other, "packet " + forged + " eth0 " + toEther, 0x50000},
			{"macvlan, SO_MARK", b.stacked, b.six, "udp " + forged, 0x60003},
			{"macvlan, packet socket", b.stacked, b.six, "packet " + forged + " eth0 " + toEther, 0x60003},
			{"macvlan of no workload", b.stacked, b.other, "packet " + forged + " eth0 " + toEther, 0x3},
		} {
			before := b.sent(t)
			sendFrom(t, tt.in, tt.group, tt.how)
			if b.sent(t) == before {
				t.Errorf("%s: no packet came to the link", tt.name)
			} else if got := b.seen(); got != tt.want {
				t.Errorf("%s: mark %#x, want %#x", tt.name, got, tt.want)
			}
		}
	})
}

// sent is how many packets the link has sent.
func (b *socketBed) sent(t *testing.T) string {
	t.Helper()
	return b.host.Run("ip", "-o", "-s", "link", "show", "up0")
}

func hardware(t *testing.T, name string) string {
	t.Helper()
	dev, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return dev.HardwareAddr.String()
}
