// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/internal/dataplane/device/netnstest"
	"weir/internal/dataplane/mark/marktest"
	"weir/internal/plan"
	"weir/internal/policy/discipline"
)

// Frames that really come in by a veth: there the kernel takes the outer VLAN tag
// out of the packet before the program runs, which a test run cannot show.
func TestFramesByAPort(t *testing.T) {
	host := netnstest.Enter(t)
	m := newMarker(t, netnstest.Options(t), "tcx")
	marktest.NoIPv6(host)
	a := addPort(t, host, m, "a0")
	a.Class = 5
	if err := m.Attach(a, marking(t, "{vlan: 100}", "{udp: 5001}", "{dscp: ef}", "")); err != nil {
		t.Fatal(err)
	}
	peer, err := m.conn.Lookup("a0p")
	if err != nil {
		t.Fatal(err)
	}
	seen := witness(t, a.Ifindex, ebpf.AttachTCXIngress)
	const (
		ethernet = "020000000001 020000000002"
		udp      = "4500001c 00070000 40110000 0a000001 c0000201 9c401389 00080000"
		first    = "4500001c 00082000 40110000 0a000001 c0000201 9c401389 00080000"
		later    = "4500001c 00080002 40110000 0a000001 c0000201 0000000000000000"
		stranger = "4500001c 00090002 40110000 0a000001 c0000201 0000000000000000"
		ef       = "60000000 00081140 20010db8000000000000000000000001 20010db8000000000000000000000002 9c40000900080000"
	)
	// Neighbours differ in their queue, so that each is seen by itself.
	for _, tt := range []struct {
		name, frame string
		queue       int
	}{
		{"untagged", ethernet + "0800" + udp, 1},
		{"tagged", ethernet + "8100 0064 0800" + udp, 0},
		{"tagged, another id", ethernet + "8100 2065 0800" + udp, 1},
		{"tag in tag", ethernet + "88a8 0064 8100 0005 0800" + udp, 0},
		{"tag in tag, the inner id", ethernet + "88a8 0005 8100 0064 0800" + udp, 1},
		{"ARP", ethernet + "0806" + strings.Repeat("00", 28), 3},
		{"first fragment", ethernet + "0800" + first, 1},
		{"IPv6", ethernet + "86dd" + strings.Replace(ef, "6000", "6b80", 1), 2},
		{"later fragment", ethernet + "0800" + later, 1},
		{"later fragment of another", ethernet + "0800" + stranger, 3},
	} {
		data, err := hex.DecodeString(strings.ReplaceAll(tt.frame, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		want := m.mask.Value(5, tt.queue)
		inject(t, peer.Index, data)
		got := seen()
		for deadline := time.Now().Add(10 * time.Second); got != want && time.Now().Before(deadline); got = seen() {
			time.Sleep(time.Millisecond)
		}
		if got != want {
			t.Errorf("%s: mark %#x, want %#x", tt.name, got, want)
		}
	}
}

// skbHash is where struct __sk_buff has the hash.
const skbHash = 68

// TestHostsShareAHash: with an isolation all packets of a host that come in by a port have one
// hash, whatever their ports, and those of another host another one.
func TestHostsShareAHash(t *testing.T) {
	host := netnstest.Enter(t)
	m := newMarker(t, netnstest.Options(t), "tcx")
	marktest.NoIPv6(host)
	a := addPort(t, host, m, "a0")
	a.Class = 5
	peer, err := m.conn.Lookup("a0p")
	if err != nil {
		t.Fatal(err)
	}
	seen := witnessOf(t, skbHash, a.Ifindex, ebpf.AttachTCXIngress)
	send := func(frame string, arrived func(hash uint32) bool) uint32 {
		t.Helper()
		data, err := hex.DecodeString(strings.ReplaceAll(frame, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		inject(t, peer.Index, data)
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if hash := seen(); arrived(hash) {
				return hash
			}
		}
		t.Fatalf("%s: the hash is %#x", frame, seen())
		return 0
	}
	const ethernet = "020000000001 020000000002"
	v4 := func(from, to, ports string) string {
		return ethernet + "0800" + "4500001c 00070000 40110000" + from + to + ports + "00080000"
	}
	v6 := func(from, to, ports string) string {
		return ethernet + "86dd" + "60000000 00081140 20010db80000000000000000" + from + "20010db80000000000000000" + to + ports + "00080000"
	}
	const one, two, ports, others = "0a000001", "0a000002", "9c401389", "9c41138a"
	dscp := uint8(46)
	for _, asks := range []plan.Class{
		{Isolation: discipline.BySource}, {Isolation: discipline.ByDestination}, {Isolation: discipline.ByHosts},
		{Isolation: discipline.BySource, DSCP: &dscp},
	} {
		if err := m.Attach(a, MarkingOf(asks)); err != nil {
			t.Fatal(err)
		}
		for family, packet := range map[string]func(from, to, ports string) string{"IPv4": v4, "IPv6": v6} {
			hash := func(frame string) uint32 {
				// A frame that is not IP keeps the hash that it has: none.
				send(ethernet+"0806"+strings.Repeat("00", 28), func(hash uint32) bool { return hash == 0 })
				return send(frame, func(hash uint32) bool { return hash != 0 })
			}
			same, differs := hash(packet(one, "c0000201", ports)), map[string]uint32{}
			if got := hash(packet(one, "c0000201", others)); got != same {
				t.Errorf("%s, %s: other ports give hash %#x, not %#x", asks.Isolation, family, got, same)
			}
			differs["source"], differs["destination"] = hash(packet(two, "c0000201", ports)), hash(packet(one, "c0000202", ports))
			for part, by := range map[string]bool{"source": asks.Isolation != discipline.ByDestination, "destination": asks.Isolation != discipline.BySource} {
				if (differs[part] != same) != by {
					t.Errorf("%s, %s: another %s gives hash %#x beside %#x", asks.Isolation, family, part, differs[part], same)
				}
			}
		}
	}
}

// inject sends a frame out of a device.
func inject(t *testing.T, ifindex int, frame []byte) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: ifindex}); err != nil {
		t.Fatal(err)
	}
}
