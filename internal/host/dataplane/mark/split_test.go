// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/base/nsthread"
	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/host/dataplane/mark/marktest"
)

// slow is the state of a link of 100 Mbit/s with a container of class 5.
func slow(port plan.Port) plan.State {
	return plan.State{
		Link:    plan.Link{Device: "up0", Capacity: 100e6},
		Classes: []plan.Class{{ID: 0, Name: "host", Weight: 1}, {ID: 5, Name: "box", Weight: 1}},
		Ports:   []plan.Port{port},
	}
}

// A packet of offload that is too long for the link comes to others' programs there and to the wire
// as frames, with its seal, mark and priority. Shorter ones, and those for other devices, stay
// whole.
func TestSplit(t *testing.T) {
	for _, rules := range []bool{false, true} {
		ways(t, func(t *testing.T, host *netnstest.Netns, m *Marker) {
			boxed, up, box := splitBed(t, host, m)
			state := slow(boxed)
			attach := m.AttachLinkRules
			if rules {
				attach = m.AttachLink
			}
			must(t, m.Attach(boxed, Marking{}))
			const long, short, there = 40_000, 9_000, "192.0.2.9:9"
			whole := func(what string, bytes, longest, packets int) {
				t.Helper()
				for from, space := range map[string]string{"container": box, "host": "/proc/thread-self/ns/net"} {
					if got := arrives(t, m, "up0p", func() { segmented(t, space, there, bytes) }); got.longest != longest || got.packets != packets || got.bytes != bytes {
						t.Errorf("%s, %s: %+v arrive, want %d packets of up to %d bytes", what, from, got, packets, longest)
					}
				}
			}
			whole("before", long, long+42, 1)
			must(t, attach(up, state))
			whole("too long", long, 1442, 29)
			whole("short enough", short, short+42, 1)
			if got := arrives(t, m, "idlep", func() { segmented(t, box, "198.51.100.9:9", long) }); got.longest != long+42 {
				t.Errorf("to another device: %+v arrive", got)
			}
			if m.tcx {
				seal := plan.Carrier{}.Seal(5, 0)
				seen := observe(t, up.Index, seal, 0x1234, 6)
				segmented(t, box, there, long)
				if right, all := seen(); right != 29 || all != 29 {
					t.Errorf("%d of %d frames have seal, mark and priority, want 29", right, all)
				}
			}
			state.Link.Capacity = 1e9
			must(t, attach(up, state))
			whole("a fast link", long, long+42, 1)
			must(t, m.DetachLink(up))
			must(t, m.CleanupAll())
			for _, name := range []string{"weir-gso", "weir-gso-out", "weir-gso-end"} {
				if _, err := m.conn.Lookup(name); !errors.Is(err, dataplane.ErrNoDevice) {
					t.Errorf("%s is left", name)
				}
			}
		})
	}
}

// A link without Ethernet headers, such as a tunnel's, gets frames that begin with the IP header.
func TestSplitWithoutEthernet(t *testing.T) {
	ways(t, func(t *testing.T, host *netnstest.Netns, m *Marker) {
		boxed, _, box := splitBed(t, host, m)
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Skipf("skipped: this host has no tun: %v", err)
		}
		defer unix.Close(fd)
		request, err := unix.NewIfreq("tun0")
		must(t, err)
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		must(t, unix.IoctlIfreq(fd, unix.TUNSETIFF, request))
		host.Run("ip", "addr", "add", "10.99.0.1/24", "dev", "tun0")
		host.Run("ip", "link", "set", "tun0", "up")
		tun, err := m.conn.Lookup("tun0")
		must(t, err)
		must(t, m.Attach(boxed, Marking{}))
		must(t, m.AttachLink(tun, slow(boxed)))
		segmented(t, box, "10.99.0.2:9", 40_000)
		got, bytes, packet := 0, 0, make([]byte, 2000)
		for {
			n, err := unix.Read(fd, packet)
			if err != nil {
				break
			}
			if n > 28 && packet[0] == 0x45 && packet[9] == unix.IPPROTO_UDP {
				got, bytes = got+1, bytes+n-28
			}
		}
		if got != 29 || bytes != 40_000 {
			t.Errorf("%d packets with %d bytes arrive, want 29 with 40,000", got, bytes)
		}
	})
}

// What another program takes away of the devices that split is said, and made anew. What a program
// sends to these devices itself goes nowhere.
func TestSplitIsMended(t *testing.T) {
	ways(t, func(t *testing.T, host *netnstest.Netns, m *Marker) {
		boxed, up, box := splitBed(t, host, m)
		state := slow(boxed)
		must(t, m.AttachLinkRules(up, state))
		out := func() int {
			at, err := m.conn.Splitter()
			must(t, err)
			return at.Out
		}
		for what, take := range map[string]func(){
			"device":  func() { host.Run("ip", "link", "del", "weir-gso") },
			"end":     func() { host.Run("ip", "link", "del", "weir-gso-end") },
			"state":   func() { host.Run("ip", "link", "set", "weir-gso", "down") },
			"program": func() { must(t, m.at(frames).detach(out())) },
			"link":    func() { must(t, m.at(egress).detach(up.Index)) },
		} {
			if missing, err := m.MissingAtLink(up, state, true); err != nil || len(missing) != 0 {
				t.Fatalf("before %s: %v, %v", what, missing, err)
			}
			take()
			if missing, err := m.MissingAtLink(up, state, true); err != nil || len(missing) != 1 {
				t.Errorf("%s: %q, %v; want one sentence", what, missing, err)
			}
			must(t, m.AttachLinkRules(up, state))
			if got := arrives(t, m, "up0p", func() { segmented(t, box, "192.0.2.9:9", 40_000) }); got.packets != 29 {
				t.Errorf("%s: %+v arrive afterwards", what, got)
			}
		}
		got := arrives(t, m, "up0p", func() {
			for _, name := range []string{"weir-gso", "weir-gso-out"} {
				fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
				must(t, err)
				dev, err := m.conn.Lookup(name)
				must(t, err)
				if err := unix.Sendto(fd, packet4(unix.IPPROTO_UDP), 0, &unix.SockaddrLinklayer{Ifindex: dev.Index, Halen: 6}); err == nil {
					t.Errorf("%s takes a packet", name)
				}
				must(t, unix.Close(fd))
			}
		})
		if got.packets != 0 {
			t.Errorf("%+v arrive by the link", got)
		}
	})
}

