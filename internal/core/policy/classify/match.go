// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"strconv"
	"strings"

	"weir/internal/core/invalid"
)

// Match is one condition on a packet; all that it states must hold, and where it
// lists ports, one of them. The zero Match states nothing and is not accepted.
// Matches may be compared by reflect.DeepEqual.
//
//	{udp: 5001}                       UDP from or to port 5001
//	{tcp: [80, 8000-8099], src: 10.0.0.0/8}
//	{proto: sctp, dscp: af41}
//	{preset: voip, dst: 2001:db8::/32}
type Match struct {
	Preset   string       // a named list of matches, see Presets; one of them must fit
	Proto    Opt[uint8]   // IP protocol; of IPv6, the one behind the extension headers
	TCP, UDP []PortRange  // of either end
	Sport    []PortRange  // of the sender; any protocol that has ports
	Dport    []PortRange  // of the receiver
	Src, Dst netip.Prefix // the zero Prefix is any
	DSCP     Opt[uint8]   // as the packet came, before any rewriting
	VLAN     Opt[uint16]  // id in the outermost tag
	Priority Opt[uint32]  // skb->priority
	Mark     Opt[Bits]    // skb->mark, before Weir's bits are written
	Queue    Opt[uint16]  // Open vSwitch's set_queue, which is a priority too
}

// Opt is a value that may not be given.
type Opt[T comparable] struct {
	Value T
	Given bool
}

// Given returns an Opt that has a value.
func Given[T comparable](value T) Opt[T] { return Opt[T]{value, true} }

// PortRange is a range of ports, both ends included.
type PortRange struct{ First, Last uint16 }

// String returns "5060" or "5000-5010".
func (p PortRange) String() string {
	if p.First == p.Last {
		return strconv.Itoa(int(p.First))
	}
	return fmt.Sprintf("%d-%d", p.First, p.Last)
}

// Bits are some bits of a number: the bits of Mask must be as in Value.
type Bits struct{ Value, Mask uint32 }

// String returns "0x50/0xf0", or "80" if all bits count.
func (b Bits) String() string {
	if b.Mask == ^uint32(0) {
		return strconv.FormatUint(uint64(b.Value), 10)
	}
	return fmt.Sprintf("%#x/%#x", b.Value, b.Mask)
}

// MaxOVSQueue is the largest queue that Open vSwitch's kernel part takes: the
// number plus one is the minor of a class id, of which tc keeps the rest.
const MaxOVSQueue = 61439

// Numbers of IP protocols, from IANA's list.
const (
	protoICMP    = 1
	protoTCP     = 6
	protoUDP     = 17
	protoDCCP    = 33
	protoGRE     = 47
	protoESP     = 50
	protoICMP6   = 58
	protoSCTP    = 132
	protoUDPLite = 136
)

// protoNames are the protocols that have a name here.
var protoNames = map[uint8]string{
	protoTCP: "tcp", protoUDP: "udp", protoICMP: "icmp", protoICMP6: "icmp6",
	protoSCTP: "sctp", protoESP: "esp", protoGRE: "gre",
}

// hasPorts reports whether a protocol's header begins with two ports.
func hasPorts(proto uint8) bool {
	return slices.Contains([]uint8{protoTCP, protoUDP, protoDCCP, protoSCTP, protoUDPLite}, proto)
}

// matchField is one key of a match, with its reader and its writer.
type matchField struct {
	name  string
	read  func(m *Match, value any) error
	write func(m Match) string // "" = not given
}

var matchFields = []matchField{
	{"preset", (*Match).readPreset, func(m Match) string { return m.Preset }},
	{"proto", readWord(parseProto, func(m *Match) *Opt[uint8] { return &m.Proto }), func(m Match) string { return formatOpt(m.Proto, formatProto) }},
	{"tcp", readPorts(func(m *Match) *[]PortRange { return &m.TCP }), func(m Match) string { return formatPorts(m.TCP) }},
	{"udp", readPorts(func(m *Match) *[]PortRange { return &m.UDP }), func(m Match) string { return formatPorts(m.UDP) }},
	{"sport", readPorts(func(m *Match) *[]PortRange { return &m.Sport }), func(m Match) string { return formatPorts(m.Sport) }},
	{"dport", readPorts(func(m *Match) *[]PortRange { return &m.Dport }), func(m Match) string { return formatPorts(m.Dport) }},
	{"src", readPrefix(func(m *Match) *netip.Prefix { return &m.Src }), func(m Match) string { return formatPrefix(m.Src) }},
	{"dst", readPrefix(func(m *Match) *netip.Prefix { return &m.Dst }), func(m Match) string { return formatPrefix(m.Dst) }},
	{"dscp", readWord(ParseDSCP, func(m *Match) *Opt[uint8] { return &m.DSCP }), func(m Match) string { return formatOpt(m.DSCP, DSCPName) }},
	{"vlan", readWord(numberUpTo[uint16](4095, "a VLAN id"), func(m *Match) *Opt[uint16] { return &m.VLAN }), func(m Match) string { return formatOpt(m.VLAN, decimal[uint16]) }},
	{"priority", readWord(numberUpTo[uint32](1<<32-1, "a priority"), func(m *Match) *Opt[uint32] { return &m.Priority }), func(m Match) string { return formatOpt(m.Priority, decimal[uint32]) }},
	{"mark", readWord(parseBits, func(m *Match) *Opt[Bits] { return &m.Mark }), func(m Match) string { return formatOpt(m.Mark, Bits.String) }},
	{"queue", readWord(numberUpTo[uint16](MaxOVSQueue, "a queue of Open vSwitch"), func(m *Match) *Opt[uint16] { return &m.Queue }), func(m Match) string { return formatOpt(m.Queue, decimal[uint16]) }},
}

