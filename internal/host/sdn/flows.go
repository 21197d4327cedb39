// SPDX-License-Identifier: Apache-2.0

package sdn

import (
	"fmt"
	"math/bits"
	"net"
	"reflect"
	"strings"

	"weir/internal/config"
	"weir/internal/core/policy/classify"
	"weir/internal/host/sdn/openflow"
)

// Cookies of Weir's flows are cookie under cookieMask: "Weir" in ASCII.
const (
	cookie     = 0x57656972 << 32
	cookieMask = 0xffffffff << 32
)

// Own selects Weir's flows.
var Own = openflow.Selection{Cookie: cookie, Mask: cookieMask}

const (
	table       = 0
	topPriority = 60000
	// seen is the register that is 1 in a packet that Weir has put into a queue.
	seen = 15
)

// entry is one flow of the file, with the OpenFlow flows made of it.
type entry struct {
	flows []openflow.Flow
	level int // 0 = first; entries that overlap and differ have different ones
}

// compileFlows returns the file's flows as OpenFlow has them; ports are the bridge's port
// numbers by name. The earlier of two entries that a packet fits has the higher priority;
// entries that no packet can tell apart share one, so that most files need few. The error
// names an entry that no packet reaches.
func compileFlows(s config.Switch, ports map[string]uint32) ([]openflow.Flow, error) {
	var entries []entry
	for i, f := range s.Flows {
		e, err := compileFlow(s, f, ports)
		if err != nil {
			return nil, fmt.Errorf("%s: flows[%d]: %w", s.Path, i, err)
		}
		if err := e.place(entries); err != nil {
			return nil, fmt.Errorf("%s: flows[%d]: %w", s.Path, i, err)
		}
		entries = append(entries, e)
	}
	var all []openflow.Flow
	known := map[string]bool{}
	for _, e := range entries {
		for _, f := range e.flows {
			f.Priority = uint16(topPriority - e.level)
			if key := f.Key(); !known[key] {
				known[key] = true
				all = append(all, f)
			}
		}
	}
	return all, nil
}

// place finds the entry's level behind the earlier ones.
func (e *entry) place(before []entry) error {
	reached := false
	by := -1
	for _, f := range e.flows {
		covered := false
		for i, earlier := range before {
			for _, g := range earlier.flows {
				if !f.Match.Overlaps(g.Match) {
					continue
				}
				if g.Match.Covers(f.Match) {
					covered, by = true, i
				}
				if !sameActions(f, g) {
					e.level = max(e.level, earlier.level+1)
				}
			}
		}
		reached = reached || !covered
	}
	if !reached {
		return fmt.Errorf("no packet gets here, flows[%d] takes them before; remove it, or put it first", by)
	}
	return nil
}

func sameActions(f, g openflow.Flow) bool { return f.ActionText() == g.ActionText() }

// compileFlow writes one entry out: one flow for each family, protocol, end and
// range of ports.
func compileFlow(s config.Switch, f config.SwitchFlow, ports map[string]uint32) (entry, error) {
	base := openflow.Match{openflow.Reg(seen, 0)}
	portNumber := func(name string) (uint32, error) {
		n, ok := ports[name]
		if !ok {
			return 0, fmt.Errorf("port %q: bridge %s has no such port, or it is not up yet; see ovs-ofctl show %s", name, s.Bridge, s.Bridge)
		}
		return n, nil
	}
	if f.InPort != "" {
		n, err := portNumber(f.InPort)
		if err != nil {
			return entry{}, err
		}
		base = append(base, openflow.InPort(n))
	}
	for _, end := range []struct {
		id   openflow.FieldID
		text string
	}{{openflow.FieldEthSrc, f.EthSrc}, {openflow.FieldEthDst, f.EthDst}} {
		if end.text == "" {
			continue
		}
		mac, err := net.ParseMAC(end.text)
		if err != nil {
			return entry{}, err
		}
		base = append(base, openflow.Ethernet(end.id, mac))
	}
	number, _ := s.QueueNumber(f.Queue)
	actions := []openflow.Action{openflow.SetQueue(uint32(number)), openflow.SetReg(seen, 1), openflow.Resubmit(table)}
	if f.Forward {
		n, err := portNumber(f.Port)
		if err != nil {
			return entry{}, err
		}
		actions = []openflow.Action{openflow.SetQueue(uint32(number)), openflow.Output(n)}
	}
	matches, err := compileMatch(base, f.Match)
	if err != nil {
		return entry{}, err
	}
	var e entry
	for _, m := range matches {
		e.flows = append(e.flows, openflow.Flow{Table: table, Cookie: cookie, Match: m.Canonical(), Actions: actions})
	}
	return e, nil
}

