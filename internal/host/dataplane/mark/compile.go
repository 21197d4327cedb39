// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
	"weir/internal/host/dataplane"
)

// Marking says what the programs write into a workload's packets beside the class.
type Marking struct {
	Queues []plan.Queue // whose rules pick the queue; nil = all packets are of queue 0
	DSCP   *uint8       // for packets of queues without one of their own; nil = left as it is
	Hosts  uint32       // WEIR_HOST_SRC and WEIR_HOST_DST: whose packets share a hash; 0 = a flow's
}

// MarkingOf is what a class asks for.
func MarkingOf(c plan.Class) Marking {
	return Marking{Queues: c.Queues, DSCP: c.DSCP, Hosts: hostsOf(c.Isolation)}
}

// hostsOf returns what of a packet makes its hash.
func hostsOf(i discipline.Isolation) uint32 {
	switch i {
	case discipline.BySource:
		return uint32(classifyWeirHostsWEIR_HOST_SRC)
	case discipline.ByDestination:
		return uint32(classifyWeirHostsWEIR_HOST_DST)
	case discipline.ByHosts:
		return uint32(classifyWeirHostsWEIR_HOST_SRC | classifyWeirHostsWEIR_HOST_DST)
	}
	return 0
}

// empty reports whether the marking asks for nothing but the class.
func (m Marking) empty() bool {
	for _, q := range m.Queues {
		if len(q.Match) > 0 || q.DSCP != nil {
			return false
		}
	}
	return m.DSCP == nil && m.Hosts == 0
}

// rules are the marking's queues as rules.
func (m Marking) rules() (classify.Rules, error) {
	matches := make([][]classify.Match, len(m.Queues))
	for i, q := range m.Queues {
		matches[i] = q.Match
	}
	return classify.Compile(matches)
}

// codepoints returns the DSCP that the packets of each queue get.
func (m Marking) codepoints() (list [policy.MaxQueues]uint8) {
	for i := range list {
		dscp := m.DSCP
		if i < len(m.Queues) && m.Queues[i].DSCP != nil {
			dscp = m.Queues[i].DSCP
		}
		list[i] = keepDSCP
		if dscp != nil {
			list[i] = *dscp
		}
	}
	return list
}

// keepDSCP is WEIR_DSCP_KEEP in bpf/marking/rule.h.
const keepDSCP = 0xff

// program is a marking program before it is loaded.
type program struct {
	name  string // its function in bpf/
	place classifyWeirPlace
	rules []classifyWeirRule
	late  map[uint32]classifyWeirLateClass // by class
	owner []owner
	in    classifyWeirInward      // of classifyProgWeirRulesIn and classifyProgWeirRulesZone
	area  *dataplane.CompiledArea // of the same; nil = everybody's packets
	// running returns the same program where the kernel runs it elsewhere; nil = it does not.
	running func() *ebpf.Program
}

// identity is what can be read back from a loaded program, and tells programs
// that do different things apart.
type identity struct {
	name        string
	keep, value uint32
	seal        uint32
	digest      uint64 // the seal in marking/mark.bpf.c, which has no rules
	levels      uint32 // at a cgroup: how far it is below the top, as in classifyWeirPlace
}

func (p program) identity() identity {
	return identity{p.name, p.place.Keep, p.place.Value, p.place.Seal, p.place.Digest, p.place.Levels}
}

// compile makes the program for packets of a class. Where bpf/marking/mark.bpf.c does, at
// a port of a workload without rules, it is that.
func compile(name string, class plan.ClassID, carrier plan.Carrier, marking Marking, linkHeader int) (program, error) {
	rules, err := marking.rules()
	if err != nil {
		return program{}, err
	}
	p := program{name: name, place: classifyWeirPlace{
		Keep: ^uint32(carrier.Mask), Value: carrier.Mask.Value(class, 0),
		Class: uint32(class), Seal: carrier.Seal(class, 0), In: where(carrier),
		Dscp: marking.codepoints(), Hosts: marking.Hosts, HostKeys: hostKeys(),
	}}
	if marking.empty() && name == classifyProgWeirRulesPort {
		return program{name: programName, place: classifyWeirPlace{Keep: p.place.Keep, Value: p.place.Value, Seal: p.place.Seal, Digest: uint64(p.place.Seal)}}, nil
	}
	if !marking.empty() {
		p.place.Host = 1
	}
	p.place.Count, p.place.Total = uint32(len(rules.List)), uint32(len(rules.List))
	p.place.Fallback = uint32(rules.Default)
	p.place.LinkHeader = uint32(linkHeader)
	for _, rule := range rules.List {
		p.rules = append(p.rules, kernelRule(rule))
	}
	p.place.Digest = p.digest()
	return p, nil
}

// where returns what a program is told of the carrier.
func where(c plan.Carrier) (in classifyWeirCarrier) {
	in.More, in.Others, in.Classes, in.Shift, in.QueueShift = c.Where()
	return in
}

