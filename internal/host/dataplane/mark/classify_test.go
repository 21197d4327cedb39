// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"weir/internal/core/plan"
	"weir/internal/core/policy/classify"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/host/dataplane/mark/marktest"
)

var seed = flag.Uint64("seed", 0, "what rules and packets are drawn; 0: others each time")

// Offsets in struct __sk_buff of linux/bpf.h, and its size.
const (
	skbMark     = 8
	skbTCIndex  = 44
	skbPriority = 32
	skbIngress  = 36
	skbSize     = 192
)

// loadAs loads a program for a place whose packets begin with an Ethernet header,
// as all do in a test run; the kernel takes it off for cgroups by itself.
func loadAs(t testing.TB, name string, class plan.ClassID, carrier plan.Carrier, marking Marking) *ebpf.Program {
	t.Helper()
	header, attach := ethernetHeader, ebpf.AttachTCXIngress
	switch name {
	case classifyProgWeirRulesLink:
		attach = ebpf.AttachTCXEgress
	case classifyProgWeirRulesCgrp:
		header, attach = 0, ebpf.AttachCGroupInetEgress
	}
	p, err := compile(name, class, carrier, marking, header)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := p.load(attach, nil)
	if err != nil {
		t.Fatalf("%d rules: %+v", len(p.rules), err)
	}
	t.Cleanup(func() { prog.Close() })
	return prog
}

// run gives one packet to the program and returns it with its mark afterwards. What the program
// writes into tc_index the kernel does not tell: TestPortTraffic and others see it on the way.
func run(t testing.TB, prog *ebpf.Program, frame []byte, mark, priority uint32) (after uint32, out []byte) {
	t.Helper()
	return runFrom(t, prog, 2, frame, mark, 0, priority)
}

// runFrom gives it one that came by a device, 0 for none; tcIndex is for programs of
// marktest.Sealed.
func runFrom(t testing.TB, prog *ebpf.Program, ifindex uint32, frame []byte, mark, tcIndex, priority uint32) (after uint32, out []byte) {
	t.Helper()
	context, back := make([]byte, skbSize), make([]byte, skbSize)
	binary.NativeEndian.PutUint32(context[skbMark:], mark)
	binary.NativeEndian.PutUint32(context[marktest.CB:], tcIndex)
	binary.NativeEndian.PutUint32(context[skbPriority:], priority)
	binary.NativeEndian.PutUint32(context[skbIngress:], ifindex)
	opts := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+64), Context: context, ContextOut: back}
	if _, err := prog.Run(&opts); err != nil {
		t.Fatalf("run with %x: %v", frame, err)
	}
	return binary.NativeEndian.Uint32(back[skbMark:]), opts.DataOut
}

// More than 10,000 random packets under random rules: the kernel's answer is that of
// classify.Rules and classify.Fragments, and the packet is the same but for the DSCP.
func TestKernelClassifiesAsPolicyDoes(t *testing.T) {
	netnstest.New(t) // skips without root
	const sets, packets = 200, 60
	seed := *seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d draws the same", seed)
	places := []string{classifyProgWeirRulesPort, classifyProgWeirRulesLink, classifyProgWeirRulesCgrp}
	var seen tally
	for set := range sets {
		r := source{rand.New(rand.NewPCG(seed, uint64(set)))}
		place := places[set%len(places)]
		mask := []plan.Mask{plan.UsualMask, 0x0000ffff, 0x00fff000}[r.IntN(3)]
		class := plan.ClassID(r.IntN(mask.MaxClasses()))
		carrier := plan.Carrier{Mask: mask, Cilium: set%5 == 0}
		if set%4 == 0 && place != classifyProgWeirRulesCgrp { // which would do nothing
			carrier.Mask = 0
		}
		if place == classifyProgWeirRulesLink {
			class = 0
		}
		marking := r.marking()
		rules, err := marking.rules()
		if err != nil || marking.empty() && len(marking.Queues) > 1 {
			continue // more than 64, or several queues that take the rest: refused both
		}
		prog := loadAs(t, place, class, carrier, marking)
		reference := classify.NewFragments(rules)
		for i := range packets {
			frame := r.frame(place == classifyProgWeirRulesCgrp)
			mark, priority := r.pick(0, 5, 0x50, 0x10, 1<<31, uint32(mask), r.Uint32()), r.pick(0, 7, 0x10001, 0x10002, 0x10003)
			p := classify.DecodeEthernet(frame)
			p.Mark, p.Priority = mark, priority
			after, out := run(t, prog, frame, mark, priority)
			if was, _ := carrier.Split(0, mark); place == classifyProgWeirRulesLink && (was != 0 || marking.empty()) {
				if after != mark || !bytes.Equal(out, frame) {
					t.Fatalf("set %d packet %d: a packet that has a class, or of a host without rules, was changed", set, i)
				}
				seen.others++
				continue
			}
			queue := reference.Classify(p)
			seen.add(rules, p)
			want := mark&^uint32(carrier.Mask) | carrier.Mask.Value(class, queue)
			if after != want {
				_, got := carrier.Mask.Split(after)
				t.Fatalf("set %d (%s), packet %d: queue %d, want %d\npacket %x\n%+v\nmark %#x -> %#x, want %#x, %+v\nrules %v",
					set, place, i, got, queue, frame, p, mark, after, want, carrier, matchesOf(marking))
			}
			packet := frame
			if dscp := marking.codepoints()[queue]; dscp != keepDSCP && place != classifyProgWeirRulesCgrp {
				packet = rewritten(frame, p, dscp)
			}
			// For a cgroup the kernel leaves zeros where the link header was.
			if !bytes.Equal(out[14:], packet[14:]) || place != classifyProgWeirRulesCgrp && !bytes.Equal(out, packet) {
				t.Fatalf("set %d (%s), packet %d: after the program\n%x, want\n%x, was\n%x", set, place, i, out, packet, frame)
			}
		}
	}
	t.Logf("%d rule sets: %+v", sets, seen)
	seen.check(t)
}