// compileMatch returns base with what m says, in as many matches as it takes.
func compileMatch(base openflow.Match, m classify.Match) ([]openflow.Match, error) {
	if reflect.DeepEqual(m, classify.Match{}) {
		return []openflow.Match{base}, nil
	}
	rules, err := classify.Compile([][]classify.Match{{m}})
	if err != nil {
		return nil, err
	}
	var all []openflow.Match
	for _, rule := range rules.List {
		some, err := compileCondition(base, rule.Condition)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// Ethernet types.
const (
	ethIPv4 = 0x0800
	ethIPv6 = 0x86dd
)

// families returns the Ethernet types of the packets that a condition can fit; nil if it
// asks for nothing that IP has.
func families(c classify.Condition) []uint16 {
	const icmp, icmp6 = 1, 58
	prefix := c.Src
	if !prefix.IsValid() {
		prefix = c.Dst
	}
	switch {
	case prefix.IsValid() && prefix.Addr().Is4(), c.Proto == classify.Given[uint8](icmp):
		return []uint16{ethIPv4}
	case prefix.IsValid(), c.Proto == classify.Given[uint8](icmp6):
		return []uint16{ethIPv6}
	case c.Proto.Given, c.DSCP.Given, c.Port.Given, c.Sport.Given, c.Dport.Given:
		return []uint16{ethIPv4, ethIPv6}
	}
	return nil
}

// transport is a protocol with ports that OpenFlow has fields for.
type transport struct {
	proto    uint8
	src, dst openflow.FieldID
}

var transports = []transport{
	{6, openflow.FieldTCPSrc, openflow.FieldTCPDst},
	{17, openflow.FieldUDPSrc, openflow.FieldUDPDst},
	{132, openflow.FieldSCTPSrc, openflow.FieldSCTPDst},
}

func compileCondition(base openflow.Match, c classify.Condition) ([]openflow.Match, error) {
	if c.VLAN.Given {
		base = with(base, openflow.VLAN(c.VLAN.Value))
	}
	if c.DSCP.Given {
		base = with(base, openflow.DSCP(c.DSCP.Value))
	}
	types := families(c)
	if types == nil {
		return []openflow.Match{base}, nil
	}
	var all []openflow.Match
	for _, t := range types {
		m := with(base, openflow.EthType(t))
		src, dst := openflow.FieldIPv4Src, openflow.FieldIPv4Dst
		if t == ethIPv6 {
			src, dst = openflow.FieldIPv6Src, openflow.FieldIPv6Dst
		}
		if c.Src.IsValid() {
			m = with(m, openflow.Prefix(src, c.Src))
		}
		if c.Dst.IsValid() {
			m = with(m, openflow.Prefix(dst, c.Dst))
		}
		some, err := compilePorts(m, c)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// compilePorts adds protocol and ports.
func compilePorts(base openflow.Match, c classify.Condition) ([]openflow.Match, error) {
	if !c.Port.Given && !c.Sport.Given && !c.Dport.Given {
		if c.Proto.Given {
			base = with(base, openflow.IPProto(c.Proto.Value))
		}
		return []openflow.Match{base}, nil
	}
	var all []openflow.Match
	for _, t := range transports {
		if c.Proto.Given && c.Proto.Value != t.proto {
			continue
		}
		m := []openflow.Match{with(base, openflow.IPProto(t.proto))}
		m = eachPort(m, t.src, c.Sport)
		m = eachPort(m, t.dst, c.Dport)
		if c.Port.Given {
			m = append(eachPort(m, t.src, c.Port), eachPort(m, t.dst, c.Port)...)
		}
		all = append(all, m...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("OpenFlow has no fields for the ports of protocol %d; leave the ports out", c.Proto.Value)
	}
	return all, nil
}

// eachPort writes a range of ports out as matches under masks.
func eachPort(base []openflow.Match, id openflow.FieldID, ports classify.Opt[classify.PortRange]) []openflow.Match {
	if !ports.Given {
		return base
	}
	var all []openflow.Match
	for _, m := range base {
		for _, p := range masks(ports.Value) {
			all = append(all, with(m, openflow.Port(id, p.value, p.mask)))
		}
	}
	return all
}

type masked struct{ value, mask uint16 }

// masks covers a range of ports with the fewest blocks whose size is a power of
// two and whose first port is a multiple of it: 5000-5010 is 5000/0xfff8,
// 5008/0xfffe, 5010/0xffff.
func masks(p classify.PortRange) []masked {
	var list []masked
	for first, last := uint32(p.First), uint32(p.Last); first <= last; {
		size := uint32(1) << 16
		if first > 0 {
			size = 1 << bits.TrailingZeros32(first)
		}
		for first+size-1 > last {
			size /= 2
		}
		list = append(list, masked{uint16(first), uint16(-size)})
		first += size
	}
	return list
}

// with returns m and one more condition; m stays as it is.
func with(m openflow.Match, f openflow.Field) openflow.Match {
	return append(m[:len(m):len(m)], f)
}

// queueOf returns the queue that a flow of Weir's sets.
func queueOf(f openflow.Flow) (n uint32, ok bool) {
	for _, a := range f.Actions {
		if _, err := fmt.Sscanf(a.String(), "set_queue:%d", &n); err == nil {
			return n, true
		}
	}
	return 0, false
}

// matchText returns a flow's match without the register that all flows of Weir's have.
func matchText(f openflow.Flow) string {
	text := strings.TrimPrefix(f.Match.String(), openflow.Match{openflow.Reg(seen, 0)}.String())
	if text = strings.TrimPrefix(text, ","); text == "" {
		return "any"
	}
	return text
}
