// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/core/policy/discipline"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/host/dataplane/mark/marktest"
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
	seen := witnessOf(t, skbTCIndex, a.Ifindex, ebpf.AttachTCXIngress)
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
		want := m.carrier.Seal(5, tt.queue)
		inject(t, peer.Index, data)
		got := seen()
		for deadline := time.Now().Add(10 * time.Second); got != want && time.Now().Before(deadline); got = seen() {
			time.Sleep(time.Millisecond)
		}
		if got != want {
			t.Errorf("%s: seal %#x, want %#x", tt.name, got, want)
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
	// The fourth pair of bytes is the last of a /64; behind it is another address in each
	// packet.
	inside := 0
	v6 := func(from, to, ports string) string {
		inside++
		rest := fmt.Sprintf("%016x", inside)
		return ethernet + "86dd" + "60000000 00081140 20010db8" + from + rest + "20010db8" + to + rest + ports + "00080000"
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
			if got := hash(packet(one, "c0000201", ports)); got != same {
				t.Errorf("%s, %s: the same host has hash %#x, then %#x", asks.Isolation, family, same, got)
			}
			source, destination := packetHosts(t, packet(one, "c0000201", ports))
			if asks.Isolation == discipline.BySource {
				destination = 0
			} else if asks.Isolation == discipline.ByDestination {
				source = 0
			}
			if want := hashOfHosts(hostKeys(), family == "IPv6", source, destination); same != want {
				t.Errorf("%s, %s: hash %#x, want %#x", asks.Isolation, family, same, want)
			}
			for part, by := range map[string]bool{"source": asks.Isolation != discipline.ByDestination, "destination": asks.Isolation != discipline.BySource} {
				if (differs[part] != same) != by {
					t.Errorf("%s, %s: another %s gives hash %#x beside %#x", asks.Isolation, family, part, differs[part], same)
				}
			}
		}
	}
}

// packetHosts returns the addresses of a frame as the kernel reads them, of IPv6 their first half.
func packetHosts(t *testing.T, frame string) (source, destination uint64) {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(frame, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	if b[12] == 0x86 {
		return binary.NativeEndian.Uint64(b[22:]), binary.NativeEndian.Uint64(b[38:])
	}
	return uint64(binary.NativeEndian.Uint32(b[26:])), uint64(binary.NativeEndian.Uint32(b[30:]))
}

// hashOfHosts is what bpf/marking/rules.h writes: source and destination are 0 where they do not
// count.
func hashOfHosts(keys [6]uint64, six bool, source, destination uint64) uint32 {
	sum := keys[0]
	if six {
		sum += keys[1]
	}
	for i, part := range []uint64{source & 0xffffffff, source >> 32, destination & 0xffffffff, destination >> 32} {
		sum += keys[2+i] * part
	}
	return uint32(sum >> 32)
}

// Hosts of one hash under some keys, which a sender finds by trying, have others under other
// keys: what is found on one machine is worth nothing on the next.
func TestHostsThatCollideElsewhere(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	keys := func() (k [6]uint64) {
		for i := range k {
			k[i] = draw.Uint64()
		}
		return k
	}
	known, others := keys(), keys()
	seen := map[uint32]uint64{}
	found := 0
	for range 1 << 19 {
		host := draw.Uint64()
		hash := hashOfHosts(known, true, host, 0)
		if twin, ok := seen[hash]; ok && twin != host {
			found++
			if a, b := hashOfHosts(others, true, host, 0), hashOfHosts(others, true, twin, 0); a == b {
				t.Errorf("%#x and %#x have one hash under both keys", host, twin)
			}
		}
		seen[hash] = host
	}
	if found < 10 {
		t.Errorf("%d hosts share a hash under the known keys: the test shows little", found)
	}
	// The keys are drawn, and do not make another program of the same rules.
	p, err := compile(classifyProgWeirRulesPort, 5, plan.Carrier{}, MarkingOf(plan.Class{Isolation: discipline.BySource}), ethernetHeader)
	if err != nil {
		t.Fatal(err)
	}
	digest := p.digest()
	if p.place.HostKeys == ([6]uint64{}) {
		t.Error("no keys were drawn")
	}
	p.place.HostKeys = known
	if p.digest() != digest {
		t.Error("the next agent's keys replace the program")
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