// TestKernelClassifiesSocketsAsPolicyDoes is the same at a link for three classes whose packets
// come from sockets, at once: each has rules of its own there.
func TestKernelClassifiesSocketsAsPolicyDoes(t *testing.T) {
	netnstest.New(t) // skips without root
	const sets, packets, first = 60, 90, plan.ClassID(5)
	draws := rand.Uint64()
	if *seed != 0 {
		draws = *seed
	}
	t.Logf("-seed %d draws the same", draws)
	carrier := plan.Carrier{Mask: plan.UsualMask}
	var seen tally
	for set := range sets {
		r := source{rand.New(rand.NewPCG(draws, uint64(set)))}
		classes := r.lateClasses(first)
		own := classes[r.IntN(len(classes))]
		rules, err := own.marking.rules()
		if err != nil {
			t.Fatal(err)
		}
		prog := loadLate(t, classifyProgWeirRulesLink, carrier, classes, own)
		reference := classify.NewFragments(rules)
		for i := range packets {
			frame := r.frame(false)
			p := classify.DecodeEthernet(frame)
			p.Mark, p.Priority = r.pick(0, 5, 0x50, 0x10)|carrier.Mask.Value(own.class, rules.Default), r.pick(0, 7)
			after, out := runFrom(t, prog, 0, frame, p.Mark&^uint32(carrier.Mask), 0, p.Priority)
			queue := reference.Classify(p)
			seen.add(rules, p)
			if want := p.Mark&^uint32(carrier.Mask) | carrier.Mask.Value(own.class, queue); after != want {
				t.Fatalf("set %d, packet %d: mark %#x, want %#x\npacket %x\n%+v\nrules %v", set, i, after, want, frame, p, matchesOf(own.marking))
			}
			packet := frame
			if dscp := own.marking.codepoints()[queue]; dscp != keepDSCP {
				packet = rewritten(frame, p, dscp)
			}
			if !bytes.Equal(out, packet) {
				t.Fatalf("set %d, packet %d: after the program\n%x, want\n%x, was\n%x", set, i, out, packet, frame)
			}
		}
	}
	t.Logf("%d rule sets: %+v", sets, seen)
	if seen.matched < 300 || seen.later < 100 {
		t.Error("the test shows little")
	}
}

// lateClasses draws three classes of sockets, with several rules each.
func (r source) lateClasses(first plan.ClassID) (list []late) {
	for len(list) < 3 {
		m := r.marking()
		if rules, err := m.rules(); err == nil && len(rules.List) > 2 {
			list = append(list, late{class: first + plan.ClassID(len(list)), marking: m})
		}
	}
	return list
}