// MatchFields returns the keys of a match, in the order in which String has them.
func MatchFields() []string {
	names := make([]string, len(matchFields))
	for i, f := range matchFields {
		names[i] = f.name
	}
	return names
}

// ParseMatch reads a match from a decoded mapping. Values are single ones (text
// or numbers) and, where ports are listed, a list of them. The error is an *invalid.Error
// for the key that is wrong.
func ParseMatch(fields map[string]any) (Match, error) {
	var m Match
	left := len(fields)
	for _, f := range matchFields {
		value, ok := fields[f.name]
		if !ok {
			continue
		}
		left--
		if err := f.read(&m, value); err != nil {
			return Match{}, invalid.InField(f.name, err)
		}
	}
	if left > 0 {
		return Match{}, unknownField(fields)
	}
	return m, m.Check()
}

func unknownField(fields map[string]any) error {
	known := MatchFields()
	var unknown []string
	for name := range fields {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	sort.Strings(unknown)
	return &invalid.Error{Field: "match", Value: unknown[0], Msg: "no such key", Remedy: "known here: " + strings.Join(known, ", ")}
}

// ParseMatches reads one match or a list of them, from a decoded tree or from
// text as in the file: "[{udp: 5001}, {dscp: 34}]", "{udp: 5001}", "udp: 5001";
// JSON will do. The error is an *invalid.Error, its field such as "match[1].udp".
func ParseMatches(from any) ([]Match, error) {
	if text, ok := from.(string); ok {
		tree, err := parseFlow(text)
		if err != nil {
			return nil, err
		}
		from = tree
	}
	if one, ok := from.(map[string]any); ok {
		m, err := ParseMatch(one)
		if err != nil {
			return nil, err
		}
		return []Match{m}, nil
	}
	list, ok := from.([]any)
	if !ok {
		return nil, &invalid.Error{Field: "match", Value: fmt.Sprint(from), Msg: "not a list of matches", Remedy: "write it as [{udp: 5001}, {dscp: ef}]"}
	}
	if err := few("matches", len(list)); err != nil {
		return nil, invalid.InField("match", err)
	}
	matches := make([]Match, 0, len(list))
	for i, item := range list {
		at := fmt.Sprintf("match[%d]", i)
		fields, ok := item.(map[string]any)
		if !ok {
			return nil, &invalid.Error{Field: at, Value: fmt.Sprint(item), Msg: "not a match", Remedy: "write it as {udp: 5001}"}
		}
		m, err := ParseMatch(fields)
		if err != nil {
			return nil, InList(at, err)
		}
		matches = append(matches, m)
	}
	return matches, nil
}

// InList puts the place in a list before the field of an *invalid.Error about an element: of
// "match[1]" and an error about udp it makes "match[1].udp".
func InList(at string, err error) error {
	var e *invalid.Error
	if !errors.As(err, &e) || e.Field == "match" || e.Field == "" {
		return invalid.InField(at, err)
	}
	return invalid.InField(at+"."+e.Field, err)
}

// Check refuses a match that states nothing or that nothing can fit. The error is
// an *invalid.Error.
func (m Match) Check() error {
	fail := func(field, msg, remedy string) error {
		return &invalid.Error{Field: field, Msg: msg, Remedy: remedy}
	}
	ends := len(m.Sport) > 0 || len(m.Dport) > 0
	switch {
	case m.String() == "{}":
		return fail("match", "states nothing", "name what belongs here; the queue without any match takes the rest")
	case len(m.TCP) > 0 && len(m.UDP) > 0:
		return fail("tcp", "a packet is not both TCP and UDP", "write two matches: {tcp: ...}, {udp: ...}")
	case m.Proto.Given && len(m.TCP) > 0 && m.Proto.Value != protoTCP:
		return fail("proto", formatProto(m.Proto.Value)+" contradicts tcp", "leave one of them out")
	case m.Proto.Given && len(m.UDP) > 0 && m.Proto.Value != protoUDP:
		return fail("proto", formatProto(m.Proto.Value)+" contradicts udp", "leave one of them out")
	case m.Proto.Given && ends && !hasPorts(m.Proto.Value):
		return fail("proto", formatProto(m.Proto.Value)+" has no ports", "leave sport and dport out, or write tcp, udp or sctp")
	case m.Src.IsValid() && m.Dst.IsValid() && m.Src.Addr().Is4() != m.Dst.Addr().Is4():
		return fail("dst", fmt.Sprintf("%s and %s are of two families", m.Src, m.Dst), "write two matches")
	case m.Queue.Given && m.Priority.Given:
		return fail("queue", "is a priority itself", "leave queue or priority out")
	case m.Preset != "" && (m.Proto.Given || len(m.TCP)+len(m.UDP) > 0 || ends || m.DSCP.Given):
		return fail("preset", "says protocol, ports and dscp itself", "leave them out, or write the matches without preset "+m.Preset)
	}
	return nil
}

// String returns the match in the words in which it can be read again.
func (m Match) String() string {
	var fields []string
	for _, f := range matchFields {
		if text := f.write(m); text != "" {
			fields = append(fields, f.name+": "+text)
		}
	}
	return "{" + strings.Join(fields, ", ") + "}"
}
