// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"fmt"
	"net/netip"
	"strconv"

	"weir/internal/core/invalid"
)

// MaxRules is the largest number of rules of one workload, presets and lists of ports
// written out; WEIR_MAX_RULES in bpf/marking/rule.h is the same number.
const MaxRules = 64

// Rule is a match, or the part of one, in the form in which packets are compared:
// one range where a match has a list. Rules can be compared with ==.
type Rule struct {
	Queue int // index among the workload's queues
	Match int // index in the queue's Match
	Condition
}

// Condition is the part of a rule that a packet must fit; a field that is not given fits any
// packet.
type Condition struct {
	Proto        Opt[uint8]
	Port         Opt[PortRange] // of either end
	Sport, Dport Opt[PortRange]
	Src, Dst     netip.Prefix
	DSCP         Opt[uint8]
	VLAN         Opt[uint16]
	Priority     Opt[uint32]
	Mark         Bits // Mask 0 = any
}

// Rules are a workload's rules in the order in which they are tried.
type Rules struct {
	List    []Rule
	Default int // index of the queue for what fits none
}

// Compile writes the matches of the queues, given in the queues' order, out
// as rules. The default queue is the one without a match, the last of them if
// there are several, and the last queue if all have one. The error, an *invalid.Error,
// says that there are more than MaxRules.
func Compile(queues [][]Match) (Rules, error) {
	if n := number(queues); n > MaxRules {
		return Rules{}, &invalid.Error{Field: "queues", Value: strconv.Itoa(n),
			Msg:    fmt.Sprintf("more rules than the %d that a workload can have; each port or range and each match of a preset counts as one", MaxRules),
			Remedy: "join ports to ranges, or mark the traffic by dscp where it is sent"}
	}
	return compile(queues), nil
}

// number returns how many rules the matches stand for, without making them: three lists of a
// thousand ports each, which a short text has room for, are a thousand million rules.
func number(queues [][]Match) (n int) {
	for _, matches := range queues {
		for _, m := range matches {
			n += m.number()
		}
	}
	return n
}

// number returns the number of the match's conditions. A list
// of ports has at most MaxRules entries (readPorts), so that the product fits.
func (m Match) number() int {
	if m.Preset != "" {
		n := 0
		if preset, err := presetNamed(m.Preset); err == nil {
			for _, part := range preset.Matches() {
				n += part.number()
			}
		}
		return n
	}
	either := len(m.TCP)
	if either == 0 {
		either = len(m.UDP)
	}
	return max(1, either) * max(1, len(m.Sport)) * max(1, len(m.Dport))
}

// compile makes the rules; of more than MaxRules, which Compile refuses, it makes none.
func compile(queues [][]Match) Rules {
	rules := Rules{Default: max(len(queues)-1, 0)}
	if number(queues) > MaxRules {
		return rules
	}
	for queue, matches := range queues {
		if len(matches) == 0 {
			rules.Default = queue
		}
		for i, m := range matches {
			for _, c := range m.conditions() {
				rules.List = append(rules.List, Rule{queue, i, c})
			}
		}
	}
	rules.Default = max(rules.Default, 0)
	return rules
}

// conditions returns the conditions that the match stands for, one for each
// combination of the values that it lists.
func (m Match) conditions() []Condition {
	if m.Preset != "" {
		preset, err := presetNamed(m.Preset)
		if err != nil {
			return nil // Check refuses it
		}
		var all []Condition
		for _, part := range preset.Matches() {
			part.Src, part.Dst, part.VLAN = m.Src, m.Dst, m.VLAN
			part.Priority, part.Mark, part.Queue = m.Priority, m.Mark, m.Queue
			all = append(all, part.conditions()...)
		}
		return all
	}
	base := Condition{Proto: m.Proto, Src: m.Src, Dst: m.Dst, DSCP: m.DSCP, VLAN: m.VLAN, Priority: m.Priority}
	if m.Mark.Given {
		base.Mark = m.Mark.Value
	}
	if m.Queue.Given {
		base.Priority = Given(ovsPriority(m.Queue.Value))
	}
	either := m.TCP
	if len(m.TCP) > 0 {
		base.Proto = Given[uint8](protoTCP)
	} else if len(m.UDP) > 0 {
		base.Proto, either = Given[uint8](protoUDP), m.UDP
	}
	all := []Condition{base}
	all = eachOf(all, either, func(c *Condition, p PortRange) { c.Port = Given(p) })
	all = eachOf(all, m.Sport, func(c *Condition, p PortRange) { c.Sport = Given(p) })
	return eachOf(all, m.Dport, func(c *Condition, p PortRange) { c.Dport = Given(p) })
}