// loadLate loads a program for packets of sockets, of which those of the test are of class own.
func loadLate(t testing.TB, name string, carrier plan.Carrier, classes []late, own late) *ebpf.Program {
	t.Helper()
	const top = 1 // id of the cgroup above all others
	rules, err := own.marking.rules()
	if err != nil {
		t.Fatal(err)
	}
	p, err := compile(name, 0, carrier, Marking{}, ethernetHeader)
	if err != nil {
		t.Fatal(err)
	}
	p.serveLate(classes)
	p.reown(Sockets{Levels: 1, Owners: map[uint64]uint32{top: plan.Lane(own.class, rules.Default)}})
	prog, err := p.load(ebpf.AttachTCXEgress, nil)
	if err != nil {
		t.Fatalf("%d rules: %+v", len(p.rules), err)
	}
	t.Cleanup(func() { prog.Close() })
	return prog
}

// TestRulesAreVerifiedQuickly: what the verifier has to look at does not grow beyond all bounds
// with rules that a label asks for. Of the first it once took more than a million instructions, 15
// seconds, and then refused them.
func TestRulesAreVerifiedQuickly(t *testing.T) {
	netnstest.New(t) // skips without root
	const bound = 60_000
	r := source{rand.New(rand.NewPCG(1, 2))}
	markings := []Marking{rulesThatWereTooMany(t)}
	for len(markings) < 40 {
		m := r.marking()
		if rules, err := m.rules(); err == nil && len(rules.List) > 16 {
			markings = append(markings, m)
		}
	}
	most := uint32(0)
	check := func(what string, prog *ebpf.Program) {
		info, err := prog.Info()
		if err != nil {
			t.Fatal(err)
		}
		n, known := info.VerifiedInstructions()
		if !known {
			t.Skip("this kernel does not say how many instructions it has verified")
		}
		most = max(most, n)
		if n > bound {
			t.Errorf("%s: %d instructions verified, want at most %d", what, n, bound)
		}
	}
	for i, m := range markings {
		for _, place := range []string{classifyProgWeirRulesPort, classifyProgWeirRulesLink, classifyProgWeirRulesCgrp} {
			check(fmt.Sprintf("%s, rules %d %v", place, i, matchesOf(m)), loadAs(t, place, 0, plan.Carrier{Mask: plan.UsualMask}, m))
		}
	}
	for i, m := range markings[:len(markings)-3] {
		var classes []late
		for n, m := range append(markings[i:i+3:i+3], m) {
			classes = append(classes, late{class: plan.ClassID(5 + n), marking: m})
		}
		for _, place := range []string{classifyProgWeirRulesLink, classifyProgWeirRulesSeal} {
			check(fmt.Sprintf("%s, sockets of four classes from rules %d on", place, i), loadLate(t, place, plan.Carrier{}, classes, classes[0]))
		}
	}
	t.Logf("at most %d instructions verified", most)
}

// rulesThatWereTooMany are 20 rules of a workload whose packets also get codepoints.
func rulesThatWereTooMany(t *testing.T) Marking {
	t.Helper()
	type fields = map[string]any
	m := Marking{DSCP: new(uint8(40))}
	for i, texts := range [][]any{
		{fields{"udp": "443", "vlan": "0"}, fields{"queue": "1"}, fields{"dst": "10.0.0.0/8"}},
		{fields{"tcp": "5061-5064", "sport": []any{"5061", "443"}}, fields{"preset": "video", "mark": "0x10/0x1f"}},
		{fields{"src": "192.0.2.0/25", "vlan": "1"}, fields{"vlan": "0"}, fields{"vlan": "0"}},
		{},
		{fields{"tcp": "5009-5012", "queue": "2"}},
		{},
	} {
		matches, err := classify.ParseMatches(texts)
		if err != nil {
			t.Fatal(err)
		}
		m.Queues = append(m.Queues, plan.Queue{Name: fmt.Sprint("q", i), Match: matches, DSCP: new(uint8(i))})
	}
	return m
}

// tally counts the kinds of random packets, for the test's log.
type tally struct {
	v4, v6, notIP, tagged, ports, first, later, matched, fallback, others int
}

func (s *tally) add(rules classify.Rules, p classify.Packet) {
	count := func(n *int, yes bool) {
		if yes {
			*n++
		}
	}
	count(&s.v4, p.Src.Is4())
	count(&s.v6, p.Src.Is6())
	count(&s.notIP, !p.IP())
	count(&s.tagged, p.Tagged)
	count(&s.ports, p.Ports)
	count(&s.first, p.Fragment == classify.FirstFragment)
	count(&s.later, p.Fragment == classify.LaterFragment)
	_, rule := rules.Classify(p)
	count(&s.matched, rule >= 0)
	count(&s.fallback, rule < 0)
}

