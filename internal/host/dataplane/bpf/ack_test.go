// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy/discipline"
)

// ackPacket is a frame as the qdisc sees it, an ACK if nothing is changed.
type ackPacket struct {
	tag    int // a VLAN's, which the device will write
	linear int // bytes that lie in one piece, from the end if negative; 0 = all
	frame  []byte
}

// The parts of a frame in which a change is to be seen.
const (
	atType, atIP       = 12, 14
	atIPv4TCP, ofIPv6  = atIP + 20, 40
	atIPv6TCP          = atIP + ofIPv6
	sequence, accepted = 4, 8 // of TCP
	atFlags, atWindow  = 13, 14
	atOptions          = 20
)

var stamps = []byte{1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9}

// ackOf is an ACK of everything before byte 5000, with these options.
func ackOf(version int, options []byte) ackPacket {
	tcp := make([]byte, 20, 64)
	binary.BigEndian.PutUint16(tcp, 40000)
	binary.BigEndian.PutUint16(tcp[2:], 443)
	binary.BigEndian.PutUint32(tcp[sequence:], 1000)
	binary.BigEndian.PutUint32(tcp[accepted:], 5000)
	tcp[12], tcp[atFlags] = byte(20+len(options))/4<<4, 0x10
	binary.BigEndian.PutUint16(tcp[atWindow:], 500)
	tcp = append(tcp, options...)
	if version == 6 {
		ip := make([]byte, ofIPv6)
		ip[0], ip[5], ip[6], ip[7], ip[23], ip[39] = 0x60, byte(len(tcp)), 6, 64, 1, 2
		return ackPacket{frame: bytes.Join([][]byte{make([]byte, atType), {0x86, 0xdd}, ip, tcp}, nil)}
	}
	ip := []byte{0x45, 0, 0, byte(20 + len(tcp)), 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}
	return ackPacket{frame: bytes.Join([][]byte{make([]byte, atType), {8, 0}, ip, tcp}, nil)}
}

// with has a byte of the frame changed by this much.
func (p ackPacket) with(at int, by byte) ackPacket {
	p.frame = bytes.Clone(p.frame)
	p.frame[at] += by
	return p
}

// more is the next ACK: of this many bytes more.
func (p ackPacket) more(bytesMore uint32) ackPacket {
	at := atIPv4TCP
	if p.frame[atType] == 0x86 {
		at = atIPv6TCP
	}
	p = p.with(0, 0)
	field := p.frame[at+accepted:]
	binary.BigEndian.PutUint32(field, binary.BigEndian.Uint32(field)+bytesMore)
	return p
}

func (p ackPacket) tagged(tag int) ackPacket { p.tag = tag; return p }
func (p ackPacket) paged(by int) ackPacket   { p.linear = -by; return p }
func (p ackPacket) followedBy(n int) ackPacket {
	p.frame = append(bytes.Clone(p.frame), make([]byte, n)...)
	return p
}

// data has n bytes of payload, which the IP header counts.
func (p ackPacket) data(n int) ackPacket {
	if p.frame[atType] == 0x86 {
		return p.followedBy(n).with(atIP+5, byte(n))
	}
	return p.followedBy(n).with(atIP+3, byte(n))
}

func (p ackPacket) String() string {
	linear := p.linear
	if linear <= 0 {
		linear += len(p.frame)
	}
	return fmt.Sprintf("%d %d %x", p.tag, linear, p.frame)
}

// ackCase is two packets that come one after the other.
type ackCase struct {
	name     string
	old, new ackPacket
	gives    bool // way, the older one
}

// eachWay is the change of a byte in the older, the newer, or both.
func eachWay(name string, p ackPacket, at int, by byte, both bool) []ackCase {
	next := p.more(3000)
	return []ackCase{
		{name + " in the older", p.with(at, by), next, false},
		{name + " in the newer", p, next.with(at, by), false},
		{name + " in both", p.with(at, by), next.with(at, by), both},
	}
}

