// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// matchesOf reads the matches of queues, one text for each; "" is a queue without a match.
func matchesOf(t interface{ Fatal(...any) }, texts ...string) [][]Match {
	queues := make([][]Match, len(texts))
	for i, text := range texts {
		if text == "" {
			continue
		}
		var err error
		if queues[i], err = ParseMatches(text); err != nil {
			t.Fatal(err)
		}
	}
	return queues
}

func TestClassify(t *testing.T) {
	names := []string{"voice", "rest", "video"}
	queues := matchesOf(t, "[{udp: 5001}, {dscp: ef}]", "", "[{tcp: [80, 8000-8099], src: 10.0.0.0/8}, {src: 2001:db8::/32}, {queue: 2}]")
	v4 := func(proto uint8, sport, dport uint16) Packet {
		return Packet{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("192.0.2.1"), Proto: proto, Sport: sport, Dport: dport, Ports: true}
	}
	for _, tt := range []struct {
		name   string
		packet Packet
		want   string
	}{
		{"to the port", v4(17, 9, 5001), "voice"},
		{"from the port", v4(17, 5001, 9), "voice"},
		{"the same port of TCP", v4(6, 9, 5001), "rest"},
		{"by codepoint", Packet{Src: netip.MustParseAddr("::1"), Dst: netip.MustParseAddr("::2"), DSCP: 46}, "voice"},
		{"last of a range", v4(6, 9, 8099), "video"},
		{"one behind it", v4(6, 9, 8100), "rest"},
		{"IPv6 prefix", Packet{Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("::2")}, "video"},
		{"not IP", Packet{}, "rest"},
		{"Open vSwitch", Packet{Priority: 0x10003}, "video"},
	} {
		if got := names[QueueOf(queues, tt.packet)]; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	if last := matchesOf(t, "{udp: 1}", "{udp: 2}"); QueueOf(last, Packet{}) != 1 {
		t.Error("without a default queue it is the last one")
	}
	if QueueOf(nil, Packet{}) != 0 {
		t.Error("without queues there is only number 0")
	}
}

func TestFragmentsFollowTheFirst(t *testing.T) {
	rules, err := Compile(matchesOf(t, "{udp: 5001}", ""))
	if err != nil {
		t.Fatal(err)
	}
	f := NewFragments(rules)
	part := Packet{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), Proto: 17, ID: 7}
	first, later, other := part, part, part
	first.Fragment, first.Ports, first.Dport = FirstFragment, true, 5001
	later.Fragment, other.Fragment, other.ID = LaterFragment, LaterFragment, 8
	for i, step := range []struct {
		p    Packet
		want int
	}{{later, 1}, {first, 0}, {later, 0}, {other, 1}, {later, 0}} {
		if got := f.Classify(step.p); got != step.want {
			t.Errorf("step %d: queue %d, want %d", i, got, step.want)
		}
	}
}

func drawPacket(t *rapid.T) Packet {
	addr := rapid.SampledFrom([]string{"10.1.2.3", "10.9.0.1", "192.0.2.1", "2001:db8::7", "2001:db9::1", ""})
	p := Packet{
		Priority: rapid.SampledFrom([]uint32{0, 0x10001, 0x10002}).Draw(t, "priority"),
		Mark:     rapid.SampledFrom([]uint32{0, 5, 0x50, 0x51}).Draw(t, "mark"),
		Tagged:   rapid.Bool().Draw(t, "tagged"),
	}
	if p.Tagged {
		p.VLAN = rapid.Uint16Range(0, 3).Draw(t, "vlan")
	}
	if text := addr.Draw(t, "src"); text != "" {
		p.Src = netip.MustParseAddr(text)
		p.Dst = p.Src
		p.DSCP = rapid.SampledFrom([]uint8{0, 34, 46}).Draw(t, "dscp")
		p.Proto = rapid.SampledFrom([]uint8{6, 17, 1, 132, 50}).Draw(t, "proto")
		if p.Ports = hasPorts(p.Proto); p.Ports {
			p.Sport, p.Dport = rapid.Uint16Range(4998, 5032).Draw(t, "sport"), rapid.Uint16Range(4998, 5032).Draw(t, "dport")
		}
	}
	return p
}

// No packet ever meets a match that is called unreachable, and none that fits two
// conditions escapes what covers says of them.
func TestUnreachableIsNeverReached(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queues := make([][]Match, rapid.IntRange(2, 4).Draw(t, "queues"))
		for i := range queues {
			queues[i] = []Match{drawMatch(t)}
		}
		unreachable := map[int]bool{}
		for _, clash := range Clashes(queues) {
			unreachable[clash.Queue] = clash.Unreachable
		}
		rules := compile(queues)
		for range 50 {
			p := drawPacket(t)
			queue, rule := rules.Classify(p)
			if rule >= 0 && unreachable[queue] {
				t.Fatalf("%+v reaches %s of queue %d", p, queues[queue], queue)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00E\x00\x00\x1c\x00\x00 \x00@\x11\x00\x00\x0a\x00\x00\x01\x0a\x00\x00\x02\x13\x89\x13\x8a"))
	boundtest.Seeds[[]byte](f, bound.Policy)
	f.Fuzz(func(t *testing.T, data []byte) {
		boundtest.Hold(t, func() {
			for _, p := range []Packet{DecodeEthernet(data), DecodeIP(data)} {
				if p.Ports && (!p.IP() || !hasPorts(p.Proto) || p.Fragment == LaterFragment) || p.DSCP > MaxDSCP || p.Fragment != Whole && !p.IP() {
					t.Fatalf("%x is read as %+v", data, p)
				}
			}
		})
	})
}

// TestRulesAreCountedBeforeTheyAreMade: lists of ports multiply, and a text of 4 KiB has room for
// three lists of some 200.
func TestRulesAreCountedBeforeTheyAreMade(t *testing.T) {
	var list []PortRange
	for i := range uint16(400) {
		list = append(list, PortRange{2 * i, 2 * i})
	}
	queues := [][]Match{{{TCP: list, Sport: list, Dport: list}}, {}}
	boundtest.Hold(t, func() {
		if _, err := Compile(queues); err == nil || !strings.Contains(err.Error(), "64000000") {
			t.Errorf("%v, want a refusal of 64,000,000 rules", err)
		}
		Clashes(queues)
		QueueOf(queues, Packet{})
	})
}