func (s *tally) check(t *testing.T) {
	if s.v4+s.v6+s.notIP < 10000 {
		t.Errorf("too few packets")
	}
	for name, n := range map[string]int{"IPv4": s.v4, "IPv6": s.v6, "not IP": s.notIP, "tagged": s.tagged,
		"with ports": s.ports, "first": s.first, "later": s.later, "matched": s.matched, "default": s.fallback} {
		if n < 300 {
			t.Errorf("only %d packets are %s: the test shows little", n, name)
		}
	}
}

func matchesOf(m Marking) (list []string) {
	for _, q := range m.Queues {
		list = append(list, fmt.Sprint(q.Match))
	}
	return list
}

// rewritten is the frame with another codepoint. The checksum is worked out anew
// (RFC 1624, equation 3), whether it was right or not.
func rewritten(frame []byte, p classify.Packet, dscp uint8) []byte {
	if !p.IP() {
		return frame
	}
	out := bytes.Clone(frame)
	at := 14
	for kind := binary.BigEndian.Uint16(out[12:]); kind == 0x8100 || kind == 0x88a8; at += 4 {
		kind = binary.BigEndian.Uint16(out[at+2:])
	}
	ip := out[at:]
	before := binary.BigEndian.Uint16(ip)
	if p.Src.Is6() {
		binary.BigEndian.PutUint16(ip, before&^(0x3f<<6)|uint16(dscp)<<6)
		return out
	}
	ip[1] = ip[1]&3 | dscp<<2
	after := binary.BigEndian.Uint16(ip)
	if before == after {
		return out
	}
	sum := uint32(^binary.BigEndian.Uint16(ip[10:])) + uint32(^before) + uint32(after)
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
	return out
}

// source makes rules and packets of few values, so that they meet.
type source struct{ *rand.Rand }

func (r source) pick(from ...uint32) uint32 { return from[r.IntN(len(from))] }

func (r source) oneIn(n int) bool { return r.IntN(n) == 0 }

func (r source) port() uint16 {
	return uint16(r.pick(22, 53, 5060, 5061, 443, 5000+uint32(r.IntN(20))))
}

func (r source) marking() Marking {
	m := Marking{Queues: make([]plan.Queue, 1+r.IntN(8))}
	dscp := func() *uint8 {
		if !r.oneIn(3) {
			return nil
		}
		v := uint8(r.IntN(64))
		return &v
	}
	m.DSCP = dscp()
	for i := range m.Queues {
		m.Queues[i] = plan.Queue{Name: fmt.Sprint("q", i), DSCP: dscp()}
		for range r.IntN(4) {
			m.Queues[i].Match = append(m.Queues[i].Match, r.match())
		}
	}
	return m
}

var (
	addresses = []string{"10.0.0.1", "10.1.2.3", "192.0.2.1", "2001:db8::1", "2001:db8:0:1::2", "fd00::7"}
	prefixes  = []string{"10.0.0.0/8", "10.1.2.3/32", "192.0.2.0/25", "0.0.0.0/0", "::/0", "2001:db8::/64", "2001:db8::/33", "fd00::7/128", "fe00::/7"}
	protocols = []uint32{6, 17, 1, 58, 132, 136, 33, 50, 47}
)

func (r source) match() classify.Match {
	for {
		var m classify.Match
		ports := func() (list []classify.PortRange) {
			for range 1 + r.IntN(2) {
				low := r.port()
				list = append(list, classify.PortRange{First: low, Last: low + uint16(r.pick(0, 0, 3, 30000))})
			}
			return list
		}
		some := func(p *netip.Prefix) { *p = netip.MustParsePrefix(prefixes[r.IntN(len(prefixes))]) }
		for range 1 + r.IntN(2) {
			switch r.IntN(14) {
			case 0:
				m.Proto = classify.Given(uint8(r.pick(protocols...)))
			case 1, 2:
				m.TCP = ports()
			case 3, 4:
				m.UDP = ports()
			case 5:
				m.Sport = ports()
			case 6:
				m.Dport = ports()
			case 7:
				some(&m.Src)
			case 8:
				some(&m.Dst)
			case 9:
				m.DSCP = classify.Given(uint8(r.pick(0, 34, 46, uint32(r.IntN(64)))))
			case 10:
				m.VLAN = classify.Given(uint16(r.pick(0, 1, 2, 4095)))
			case 11:
				m.Mark = classify.Given(classify.Bits{Value: r.pick(5, 0x10), Mask: r.pick(^uint32(0), 0xff, 0x1f)})
			case 12:
				m.Queue = classify.Given(uint16(r.IntN(3)))
			case 13:
				m.Preset = classify.Presets()[r.IntN(len(classify.Presets()))].Name
			}
		}
		if m.Check() == nil {
			return m
		}
	}
}

