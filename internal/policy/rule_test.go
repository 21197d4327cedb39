// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func queuesOf(t interface{ Fatal(...any) }, texts ...string) []Queue {
	queues := make([]Queue, len(texts))
	for i, text := range texts {
		name, matches, _ := strings.Cut(text, " ")
		queues[i].Name = name
		if matches == "" {
			continue
		}
		var err error
		if queues[i].Match, err = ParseMatches(matches); err != nil {
			t.Fatal(err)
		}
	}
	return queues
}

func TestClassify(t *testing.T) {
	queues := queuesOf(t, "voice [{udp: 5001}, {dscp: ef}]", "rest", "video [{tcp: [80, 8000-8099], src: 10.0.0.0/8}, {src: 2001:db8::/32}, {queue: 2}]")
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
		if got := queues[Classify(queues, tt.packet)].Name; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	if last := queuesOf(t, "a {udp: 1}", "b {udp: 2}"); Classify(last, Packet{}) != 1 {
		t.Error("without a default queue it is the last one")
	}
	if Classify(nil, Packet{}) != 0 {
		t.Error("without queues there is only number 0")
	}
}

func TestFragmentsFollowTheFirst(t *testing.T) {
	rules, err := CompileRules(MatchesOf(queuesOf(t, "voice {udp: 5001}", "rest")))
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

func TestCheckRules(t *testing.T) {
	for _, tt := range []struct {
		name   string
		queues []string
		want   string // the error, or the warnings
	}{
		{"apart", []string{"a {udp: 1}", "b {udp: 2}", "c"}, ""},
		{"an exception before its rule", []string{"a {udp: 5005}", "b {udp: 5000-5010}"}, ""},
		{"different things", []string{"a {udp: 5001}", "b {dscp: ef}"}, ""},
		{"shadowed", []string{"a {udp: 5000-5010}", "b {udp: 5005}", "c"},
			`error queues.b "{udp: 5005}": can never fit, {udp: 5000-5010} in queue a takes its packets before; put queue b before queue a, or remove the match`},
		{"shadowed in detail", []string{"a {src: 10.0.0.0/8}", "b {src: 10.1.0.0/16, dport: 53}"},
			`error queues.b "{dport: 53, src: 10.1.0.0/16}": can never fit, {src: 10.0.0.0/8} in queue a takes its packets before; put queue b before queue a, or remove the match`},
		{"either end covers one end", []string{"a {udp: 53}", "b {proto: udp, dport: 53}"},
			`error queues.b "{proto: udp, dport: 53}": can never fit, {udp: 53} in queue a takes its packets before; put queue b before queue a, or remove the match`},
		{"one end does not cover either", []string{"a {proto: udp, dport: 53}", "b {udp: 53}"}, ""},
		{"ranges that overlap", []string{"a {udp: 5000-5010}", "b {udp: 5005-5020}"},
			`queues.b "{udp: 5005-5020}": {udp: 5000-5010} in queue a takes some of its packets before; write ranges that do not overlap, if that is not meant`},
		{"one port of a list", []string{"a {udp: 5001}", "b {udp: [5001, 5002]}"},
			`queues.b "{udp: [5001, 5002]}": {udp: 5001} in queue a takes some of its packets before; write ranges that do not overlap, if that is not meant`},
		{"a preset's part", []string{"a {preset: voip}", "b {dscp: ef}"},
			`error queues.b "{dscp: ef}": can never fit, {preset: voip} in queue a takes its packets before; put queue b before queue a, or remove the match`},
		{"twice in one queue", []string{"a [{udp: 1}, {udp: 1}]"}, ""},
		{"marks", []string{"a {mark: 0x50/0xf0}", "b {mark: 0x51/0xff}"},
			`error queues.b "{mark: 0x51/0xff}": can never fit, {mark: 0x50/0xf0} in queue a takes its packets before; put queue b before queue a, or remove the match`},
		{"too many", []string{"a {sport: [1,2,3,4,5,6,7,8], dport: [1,2,3,4,5,6,7,8]}", "b {udp: 1}"},
			`error queues "65": more rules than the 64 that a workload can have; each port or range and each match of a preset counts as one; join ports to ranges, or mark the traffic by dscp where it is sent`},
	} {
		warnings, err := CheckRules(queuesOf(t, tt.queues...))
		var lines []string
		for _, w := range warnings {
			lines = append(lines, w.Error())
		}
		got := strings.Join(lines, "\n")
		if err != nil {
			got = "error " + err.Error()
		}
		if got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
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
		queues := make([]Queue, rapid.IntRange(2, 4).Draw(t, "queues"))
		for i := range queues {
			queues[i] = Queue{Name: fmt.Sprint("q", i), Match: []Match{drawMatch(t)}}
		}
		unreachable := map[string]bool{}
		for _, clash := range Clashes(queues) {
			unreachable[clash.Queue] = clash.Unreachable
		}
		rules := compile(MatchesOf(queues))
		for range 50 {
			p := drawPacket(t)
			queue, rule := rules.Classify(p)
			if rule >= 0 && unreachable[queues[queue].Name] {
				t.Fatalf("%+v reaches %s of queue %s", p, queues[queue].Match, queues[queue].Name)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00E\x00\x00\x1c\x00\x00 \x00@\x11\x00\x00\x0a\x00\x00\x01\x0a\x00\x00\x02\x13\x89\x13\x8a"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, p := range []Packet{DecodeEthernet(data), DecodeIP(data)} {
			if p.Ports && (!p.IP() || !hasPorts(p.Proto) || p.Fragment == LaterFragment) || p.DSCP > MaxDSCP || p.Fragment != Whole && !p.IP() {
				t.Fatalf("%x is read as %+v", data, p)
			}
		}
	})
}