// hostKeys are the keys of the hash of hosts. Each agent draws its own, once, so that a host
// has one hash at all ports of its workload that this agent has attached to.
var hostKeys = sync.OnceValue(func() (keys [6]uint64) { // WEIR_HOST_KEYS
	bytes := make([]byte, unsafe.Sizeof(keys))
	_, _ = rand.Read(bytes) // it never fails
	for i := range keys {
		keys[i] = binary.NativeEndian.Uint64(bytes[i*8:])
	}
	return keys
})

// digest is of all that the program is made of, but for keys: a new build of Weir replaces it,
// the next agent of the same build leaves it.
func (p program) digest() uint64 {
	var text bytes.Buffer
	text.Write(_ClassifyBytes)
	text.WriteString(p.name)
	// Neither fails: a buffer takes everything, and the types have a fixed size.
	p.place.Digest, p.place.HostKeys = 0, [6]uint64{}
	_ = binary.Write(&text, binary.NativeEndian, p.place)
	for _, class := range slices.Sorted(maps.Keys(p.late)) {
		_ = binary.Write(&text, binary.NativeEndian, class)
		_ = binary.Write(&text, binary.NativeEndian, p.late[class])
	}
	_ = binary.Write(&text, binary.NativeEndian, p.owner)
	_ = binary.Write(&text, binary.NativeEndian, p.in)
	_ = binary.Write(&text, binary.NativeEndian, p.rules)
	if p.area != nil {
		_ = binary.Write(&text, binary.NativeEndian, p.area.Bare)
		text.Write(p.area.Sum[:])
	}
	sum := sha256.Sum256(text.Bytes())
	return binary.NativeEndian.Uint64(sum[:])
}

// kernelRule is a rule as bpf/marking/rules.h compares it.
func kernelRule(r classify.Rule) classifyWeirRule {
	k := classifyWeirRule{Queue: uint16(r.Queue)}
	fact := func(at classifyWeirFact, bits, value uint64) {
		k.Mask |= bits << at
		k.Value |= value << at
	}
	ip := func() { fact(classifyWeirFactWEIR_FACT_IP, 1, 1) }
	if r.Proto.Given {
		ip()
		fact(classifyWeirFactWEIR_FACT_PROTO, 0xff, uint64(r.Proto.Value))
	}
	if r.DSCP.Given {
		ip()
		fact(classifyWeirFactWEIR_FACT_DSCP, 0x3f, uint64(r.DSCP.Value))
	}
	if r.VLAN.Given {
		fact(classifyWeirFactWEIR_FACT_TAGGED, 1, 1)
		fact(classifyWeirFactWEIR_FACT_VLAN, 0xfff, uint64(r.VLAN.Value))
	}
	ports := func(o classify.Opt[classify.PortRange], test classifyWeirTest) (first, span uint16) {
		if !o.Given {
			return 0, 0
		}
		k.Tests |= uint16(test)
		fact(classifyWeirFactWEIR_FACT_PORTS, 1, 1)
		return o.Value.First, o.Value.Last - o.Value.First
	}
	k.Port, k.PortSpan = ports(r.Port, classifyWeirTestWEIR_TEST_PORT)
	k.Sport, k.SportSpan = ports(r.Sport, classifyWeirTestWEIR_TEST_SPORT)
	k.Dport, k.DportSpan = ports(r.Dport, classifyWeirTestWEIR_TEST_DPORT)
	prefix := func(p netip.Prefix, test classifyWeirTest, mask, value *[2]uint64) {
		if !p.IsValid() {
			return
		}
		ip()
		family := uint64(0)
		if p.Addr().Is6() {
			family = 1
		}
		fact(classifyWeirFactWEIR_FACT_IPV6, 1, family)
		if p.Bits() > 0 {
			k.Tests |= uint16(test)
			*mask, *value = prefixWords(p)
		}
	}
	prefix(r.Src, classifyWeirTestWEIR_TEST_SRC, &k.SrcMask, &k.Src)
	prefix(r.Dst, classifyWeirTestWEIR_TEST_DST, &k.DstMask, &k.Dst)
	k.MetaMask, k.MetaValue = uint64(r.Mark.Mask), uint64(r.Mark.Value)
	if r.Priority.Given {
		k.MetaMask |= 0xffffffff << 32
		k.MetaValue |= uint64(r.Priority.Value) << 32
	}
	if k.MetaMask != 0 {
		k.Tests |= uint16(classifyWeirTestWEIR_TEST_META)
	}
	return k
}

// prefixWords are the prefix's mask and address in the order of a packet's bytes.
func prefixWords(p netip.Prefix) (mask, value [2]uint64) {
	var m, v [16]byte
	copy(v[:], p.Addr().AsSlice())
	for bit := range p.Bits() {
		m[bit/8] |= 0x80 >> (bit % 8)
	}
	for i := range mask {
		mask[i], value[i] = binary.NativeEndian.Uint64(m[i*8:]), binary.NativeEndian.Uint64(v[i*8:])
	}
	return mask, value
}