// TestWhichACKsGiveWay: an ACK gives way to the next one of its connection only if that says all
// that it said; and no other packet does.
func TestWhichACKsGiveWay(t *testing.T) {
	v4, v6, bare4, bare6 := ackOf(4, stamps), ackOf(6, stamps), ackOf(4, nil), ackOf(6, nil)
	cases := []ackCase{
		{"another version of IP", v4, v6.more(3000), false},
		{"without time stamps after some, as long by what follows", v6, bare6.more(3000).followedBy(12), false},
		{"with time stamps after none, as long by what follows", bare6.followedBy(12), v6.more(3000), false},
		{"both are filled up to the shortest frame", bare4.followedBy(6), bare4.more(3000).followedBy(6), true},
		{"one is filled up", bare4, bare4.more(3000).followedBy(6), false},
	}
	for name, p := range map[string]ackPacket{"IPv4": v4, "IPv6": v6, "IPv4 without options": bare4, "IPv6 without options": bare6} {
		next, tcp, bytesOfIP := p.more(3000), atIPv4TCP, atIP+12
		if p.frame[atType] == 0x86 {
			tcp, bytesOfIP = atIPv6TCP, atIP+8
		}
		list := []ackCase{
			{"the next one", p, next, true},
			{"one byte more", p, p.more(1), true},
			{"the acknowledged bytes wrap around", p.more(1<<32 - 6000), p.more(1<<32 - 6000).more(3000), true},
			{"as much", p, p, false},
			{"less", next, p, false},
			{"so much more that it is less", p, p.more(1 << 31), false},
			{"a later, smaller window", p, next.with(tcp+atWindow, 0xff), true},
			{"a later, larger window", p, next.with(tcp+atWindow, 1), true},
			{"only the window is larger", p, p.with(tcp+atWindow, 1), false},
			{"data in the older", p.data(4), next.followedBy(4), false},
			{"data in the newer", p.followedBy(4), next.data(4), false},
			{"data in both", p.data(4), next.data(4), false},
			{"a part in a page, the older", p.paged(1), next, false},
			{"a part in a page, the newer", p, next.paged(1), false},
			{"a tag in both", p.tagged(5), next.tagged(5), true},
			{"another tag", p.tagged(5), next.tagged(6), false},
			{"a tag in the newer", p, next.tagged(5), false},
			{"a tag in the older", p.tagged(5), next, false},
		}
		list = append(list, eachWay("a byte sent before, as of a keep-alive", p, tcp+sequence+3, 1, true)...)
		for bit, flag := range []string{"FIN", "SYN", "RST", "PSH", "no ACK", "URG", "ECE", "CWR"} {
			by := byte(1) << bit
			if flag == "no ACK" {
				by = -by
			}
			list = append(list, eachWay(flag, p, tcp+atFlags, by, false)...)
		}
		list = append(list, eachWay("AE, of AccECN", p, tcp+12, 1, false)...)
		list = append(list, eachWay("a header that says to be longer", p, tcp+12, 0x10, false)...)
		list = append(list, eachWay("another protocol than IP", p, atType+1, 3, false)...)
		for at := bytesOfIP; at < tcp+4; at++ { // addresses and ports
			list = append(list, eachWay(fmt.Sprintf("byte %d of who it is from and to", at-bytesOfIP), p, at, 1, true)...)
		}
		if len(p.frame) == tcp+20+len(stamps) {
			list = append(list, eachWay("another option", p, tcp+atOptions+2, 1, false)...)
			list = append(list, eachWay("an option before", p, tcp+atOptions, 1, false)...)
			list = append(list, ackCase{"SACK", p.with(tcp+atOptions+2, 0xfd), next.with(tcp+atOptions+2, 0xfd), false})
			for stamp, at := range map[string]int{"of the sender": tcp + atOptions + 4, "echoed": tcp + atOptions + 8} {
				list = append(list, ackCase{"a later time, " + stamp, p, next.with(at+3, 1), true},
					ackCase{"a time that wraps around, " + stamp, p.with(at, 0xff), next.with(at, 0), true},
					ackCase{"an earlier time, " + stamp, p.with(at+3, 1), next, false})
			}
		}
		for _, c := range list {
			c.name = name + ", " + c.name
			cases = append(cases, c)
		}
	}
	for name, change := range map[string]struct {
		at int
		by byte
	}{
		"options of IP": {atIP, 1}, "more fragments": {atIP + 6, 0x20}, "a later fragment": {atIP + 7, 1}, "UDP": {atIP + 9, 11},
		"IP in IP": {atIP + 9, 0xfe}, "a longer packet than there is": {atIP + 3, 4},
	} {
		cases = append(cases, eachWay("IPv4, "+name, v4, change.at, change.by, false)...)
	}
	for name, header := range map[string]byte{"hop-by-hop options": 0, "a routing header": 43, "a fragment": 44, "IP in IP": 4, "options of the destination": 60} {
		cases = append(cases, eachWay("IPv6, "+name, v6, atIP+6, header-6, false)...)
	}
	for name, p := range map[string]ackPacket{"IPv4": v4, "IPv6": v6} {
		at, ect := atIP+1, byte(2)
		if name == "IPv6" {
			ect = 2 << 4
		}
		cases = append(cases, eachWay(name+", ECT", p, at, ect, true)...)
	}
	cases = append(cases, eachWay("IPv4, EF", v4, atIP+1, 46<<2, true)...)
	cases = append(cases, eachWay("IPv6, a class of traffic", v6, atIP, 0xb, true)...)
	cases = append(cases, eachWay("IPv6, another flow label", v6, atIP+3, 1, true)...)
	decideACKs(t, cases)
	// What routers and the stack change from packet to packet.
	decideACKs(t, []ackCase{
		{"IPv4, the next number of a packet", v4, v4.more(3000).with(atIP+5, 1), true},
		{"IPv4, it may be cut into fragments", v4, v4.more(3000).with(atIP+6, 0xc0), true},
		{"IPv4, another TTL", v4, v4.more(3000).with(atIP+8, 0xff), true},
		{"IPv6, another hop limit", v6, v6.more(3000).with(atIP+7, 0xff), true},
	})
}

