// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/core/policy/framing"
	"weir/internal/host/dataplane/device/netnstest"
)

// framingBed has a link up0 with a VLAN and a tunnel of IP in IP on it, all of which lead to
// another namespace.
func framingBed(t *testing.T) {
	t.Helper()
	host, peer := netnstest.Enter(t), netnstest.New(t)
	host.Run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1") // which sends by itself
	for _, args := range []string{
		"link add up0 type veth peer name down0 netns " + peer.Name,
		"link set up0 up mtu 9100", "addr add 10.9.0.1/24 dev up0",
		"neigh add 10.9.0.2 lladdr 02:00:00:00:00:01 dev up0 nud permanent",
		"link add link up0 name up0.5 type vlan id 5", "link set up0.5 up", "addr add 10.9.5.1/24 dev up0.5",
		"neigh add 10.9.5.2 lladdr 02:00:00:00:00:01 dev up0.5 nud permanent",
		"link add ipip9 type ipip local 10.9.0.1 remote 10.9.0.2", "link set ipip9 up mtu 9050", "addr add 10.9.6.1/24 dev ipip9",
	} {
		host.Run(append([]string{"ip"}, strings.Fields(args)...)...)
	}
	peer.Run("ip", "link", "set", "down0", "up", "mtu", "9100")
}

// datagrams sends payload bytes to an address, cut into segments by the kernel if segment is not 0.
func datagrams(t *testing.T, to string, payload, segment int) {
	t.Helper()
	conn, err := net.Dial("udp4", to+":9")
	must(t, err)
	defer conn.Close()
	if segment > 0 {
		raw, err := conn.(*net.UDPConn).SyscallConn()
		must(t, err)
		var setErr error
		must(t, raw.Control(func(fd uintptr) { setErr = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, segment) }))
		must(t, setErr)
	}
	_, err = conn.Write(make([]byte, payload))
	must(t, err)
}

// sentBytes is what class 0 has sent and what waits of it, once as many packets have come.
func sentBytes(t *testing.T, b *Backend, packets uint64) (uint64, uint64) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; {
		snap, err := b.Counters()
		must(t, err)
		if c := snap.Classes[0]; c.SentPackets >= packets || time.Now().After(deadline) {
			return c.SentPackets, c.SentBytes
		}
	}
}

const headersOfUDP = 20 + 8

// framedLink is a way of packets to a link.
type framedLink struct {
	name, device, to string
	header, tag      int // bytes before the IP header; of tags that no length counts
}

// charges sends datagrams of all kinds over a link and compares what class 0 is charged with what
// the line takes of the frames.
func (l framedLink) charges(t *testing.T, b *Backend, f framing.Framing) {
	t.Helper()
	for _, size := range []struct{ payload, segment int }{
		{1, 0}, {18, 0}, {100, 0}, {1400, 0}, {8900, 0}, {1000, 100}, {950, 100}, {2000, 20}, {14000, 1400}, {30001, 1400},
	} {
		want := 0
		for rest := size.payload; rest > 0; {
			part := rest
			if size.segment > 0 {
				part = min(rest, size.segment)
			}
			rest -= part
			frame := l.header + headersOfUDP + part
			if !f.FromIP {
				frame += l.tag
			}
			want += f.On(frame, l.header)
		}
		packets, before := sentBytes(t, b, 0)
		datagrams(t, l.to, size.payload, size.segment)
		_, after := sentBytes(t, b, packets+1)
		if got := int(after - before); got != want {
			t.Errorf("%s, %s: %d bytes in segments of %d are charged %d bytes, the line takes %d", l.name, f, size.payload, size.segment, got, want)
		}
	}
}

// TestPacketsAreWhatTheLineTakes: the kernel's packets are charged what tc-cake(8) would charge
// them: on Ethernet, with a VLAN's tag, on a device without a header, whole and in segments.
func TestPacketsAreWhatTheLineTakes(t *testing.T) {
	if err := Supported(); err != nil {
		t.Skipf("needs a kernel with BPF qdiscs (vm/run has one): %v", err)
	}
	framingBed(t)
	opts := netnstest.Options(t)
	for _, l := range []framedLink{
		{"Ethernet", "up0", "10.9.0.2", framing.Ethernet, 0},
		{"a VLAN on the link", "up0", "10.9.5.2", framing.Ethernet, 4},
		{"a VLAN as link", "up0.5", "10.9.5.2", framing.Ethernet, 4},
		{"no header", "ipip9", "10.9.6.2", 0, 0},
	} {
		b, err := New(l.device, opts, slog.New(slog.NewTextHandler(t.Output(), nil)))
		must(t, err)
		for _, text := range append(framing.Names(), "24", "-4", "atm 26 mpu 96", "ethernet ether-vlan") {
			f, err := framing.Parse(text)
			must(t, err)
			must(t, b.Set(t.Context(), plan.State{
				Link:    plan.Link{Device: l.device, Capacity: 1e9, Reserve: 1, Scheduler: plan.SchedulerFair, Framing: f},
				Classes: []plan.Class{{ID: 0, Name: "host", Weight: 1}},
			}))
			l.charges(t, b, f)
			// The next agent finds the same framing, so that it changes nothing.
			if next, err := b.State(); err != nil || next.Link.Framing != f {
				t.Errorf("%s: in force is %+v, %v; want %+v", l.name, next.Link.Framing, err, f)
			}
		}
		must(t, b.Cleanup(t.Context()))
		must(t, b.Close())
	}
}

// TestPacketsAsCakeCountsThem: with each of tc-cake's names the kernel's own qdisc says the same of
// the shortest and the longest frame.
func TestPacketsAsCakeCountsThem(t *testing.T) {
	if err := Supported(); err != nil {
		t.Skipf("needs a kernel with BPF qdiscs (vm/run has one): %v", err)
	}
	framingBed(t)
	for i, name := range framing.Names() {
		if name == "none" {
			continue // Weir's word for raw
		}
		f, err := framing.Parse(name)
		must(t, err)
		l := framedLink{device: "up0", to: "10.9.0.2", header: framing.Ethernet}
		if i%2 == 0 {
			l = framedLink{device: "ipip9", to: "10.9.6.2"}
		}
		tc(t, "qdisc", "add", "dev", l.device, "root", "cake", "bandwidth", "100mbit", "no-split-gso", name)
		datagrams(t, l.to, 1, 0)
		datagrams(t, l.to, 4000, 1333) // three segments, and one of a byte
		var qdiscs []struct {
			Max int `json:"max_adj_size"`
			Min int `json:"min_adj_size"`
		}
		must(t, json.Unmarshal([]byte(tc(t, "-s", "-j", "qdisc", "show", "dev", l.device, "root")), &qdiscs))
		tc(t, "qdisc", "del", "dev", l.device, "root")
		least, most := f.On(l.header+headersOfUDP+1, l.header), f.On(l.header+headersOfUDP+1333, l.header)
		if len(qdiscs) != 1 || qdiscs[0].Min != least || qdiscs[0].Max != most {
			t.Errorf("%s on %s: cake counts frames of %+v bytes, Weir of %d to %d", name, l.device, qdiscs, least, most)
		}
	}
}
