// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/core/policy/zone"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/host/dataplane/mark/marktest"
)

// zoneProgram loads the program of an area: that of a link, or that of a port.
func zoneProgram(t testing.TB, name string, area *dataplane.CompiledArea) *ebpf.Program {
	t.Helper()
	p, err := compile(name, 5, plan.Carrier{}, Marking{}, ethernetHeader)
	if err != nil {
		t.Fatal(err)
	}
	p.redirect(dataplane.Inward{IFB: 77, Local: true, Area: area})
	prog, err := p.load(ebpf.AttachNone, nil)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { prog.Close() })
	return prog
}

// someArea makes an area of random prefixes, of which about half are out of it.
func someArea(t testing.TB, random *rand.Rand, prefixes int) *dataplane.CompiledArea {
	t.Helper()
	var a zone.Area
	for range prefixes {
		addr := someAddr(random, nil)
		p, _ := addr.Prefix(8 + random.IntN(addr.BitLen()-7))
		if random.IntN(2) == 0 {
			a.In.List = append(a.In.List, p)
		} else {
			a.Out.List = append(a.Out.List, p)
		}
	}
	area, err := dataplane.NewArea(a, nil)
	if err != nil {
		t.Fatal(err)
	}
	return area
}

// someAddr draws an address; near may have one that it is to be close to.
func someAddr(random *rand.Rand, near []netip.Prefix) netip.Addr {
	bytes := make([]byte, 4)
	if random.IntN(2) == 0 {
		bytes = make([]byte, 16)
	}
	for i := range bytes {
		bytes[i] = byte(random.IntN(4))
	}
	if len(near) > 0 && random.IntN(2) == 0 {
		bytes = near[random.IntN(len(near))].Addr().AsSlice()
		bytes[len(bytes)-1-random.IntN(3)] ^= byte(random.IntN(4))
	}
	addr, _ := netip.AddrFromSlice(bytes)
	return addr
}

// framed puts addresses into a packet, behind so many VLAN tags.
func framed(src, dst netip.Addr, tags int) []byte {
	b, at := packet4(17), 26
	if dst.Is6() {
		b, at = packet6(17), 22
	}
	copy(b[at:], src.AsSlice())
	copy(b[at+dst.BitLen()/8:], dst.AsSlice())
	for range tags {
		b = append(append(append([]byte{}, b[:12]...), 0x81, 0, 0, 7), b[12:]...)
	}
	return b
}

// TestKernelFindsZone: the kernel's programs find the receiver's address at a link, and the
// sender's at a port, exactly where the table has it.
func TestKernelFindsZone(t *testing.T) {
	netnstest.New(t)
	random := rand.New(rand.NewPCG(3, 4))
	area := someArea(t, random, 3000)
	const left, taken = 0, ^uint32(0)
	for name, end := range map[string]func(own, other netip.Addr, tags int) []byte{
		classifyProgWeirRulesZone: func(own, other netip.Addr, tags int) []byte { return framed(other, own, tags) },
		classifyProgWeirRulesIn:   framed,
	} {
		prog := zoneProgram(t, name, area)
		seen := map[bool]int{}
		for range 4000 {
			own, other := someAddr(random, nil), netip.IPv4Unspecified()
			if own.Is6() {
				other = netip.IPv6Unspecified()
			}
			tags := random.IntN(3)
			verdict, _, err := prog.Test(end(own, other, tags))
			if err != nil {
				t.Fatal(err)
			}
			want := area.Trie.Has(own)
			if want != (verdict == taken) || verdict != taken && verdict != left {
				t.Fatalf("%s: %s behind %d tags: verdict %d, and the table says %v", name, own, tags, int32(verdict), want)
			}
			seen[want]++
		}
		if seen[true] < 100 || seen[false] < 100 {
			t.Errorf("%s: %v addresses in and out of the area", name, seen)
		}
	}
}

// TestBarePackets: what has no address is the area's only where that says so.
func TestBarePackets(t *testing.T) {
	netnstest.New(t)
	arp := make([]byte, 60)
	arp[12], arp[13] = 8, 6
	for _, bare := range []bool{false, true} {
		area, err := dataplane.NewArea(zone.Area{Rest: true, Bare: bare}, nil)
		if err != nil {
			t.Fatal(err)
		}
		verdict, _, err := zoneProgram(t, classifyProgWeirRulesIn, area).Test(arp)
		if err != nil || (verdict != 0) != bare {
			t.Errorf("bare %v: verdict %d, %v", bare, int32(verdict), err)
		}
	}
}

// TestLargeZoneLoads: 10,000 prefixes are in the kernel within a second.
func TestLargeZoneLoads(t *testing.T) {
	netnstest.New(t)
	begin := time.Now()
	zoneProgram(t, classifyProgWeirRulesZone, tenThousand(t))
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it took %v", took)
	}
}

