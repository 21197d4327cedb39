// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel sends all ICMP of a CPU by one socket, which has room for 133 kB. A workload whose
// answers wait in its class leaves others room there: without a bound for it, they lost 54 % of
// their pings.
func TestAnswersOfOthers(t *testing.T) {
	b := newWaysBed(t)
	const pings, most = 200, 2
	for _, k := range everyKind {
		t.Run(string(k), func(t *testing.T) {
			r := &run{waysBed: b, t: t, way: wayNamed("an echo with a forged source"), link: <-b.lanes}
			r.prepare(k)
			defer r.end()
			answered := func() int { return len(b.srv.pinged("-c 200 -i 0.02 -W 5", hostIn(r.link))) }
			before := answered()
			if said := r.launch(); said != "ready" {
				t.Fatalf("the sender said %q", said)
			}
			<-time.After(2 * time.Second) // its class fills
			after := answered()
			t.Logf("pings answered: %d of %d, %d before", after, pings, before)
			if after < before-most {
				t.Error("who fills a class with answers keeps others from theirs")
			}
		})
	}
}

// What the kernel answers to packets that it does not deliver to itself is the workload's that
// asked. On a kernel whose functions cannot be watched it is the host's, which weir status says,
// and a max of the host's bounds it.
func TestAnswersToWhatIsForwarded(t *testing.T) {
	b := newWaysBed(t)
	b.host.run("sysctl -qw net.ipv4.icmp_ratelimit=0") // the limit of all stays
	b.host.must("forbid", b.host.do(func() error {     // where it may, a bridge has netfilter send resets to who asked
		err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("0"), 0)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}))
	b.host.run("nft add table ip forbidding")
	b.host.run("nft add chain ip forbidding forward { type filter hook forward priority 0 ; }")
	b.host.run("nft add rule ip forbidding forward ip daddr " + nowhere.String() + " reject with tcp reset")
	b.host.run("ip route add 198.51.100.0/24 dev " + b.nets[1].bridge)
	b.host.run("sysctl -qw net.ipv6.icmp.ratelimit=0 net.ipv6.conf.all.forwarding=1")
	for _, question := range []struct {
		name string
		ask  func(x *attack, host endpoint) []byte
	}{
		{"ARP", askARP}, {"ICMP", askTime}, {"ICMPv6", askTimeIPv6}, {"reject", askRejected}, {"SCTP", askAssociation},
	} {
		t.Run(question.name, func(t *testing.T) {
			if question.name == "SCTP" {
				b.host.haveSCTP(t)
			}
			r := &run{waysBed: b, t: t, link: <-b.lanes}
			r.prepare(onPort)
			defer r.end()
			if question.name == "ICMPv6" {
				bridge := b.nets[r.link].bridge
				b.host.addIPv6(bridge, hostIn(r.link))
				b.host.knowsIPv6(bridge, serverAt(r.link))
				b.host.run("ip route add " + nowhereIPv6.String() + "/64 dev " + bridge)
			}
			ask := question.ask
			over, ended := make(chan struct{}), make(chan error, 1)
			go func() {
				ended <- r.from.do(func() error {
					one, err := byFrames(func(x *attack) []byte { return ask(x, hostIn(r.link)) }, nil)(&r.attack)
					for tick := time.Tick(time.Millisecond); err == nil; {
						select {
						case <-tick:
							for range 8 {
								err = cmp.Or(err, passing(one(0)))
							}
						case <-over:
							return nil
						}
					}
					return err
				})
			}()
			defer func() {
				close(over)
				b.host.must("ask", <-ended)
			}()
			<-time.After(time.Second)
			f := r.measure(3 * time.Second)
			t.Logf("max %.2f Mbit/s, received %.3f, %.1f %% of it in class %s", waysMax/1e6, f.received/1e6, 100*f.own, r.name)
			if r.gap("Errors of ICMP") == "" && r.gap("is the host's, which a max for host bounds") == "" {
				if f.received < waysMax/2 || f.received > 1.01*waysMax || f.own < 0.99 {
					t.Error("want all of it in the workload's class, and its max held")
				}
				return
			}
			if f.received < waysMax/2 || f.own > 0.01 {
				t.Error("weir status says that it is the host's")
			}
			b.weir("set", "host", "--max", "1mbit")
			defer b.weir("set", "host", "--max", "none")
			<-time.After(time.Second)
			if f = r.measure(3 * time.Second); f.received > 1.01e6 {
				t.Errorf("with a max of 1 Mbit/s for the host, the server receives %.3f", f.received/1e6)
			}
		})
	}
}

// nowhere is an address that the host has a route to.
var (
	nowhere     = net.IPv4(198, 51, 100, 1).To4()
	nowhereIPv6 = net.ParseIP("2001:db8:1::")
)

func askARP(x *attack, host endpoint) []byte {
	const request = 1
	return bytes.Join([][]byte{host.mac, x.FromMAC, {8, 6, 0, 1, 8, 0, 6, 4, 0, request}, x.ToMAC, x.To.To4(), make([]byte, 6), host.ip}, nil)
}

// askTime sends what may go no further. An error of ICMP has the first 548 bytes of what it is
// about.
func askTime(x *attack, host endpoint) []byte {
	f := datagram(endpoint{x.To.To4(), x.FromMAC}, endpoint{net.IPv4(198, 51, 100, 2).To4(), host.mac})
	ip := f[14:34]
	ip[8], ip[10], ip[11] = 1, 0, 0
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	return f
}

func askRejected(x *attack, host endpoint) []byte {
	packet := forgedRequest(x, [4]byte(nowhere))
	binary.BigEndian.PutUint16(packet[10:], checksum(packet[:20]))
	return bytes.Join([][]byte{host.mac, x.FromMAC, {8, 0}, packet}, nil)
}

func askTimeIPv6(x *attack, host endpoint) []byte {
	const hops, length = 1, 1000
	header := []byte{6 << 4, 0, 0, 0, length >> 8, length & 0xff, unix.IPPROTO_UDP, hops}
	return bytes.Join([][]byte{host.mac, x.FromMAC, {0x86, 0xdd}, header, endpoint{ip: x.To}.ipv6(), nowhereIPv6, make([]byte, length)}, nil)
}

// askAssociation asks for an association with a port that nobody listens at.
func askAssociation(x *attack, host endpoint) []byte {
	const chunkInit = 1
	packet := slices.Concat([]byte{0, 7, 0, 7}, make([]byte, 8), // ports; no tag; room for the checksum
		[]byte{chunkInit, 0, 0, 20}, []byte{0, 0, 0, 1}, []byte{0, 0, 0xff, 0xff}, []byte{0, 1, 0, 1}, []byte{0, 0, 0, 1})
	binary.LittleEndian.PutUint32(packet[8:], crc32.Checksum(packet, crc32.MakeTable(crc32.Castagnoli)))
	packet = forgedIPv4(x, [4]byte(host.ip), unix.IPPROTO_SCTP, packet)
	binary.BigEndian.PutUint16(packet[10:], checksum(packet[:20]))
	return bytes.Join([][]byte{host.mac, x.FromMAC, {8, 0}, packet}, nil)
}

// haveSCTP has the kernel answer SCTP.
func (s *space) haveSCTP(t *testing.T) {
	err := s.do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	})
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		t.Skip("skipped: this kernel has no SCTP")
	}
	s.must("SCTP", err)
}