// splitBed is a host that forwards between a container, a link up0 and another device idle. Rules
// of netfilter and routing have given the packets a mark and a priority. It returns the container's
// port, the link, and the container's namespace.
func splitBed(t *testing.T, host *netnstest.Netns, m *Marker) (plan.Port, device.Device, string) {
	t.Helper()
	box := netnstest.New(t)
	marktest.NoIPv6(host)
	marktest.NoIPv6(box)
	for _, d := range []struct{ name, address, peer string }{{"up0", "192.0.2.1/24", "192.0.2.9"}, {"idle", "198.51.100.1/24", "198.51.100.9"}} {
		host.Run("ip", "link", "add", d.name, "type", "veth", "peer", "name", d.name+"p")
		host.Run("ip", "link", "set", d.name+"p", "up")
		host.Run("ip", "link", "set", d.name, "up")
		host.Run("ip", "addr", "add", d.address, "dev", d.name)
		host.Run("ip", "neigh", "add", d.peer, "lladdr", "02:00:00:00:00:09", "dev", d.name)
	}
	host.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0")
	host.Run("ip", "link", "add", "box0", "type", "veth", "peer", "name", "eth0", "netns", box.Name)
	host.Run("ip", "link", "set", "box0", "up")
	host.Run("ip", "addr", "add", "10.9.9.1/24", "dev", "box0")
	box.Run("ip", "link", "set", "eth0", "up")
	box.Run("ip", "addr", "add", "10.9.9.9/24", "dev", "eth0")
	box.Run("ip", "route", "add", "default", "via", "10.9.9.1")
	host.Run("nft", "add table ip t; add chain ip t f { type filter hook forward priority 0; }; add rule ip t f meta mark set 0x1234")
	dev, err := m.conn.Lookup("box0")
	must(t, err)
	up, err := m.conn.Lookup("up0")
	must(t, err)
	return plan.Port{Device: "box0", Ifindex: dev.Index, Class: 5}, up, box.Path()
}

// arrived is what has come by a device.
type arrived struct{ packets, longest, bytes int } // bytes of payload

// arrives tells UDP that comes by a device while packets are sent.
func arrives(t *testing.T, m *Marker, name string, send func()) (got arrived) {
	t.Helper()
	dev, err := m.conn.Lookup(name)
	must(t, err)
	const ip = unix.ETH_P_IP>>8 | unix.ETH_P_IP<<8&0xff00
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1<<22))
	must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}))
	must(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: ip, Ifindex: dev.Index}))
	send()
	buffer := make([]byte, 1<<17)
	for {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if err != nil {
			return got
		}
		if n > 42 && buffer[23] == unix.IPPROTO_UDP {
			got = arrived{got.packets + 1, max(got.longest, n), got.bytes + n - 42}
		}
	}
}

// segmented sends so many bytes by UDP as one packet of offload, which becomes datagrams of 1,400.
func segmented(t *testing.T, space, to string, bytes int) {
	t.Helper()
	at, err := net.ResolveUDPAddr("udp4", to)
	must(t, err)
	must(t, nsthread.InPath(space, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_TOS, 0x10),
			unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, 1400),
			unix.Sendto(fd, make([]byte, bytes), 0, &unix.SockaddrInet4{Port: at.Port, Addr: [4]byte(at.IP.To4())}),
		)
	}))
	time.Sleep(20 * time.Millisecond) // the CPU's backlog
}

// observe counts, behind Weir's program at a device's egress, the packets that have this seal, mark
// and priority, and all.
func observe(t *testing.T, index int, seal, mark, priority uint32) func() (right, all uint64) {
	t.Helper()
	count, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})
	must(t, err)
	const skbMark, skbTCIndex, skbPriority = 8, 44, 32
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "theirs", Type: ebpf.SchedCLS, License: "GPL", AttachType: ebpf.AttachTCXEgress, Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, count.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.LoadMem(asm.R2, asm.R6, skbTCIndex, asm.Word), asm.JNE.Imm(asm.R2, int32(seal), "out"),
		asm.LoadMem(asm.R2, asm.R6, skbMark, asm.Word), asm.JNE.Imm(asm.R2, int32(mark), "out"),
		asm.LoadMem(asm.R2, asm.R6, skbPriority, asm.Word), asm.JNE.Imm(asm.R2, int32(priority), "out"),
		asm.Add.Imm(asm.R0, 8),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("out"),
		asm.Return(),
	}})
	must(t, err)
	l, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: prog, Attach: ebpf.AttachTCXEgress, Anchor: link.Tail()})
	must(t, err)
	t.Cleanup(func() { l.Close(); prog.Close(); count.Close() })
	return func() (right, all uint64) {
		var n [2]uint64
		must(t, count.Lookup(uint32(0), &n))
		l.Close()
		return n[1], n[0]
	}
}
