// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// framesOfProtocols are frames as a workload may send them that are neither TCP nor UDP, or more
// than that: all are the workload's, and none is changed or lost.
func framesOfProtocols(from, to endpoint) map[string][][]byte {
	body := func(n int, fill byte) []byte { return bytes.Repeat([]byte{fill}, n) }
	ether := func(dst net.HardwareAddr, kind uint16, rest ...[]byte) []byte {
		return slices.Concat(append([][]byte{dst, from.mac, binary.BigEndian.AppendUint16(nil, kind)}, rest...)...)
	}
	ipv4 := func(dst net.IP, proto byte, part uint16, payload []byte) []byte {
		h := make([]byte, 20)
		h[0], h[8], h[9] = 0x45, 64, proto
		binary.BigEndian.PutUint16(h[2:], uint16(20+len(payload)))
		binary.BigEndian.PutUint16(h[4:], 77)
		binary.BigEndian.PutUint16(h[6:], part)
		copy(h[12:], from.ip.To4())
		copy(h[16:], dst.To4())
		sum := uint32(0)
		for i := 0; i < 20; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(h[i:]))
		}
		sum = sum>>16 + sum&0xffff
		binary.BigEndian.PutUint16(h[10:], ^uint16(sum>>16+sum))
		return append(h, payload...)
	}
	udp := ipv4(to.ip, unix.IPPROTO_UDP, 0, body(500, 3))
	group, groupMAC := net.IPv4(239, 1, 2, 3), net.HardwareAddr{1, 0, 0x5e, 1, 2, 3}
	return map[string][][]byte{
		"SCTP":       {ether(to.mac, unix.ETH_P_IP, ipv4(to.ip, unix.IPPROTO_SCTP, 0, body(800, 1)))},
		"multicast":  {ether(groupMAC, unix.ETH_P_IP, ipv4(group, unix.IPPROTO_UDP, 0, body(900, 2)))},
		"fragments":  {ether(to.mac, unix.ETH_P_IP, ipv4(to.ip, unix.IPPROTO_UDP, 0x2000, body(1480, 4))), ether(to.mac, unix.ETH_P_IP, ipv4(to.ip, unix.IPPROTO_UDP, 185, body(700, 5)))},
		"jumbo":      {ether(to.mac, unix.ETH_P_IP, ipv4(to.ip, unix.IPPROTO_UDP, 0, body(8900, 6)))},
		"802.1Q":     {ether(to.mac, unix.ETH_P_8021Q, []byte{0x60, 9, 8, 0}, udp)},
		"802.1ad":    {ether(to.mac, unix.ETH_P_8021AD, []byte{0, 8, 0x81, 0, 0, 9, 8, 0}, udp)},
		"MPLS":       {ether(to.mac, unix.ETH_P_MPLS_UC, []byte{0, 1, 0x41, 64}, udp)},
		"PPPoE":      {ether(to.mac, unix.ETH_P_PPP_SES, []byte{0x11, 0, 0, 1, 0, byte(len(udp) + 2), 0, 0x21}, udp)},
		"discovery":  {ether(net.HardwareAddr{255, 255, 255, 255, 255, 255}, unix.ETH_P_PPP_DISC, []byte{0x11, 9, 0, 0, 0, 0}, body(40, 0))},
		"an unknown": {ether(to.mac, 0x88b5, body(300, 7))},
	}
}

// What is neither TCP nor UDP comes through a steered link as without Weir: each frame once, byte
// for byte, and it counts for the workload that sent it.
func TestProtocolsPassAsWithoutWeir(t *testing.T) {
	b := newBed(t, 1, 1)
	b.configure("")
	for s, name := range map[*space]string{b.host: "up0", b.boxes[0]: "eth0", b.srv: "eth0"} {
		s.must("mtu", s.LinkSetMTU(s.device(name), 9000))
	}
	b.host.must("mtu", b.host.LinkSetMTU(b.host.device("w1"), 9000))
	frames := framesOfProtocols(workloadAt(0, 1), serverAt(0))
	const each = 20
	arrive := func() map[string]int {
		got := map[string]int{}
		for name, list := range frames {
			got[name] = b.exchange(list, each)
		}
		return got
	}
	without := arrive()
	a := b.start()
	b.steered(a)
	number := a.workload("w1").Class
	before := class(b.counters(0), number).SentPackets
	with := arrive()
	sent := 0
	for name, list := range frames {
		if want := each * len(list); without[name] != want || with[name] != want {
			t.Errorf("%s: of %d frames %d arrive without Weir, %d with", name, want, without[name], with[name])
		}
		sent += each * len(list)
	}
	if now := class(b.counters(0), number).SentPackets - before; now < uint64(sent) {
		t.Errorf("%d packets are the workload's, want %d", now, sent)
	}
}

// exchange has a workload send frames, each so many times, and returns how many arrive at the
// server as they were sent.
func (b *bed) exchange(list [][]byte, times int) (arrived int) {
	b.t.Helper()
	const all = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00
	open := func(s *space) (fd int) {
		s.must("packet socket", s.do(func() (err error) {
			fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
			return err
		}))
		return fd
	}
	from, to := open(b.boxes[0]), open(b.srv)
	defer unix.Close(from)
	defer unix.Close(to)
	b.srv.must("buffer", unix.SetsockoptInt(to, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1<<22))
	b.srv.must("timeout", unix.SetsockoptTimeval(to, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}))
	b.srv.must("bind", unix.Bind(to, &unix.SockaddrLinklayer{Protocol: all, Ifindex: b.srv.device("eth0").Attrs().Index}))
	eth0 := b.boxes[0].device("eth0").Attrs().Index
	for range times {
		for _, frame := range list {
			b.boxes[0].must("send", unix.Sendto(from, frame, 0, &unix.SockaddrLinklayer{Ifindex: eth0, Halen: 6}))
			time.Sleep(time.Millisecond) // the link's queue has room for all
		}
	}
	buffer := make([]byte, 1<<14)
	for {
		n, peer, err := unix.Recvfrom(to, buffer, 0)
		if err != nil {
			return arrived
		}
		// The kernel has taken a tag into the packet's metadata.
		if incoming(peer) && slices.ContainsFunc(list, func(f []byte) bool { return bytes.Equal(f, buffer[:n]) || tagless(f, buffer[:n]) }) {
			arrived++
		}
	}
}

// tagless reports whether a frame is another one without its outer tag.
func tagless(frame, bare []byte) bool {
	return len(frame) == len(bare)+4 && (frame[12] == 0x81 || frame[12] == 0x88 && frame[13] == 0xa8) &&
		bytes.Equal(frame[:12], bare[:12]) && bytes.Equal(frame[16:], bare[12:])
}