// tenThousand makes an area of 10,000 prefixes, as a list of a content network has.
func tenThousand(t testing.TB) *dataplane.CompiledArea {
	t.Helper()
	random := rand.New(rand.NewPCG(5, 6))
	var a zone.Area
	for range 10_000 {
		p, _ := netip.AddrFrom4([4]byte{byte(random.IntN(224)), byte(random.IntN(256)), byte(random.IntN(256)), byte(random.IntN(256))}).Prefix(16 + random.IntN(17))
		a.In.List = append(a.In.List, p)
	}
	a.In.List = append(a.In.List, netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2000::/30"), netip.MustParsePrefix("2000:4::/30"))
	area, err := dataplane.NewArea(a, nil)
	if err != nil {
		t.Fatal(err)
	}
	return area
}

// What it costs to find the zone, as BenchmarkRules measures it:
//
//	go test -c ./internal/host/dataplane/mark
//	vm/run --virtual-time --copy mark.test -- ./mark.test -test.run - -test.bench Zones -test.benchtime 1x
func BenchmarkZones(b *testing.B) {
	netnstest.New(b)
	nobody, err := dataplane.NewArea(zone.Area{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	everybody, err := dataplane.NewArea(zone.Area{Rest: true}, nil)
	if err != nil {
		b.Fatal(err)
	}
	many := tenThousand(b)
	far := func(text string) []byte {
		addr := netip.MustParseAddr(text)
		return framed(addr, addr, 0)
	}
	measure := func(area *dataplane.CompiledArea, packet []byte) time.Duration {
		prog := zoneProgram(b, classifyProgWeirRulesZone, area)
		least := time.Hour
		for range 20 {
			_, each, err := prog.Benchmark(packet, 5000, nil)
			if err != nil {
				b.Fatal(err)
			}
			least = min(least, each)
		}
		return least
	}
	const most = 60 * time.Nanosecond // instructions that 10,000 prefixes cost more than none
	var none time.Duration            // what the row before took
	for _, bench := range []struct {
		name   string
		area   *dataplane.CompiledArea
		packet []byte
	}{
		{"warm", everybody, far("192.0.2.1")},
		{"no prefix, IPv4, elsewhere", nobody, far("192.0.2.1")},
		{"10,000 prefixes, IPv4, two bytes, elsewhere", many, far("240.0.2.1")},
		{"no prefix, IPv4, carried", everybody, far("192.0.2.1")},
		{"10,000 prefixes, IPv4, four bytes, carried", many, far("192.0.2.1")},
		{"no prefix, IPv6, carried", everybody, far("2000::1")},
		{"10,000 prefixes, IPv6, four bytes, carried", many, far("2000::1")},
	} {
		b.Run(fmt.Sprintf("%q", bench.name), func(b *testing.B) {
			took := measure(bench.area, bench.packet)
			b.ReportMetric(float64(took.Nanoseconds()), "ns/packet")
			if bench.area == many && took > none+most {
				b.Errorf("%v more than without prefixes; at most %v", took-none, most)
			}
			none = took
			b.ReportMetric(0, "ns/op")
		})
	}
}

// A packet socket that calls its IPv4 frame ARP does not choose the zone by that.
func TestZoneByTheFrame(t *testing.T) {
	host := netnstest.Enter(t)
	m := newMarker(t, netnstest.Options(t), "tcx")
	marktest.NoIPv6(host)
	up, number := addPort(t, host, m, "up0"), uint32(0)
	for _, to := range []string{"192.0.2.9", "2001:db8::9"} {
		var a zone.Area
		address := netip.MustParseAddr(to)
		a.In.List = []netip.Prefix{netip.PrefixFrom(address, address.BitLen())}
		area, err := dataplane.NewArea(a, nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := compile(classifyProgWeirRulesZone, 5, plan.Carrier{Mask: plan.UsualMask}, Marking{}, ethernetHeader)
		if err != nil {
			t.Fatal(err)
		}
		p.redirect(dataplane.Inward{IFB: 77, Area: area})
		prog, err := p.load(ebpf.AttachTCXEgress, nil)
		if err != nil {
			t.Fatal(err)
		}
		l, err := link.AttachTCX(link.TCXOptions{Interface: up.Ifindex, Program: prog, Attach: ebpf.AttachTCXEgress, Anchor: link.Head()})
		if err != nil {
			t.Fatal(err)
		}
		seen := witness(t, up.Ifindex, ebpf.AttachTCXEgress)
		for _, tags := range []int{0, 1} {
			for _, said := range []uint16{unix.ETH_P_IP, unix.ETH_P_IPV6, unix.ETH_P_ARP, unix.ETH_P_8021Q} {
				number++
				sendAs(t, up.Ifindex, said, 7<<16|number, framed(address, address, tags))
				// What is taken loses the class that its socket chose. What is left
				// passes no witness.
				if seen() != number {
					t.Errorf("to %s with %d tags, called %#x: not taken", to, tags, said)
				}
			}
		}
		l.Close()
		prog.Close()
	}
}

// sendAs sends a frame by a packet socket that says of what protocol it is, and sets a mark.
func sendAs(t *testing.T, ifindex int, protocol uint16, mark uint32, frame []byte) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	at := &unix.SockaddrLinklayer{Ifindex: ifindex, Protocol: protocol<<8 | protocol>>8}
	if err := errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(mark)), unix.Sendto(fd, frame, 0, at)); err != nil {
		t.Fatal(err)
	}
}