// frame is a packet with its Ethernet header: usually in order, sometimes cut off
// or damaged.
func (r source) frame(bare bool) []byte {
	var b []byte
	six := r.oneIn(2)
	kind := uint16(0x0800)
	if six {
		kind = 0x86dd
	}
	if r.oneIn(20) {
		kind = uint16(r.pick(0x0806, 60, 0x8847))
	}
	b = append(b, make([]byte, 12)...)
	if !bare {
		for range int(r.pick(0, 0, 0, 1, 1, 2, 3)) {
			b = binary.BigEndian.AppendUint16(b, uint16(r.pick(0x8100, 0x88a8)))
			b = binary.BigEndian.AppendUint16(b, uint16(r.pick(0, 1, 2, 4095))|uint16(r.IntN(16))<<12)
		}
	}
	b = binary.BigEndian.AppendUint16(b, kind)
	network := len(b)
	proto := uint8(r.pick(protocols...))
	if six {
		b = r.ipv6(b, proto)
	} else {
		b = r.ipv4(b, proto)
	}
	b = binary.BigEndian.AppendUint16(b, r.port())
	b = binary.BigEndian.AppendUint16(b, r.port())
	b = append(b, make([]byte, 4+r.IntN(60))...)
	if r.oneIn(10) {
		// Cut off. A test run takes no IP packet with less than its header, but
		// does not look behind a tag.
		least := 15
		if network == 14 {
			least = network + 40
		}
		b = b[:min(max(network+r.IntN(len(b)-network), least), len(b))]
	}
	if r.oneIn(10) && len(b) > network {
		b[network+r.IntN(len(b)-network)] = byte(r.Uint32())
	}
	return b
}

func (r source) address(six bool) []byte {
	for {
		a := netip.MustParseAddr(addresses[r.IntN(len(addresses))])
		if a.Is6() == six {
			return a.AsSlice()
		}
	}
}

func (r source) dscp() uint8 { return uint8(r.pick(0, 34, 46, uint32(r.IntN(64)))) }

func (r source) ipv4(b []byte, proto uint8) []byte {
	words := 5 + int(r.pick(0, 0, 1, 10))
	ip := make([]byte, words*4)
	ip[0], ip[1], ip[8], ip[9] = 0x40|uint8(words), r.dscp()<<2|uint8(r.IntN(4)), 64, proto
	binary.BigEndian.PutUint16(ip[4:], uint16(r.IntN(4)))
	binary.BigEndian.PutUint16(ip[6:], uint16(r.pick(0, 0, 0x4000, 0x2000, 0x2001, 0x0003)))
	copy(ip[12:], r.address(false))
	copy(ip[16:], r.address(false))
	sum := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	return append(b, ip...)
}

func (r source) ipv6(b []byte, proto uint8) []byte {
	ip := make([]byte, 40)
	binary.BigEndian.PutUint32(ip, 6<<28|uint32(r.dscp())<<22|uint32(r.IntN(4))<<20|uint32(r.IntN(1<<20)))
	copy(ip[8:], r.address(true))
	copy(ip[24:], r.address(true))
	var all []byte
	last := -1 // where in all the last header begins, whose first byte says what follows
	follow := func(kind uint8) {
		if last < 0 {
			ip[6] = kind
		} else {
			all[last] = kind
		}
	}
	for range int(r.pick(0, 0, 0, 1, 2, 3, 8, 9)) {
		kind := uint8(r.pick(0, 43, 44, 51, 60))
		ext := make([]byte, 8)
		switch kind {
		case 44:
			binary.BigEndian.PutUint16(ext[2:], uint16(r.pick(0, 1, 1, 8, 9, 6)))
			binary.BigEndian.PutUint32(ext[4:], r.pick(1, 2, 70000))
		case 51:
			ext[1] = uint8(r.IntN(3))
			ext = append(ext, make([]byte, int(ext[1])*4)...)
		default:
			ext[1] = uint8(r.IntN(3))
			ext = append(ext, make([]byte, int(ext[1])*8)...)
		}
		follow(kind)
		last = len(all)
		all = append(all, ext...)
	}
	follow(proto)
	return append(append(b, ip...), all...)
}