// ovsPriority returns skb->priority after Open vSwitch's set_queue: class 1:N+1.
func ovsPriority(queue uint16) uint32 { return 1<<16 | uint32(queue+1) }

func eachOf(all []Condition, list []PortRange, set func(*Condition, PortRange)) []Condition {
	if len(list) == 0 {
		return all
	}
	var each []Condition
	for _, c := range all {
		for _, p := range list {
			set(&c, p)
			each = append(each, c)
		}
	}
	return each
}

// Fits reports whether the packet is as the condition asks.
func (c Condition) Fits(p Packet) bool {
	fits := func(r Opt[PortRange], port uint16) bool {
		return !r.Given || p.Ports && r.Value.First <= port && port <= r.Value.Last
	}
	inside := func(prefix netip.Prefix, addr netip.Addr) bool {
		return !prefix.IsValid() || prefix.Contains(addr) // false for another family, and for no address
	}
	return (!c.Proto.Given || p.IP() && p.Proto == c.Proto.Value) &&
		(!c.DSCP.Given || p.IP() && p.DSCP == c.DSCP.Value) &&
		(!c.VLAN.Given || p.Tagged && p.VLAN == c.VLAN.Value) &&
		(!c.Priority.Given || p.Priority == c.Priority.Value) &&
		p.Mark&c.Mark.Mask == c.Mark.Value &&
		(fits(c.Port, p.Sport) || fits(c.Port, p.Dport)) &&
		fits(c.Sport, p.Sport) && fits(c.Dport, p.Dport) &&
		inside(c.Src, p.Src) && inside(c.Dst, p.Dst)
}

// Classify returns the queue of a packet and the index of the first rule that it fits,
// -1 for none. A later fragment has no ports; see Fragments.
func (r Rules) Classify(p Packet) (queue, rule int) {
	for i, rule := range r.List {
		if rule.Fits(p) {
			return rule.Queue, i
		}
	}
	return r.Default, -1
}

// QueueOf returns the index of the queue that the packet belongs to, by the queues' matches in
// the queues' order.
func QueueOf(queues [][]Match, p Packet) int {
	queue, _ := compile(queues).Classify(p)
	return queue
}

// Rest returns the index of the queue that takes what no rule names: the first without a match, or
// the last.
func Rest(queues [][]Match) int { return int(compile(queues).Default) }

// Fragments classifies the packets of one workload in their order: a later
// fragment goes where the first one of its datagram went. One that comes before
// its first is classified by itself, without ports.
type Fragments struct {
	rules Rules
	first map[datagram]int // queue of the first fragment
}

// datagram holds the fields that all fragments of a datagram share (RFC 791 section 3.2, RFC
// 8200 section 4.5: no protocol there).
type datagram struct {
	src, dst netip.Addr
	id       uint32
	proto    uint8
}

// NewFragments returns a Fragments that has seen no fragment yet.
func NewFragments(rules Rules) *Fragments {
	return &Fragments{rules: rules, first: map[datagram]int{}}
}

// Classify returns the queue of a packet, as Rules.Classify does with the fragments seen before.
func (f *Fragments) Classify(p Packet) int {
	key := datagram{p.Src, p.Dst, p.ID, p.Proto}
	if p.Src.Is6() {
		key.proto = 0
	}
	if queue, ok := f.first[key]; ok && p.Fragment == LaterFragment {
		return queue
	}
	queue, _ := f.rules.Classify(p)
	if p.Fragment == FirstFragment {
		f.first[key] = queue
	}
	return queue
}
