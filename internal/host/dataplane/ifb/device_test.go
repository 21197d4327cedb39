// SPDX-License-Identifier: Apache-2.0

package ifb

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/hosttest"
	"weir/internal/host/dataplane/mark"
)

// atEgress returns the filters and programs on what a device sends, as text.
func (b *bed) atEgress(name string) string {
	b.T.Helper()
	text := b.Netns.Run("tc", "filter", "show", "dev", name, "egress")
	if !mark.HaveTCX() {
		return text
	}
	dev, err := net.InterfaceByName(name)
	if err != nil {
		b.T.Fatal(err)
	}
	chain, err := link.QueryPrograms(link.QueryOptions{Target: dev.Index, Attach: ebpf.AttachTCXEgress})
	if err != nil {
		b.T.Fatal(err)
	}
	for _, p := range chain.Programs {
		text += fmt.Sprintf("program %d\n", p.ID)
	}
	return text
}

// takeAway takes what carries packets to an IFB, or to a pair, off a device.
func (b *bed) takeAway(name string) {
	b.T.Helper()
	if !havePairs() {
		b.Netns.Run("tc", "filter", "del", "dev", name, "egress")
		return
	}
	dev, err := net.InterfaceByName(name)
	if err != nil {
		b.T.Fatal(err)
	}
	pins, err := filepath.Glob(filepath.Join(b.Opts.BPFFS, "netns-*", "takes-*", fmt.Sprint(dev.Index)))
	if err != nil || len(pins) == 0 {
		b.T.Fatalf("pins %v, %v", pins, err)
	}
	for _, pin := range pins {
		if err := os.Remove(pin); err != nil {
			b.T.Fatal(err)
		}
	}
}

// withoutPairs does something as on a kernel without tcx.
func withoutPairs(do func()) {
	have := havePairs
	havePairs = func() bool { return false }
	defer func() { havePairs = have }()
	do()
}

// What holds with a pair holds with an IFB, which kernels without tcx have.
func TestWithAnIFB(t *testing.T) {
	withoutPairs(func() {
		t.Run("what came by the link", TestWhatCameByTheLink)
		t.Run("adopt and clean up", TestAdoptAndCleanUp)
		t.Run("zone", TestZoneIsAdoptedAndCleanedUp)
	})
}

// Another program removes the IFB: the filter that carried packets to it goes when there is a new
// one.
func TestNoFilterToAnIFBThatIsGone(t *testing.T) {
	withoutPairs(func() {
		b := newBed(t, "tc", 1)
		backend, s := b.backend(false), b.state(100*mbit, plan.Class{Weight: 1})
		for range 2 {
			b.Set(backend, s)
			if at := b.atEgress("c1"); strings.Count(at, "handle") != 1 {
				t.Errorf("filters at the port:\n%s", at)
			}
			b.Server.Run("ping", "-q", "-c", "2", "-i", "0.01", "10.77.0.1")
			b.Netns.Run("ip", "link", "del", "weir-in-up0")
		}
	})
}

// A pair takes the place of an IFB that an earlier version has left, and the other way round.
// Nothing of the former is left, and packets pass.
func TestPairReplacesIFB(t *testing.T) {
	if !havePairs() {
		t.Skip("skipped: this kernel has no tcx (Linux 6.6)")
	}
	b := newBed(t, "tc", 1)
	links, qdiscs := b.Netns.Run("ip", "-o", "link"), b.Netns.Run("tc", "qdisc", "show")
	s := b.state(100*mbit, plan.Class{Weight: 1})
	check := func(kind string) {
		t.Helper()
		backend := b.backend(false)
		b.Set(backend, s)
		if missing, err := backend.Missing(); err != nil || len(missing) > 0 {
			t.Errorf("missing %q, %v", missing, err)
		}
		if text := b.Netns.Run("ip", "-d", "link", "show", "weir-in-up0"); !strings.Contains(text, kind) {
			t.Errorf("want %s: %s", kind, text)
		}
		b.Server.Run("ping", "-q", "-c", "20", "-i", "0.01", "10.77.0.1")
		if n := b.Counters(backend).Classes[1].SentPackets; n < 20 {
			t.Errorf("%d packets counted with %s", n, kind)
		}
		if at := strings.TrimSpace(b.atEgress("c1")); (kind == "ifb") != strings.Contains(at, "filter") || (kind == "veth") != strings.Contains(at, "program") {
			t.Errorf("with %s there are at the port: %s", kind, at)
		}
		backend.Close()
	}
	withoutPairs(func() { check("ifb") })
	check("veth")
	withoutPairs(func() { check("ifb") })
	check("veth")
	last := b.backend(false)
	if err := last.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := b.Netns.Run("ip", "-o", "link"); now != links {
		t.Errorf("devices after cleanup:\n%s\nbefore:\n%s", now, links)
	}
	if now := b.Netns.Run("tc", "qdisc", "show"); now != qdiscs {
		t.Errorf("qdiscs after cleanup:\n%s\nbefore:\n%s", now, qdiscs)
	}
}

// What goes into a port whose packets have no Ethernet header, as of a tunnel to a client, arrives
// as it was sent, and is counted.
func TestPortWithoutEthernet(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		b := newBed(t, kind, 1)
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Skipf("skipped: this host has no tun: %v", err)
		}
		defer unix.Close(fd)
		request, err := unix.NewIfreq("client0")
		if err != nil {
			t.Fatal(err)
		}
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
			t.Fatal(err)
		}
		b.Netns.Run("ip", "addr", "add", "10.99.0.1/24", "dev", "client0")
		b.Netns.Run("ip", "link", "set", "client0", "up")
		b.Netns.Run("sysctl", "-qw", "net.ipv4.ip_forward=1")
		b.Server.Run("ip", "route", "add", "10.99.0.0/24", "via", hosttest.HostAt)
		client, err := net.InterfaceByName("client0")
		if err != nil {
			t.Fatal(err)
		}
		b.Ports[0] = plan.Port{Device: "client0", Ifindex: client.Index, Class: 1}
		backend := b.backend(false)
		b.Set(backend, b.state(100*mbit, plan.Class{Weight: 1}))
		const sent, size = 20, 500
		_ = b.Server.Command("ping", "-q", "-c", fmt.Sprint(sent), "-i", "0.01", "-W", "1", "-s", fmt.Sprint(size-28), "10.99.0.2").Run() // no host answers
		got, packet := 0, make([]byte, 2000)
		for {
			n, err := unix.Read(fd, packet)
			if err != nil {
				break
			}
			if n == size && packet[0] == 0x45 && packet[9] == unix.IPPROTO_ICMP {
				got++
			}
		}
		if n := b.Counters(backend).Classes[1].SentPackets; got != sent || n != sent {
			t.Errorf("%d of %d packets arrived whole, %d were counted", got, sent, n)
		}
	})
}