// decideACKs holds the qdisc's own source, compiled as an ordinary program (bpf/sim/ack.c), against
// cases.
func decideACKs(t *testing.T, cases []ackCase) {
	t.Helper()
	program, err := compile("weir-ack", "sim/ack.c")
	must(t, err)
	var input strings.Builder
	for _, c := range cases {
		fmt.Fprintln(&input, c.old, c.new)
	}
	cmd := exec.Command(program)
	cmd.Stdin = strings.NewReader(input.String())
	out, err := cmd.Output()
	must(t, err)
	answers := strings.Fields(string(out))
	if len(answers) != len(cases) {
		t.Fatalf("%d answers for %d cases", len(answers), len(cases))
	}
	for i, c := range cases {
		if got := answers[i] == "1"; got != c.gives {
			t.Errorf("%s: the older ACK gives way: %t, want %t\n%v\n%v", c.name, got, c.gives, c.old, c.new)
		}
	}
}

// TestNoPacketIsLostForAnACK: where the queue for the rest is full, an ACK that takes the place of
// an older one needs no room, so that no other flow loses a packet for it.
func TestNoPacketIsLostForAnACK(t *testing.T) {
	const limit = 10
	class := withRest(discipline.PQ, limit)
	class.AQM = plan.AQM{Target: time.Second, Interval: time.Second, ACKFilter: true} // CoDel drops nothing
	s := simulate(fairLink(1e6), class)
	s.send(traffic{id: flowClass, flow: 1, length: frames, window: limit - 1})
	s.send(traffic{id: flowClass, flow: 2, acks: time.Millisecond})
	s.settle()
	s.run(5 * time.Second)
	got := s.result(t)[1]
	acks, bulk := got.flow(flowClass, 2), got.flow(flowClass, 1)
	// A packet of its window comes as one leaves, and has the others before it, and ACKs.
	if window := time.Duration((limit - 1) * frames * 8e9 / 1e6); acks.dropped > 0 || acks.sent == 0 || bulk.longest < window {
		t.Errorf("%d ACKs lost, %.0f bytes of them sent; the bulk flow's packets wait for %v at most, a window without loss for %v", acks.dropped, acks.sent, bulk.longest, window)
	}
}
