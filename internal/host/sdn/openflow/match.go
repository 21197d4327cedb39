// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// FieldID names a field of a packet: OXM class and field (7.2.3.2), without the
// bit that says whether a mask follows.
type FieldID uint32

// Classes of fields.
const (
	classNXM1  = 0x0001 // Open vSwitch's registers
	classBasic = 0x8000 // those of the specification
)

func basic(field uint32) FieldID { return FieldID(classBasic<<16 | field<<9) }

// The fields that Weir matches.
var (
	FieldInPort  = basic(0)
	FieldEthDst  = basic(3)
	FieldEthSrc  = basic(4)
	FieldEthType = basic(5)
	FieldVLAN    = basic(6) // the tag's 12 bits and VLANPresent
	FieldDSCP    = basic(8)
	FieldIPProto = basic(10)
	FieldIPv4Src = basic(11)
	FieldIPv4Dst = basic(12)
	FieldTCPSrc  = basic(13)
	FieldTCPDst  = basic(14)
	FieldUDPSrc  = basic(15)
	FieldUDPDst  = basic(16)
	FieldSCTPSrc = basic(17)
	FieldSCTPDst = basic(18)
	FieldIPv6Src = basic(26)
	FieldIPv6Dst = basic(27)
)

// Register returns the field of Open vSwitch's 32-bit register n, 0 to 15. All are 0 when
// a packet enters the bridge.
func Register(n uint32) FieldID { return FieldID(classNXM1<<16 | n<<9) }

// VLANPresent is set in FieldVLAN of every packet that has a tag.
const VLANPresent = 0x1000

// fieldNames are ovs-ofctl's.
var fieldNames = map[FieldID]string{
	FieldInPort: "in_port", FieldEthDst: "dl_dst", FieldEthSrc: "dl_src", FieldEthType: "eth_type",
	FieldVLAN: "vlan_tci", FieldDSCP: "ip_dscp", FieldIPProto: "nw_proto",
	FieldIPv4Src: "nw_src", FieldIPv4Dst: "nw_dst", FieldIPv6Src: "ipv6_src", FieldIPv6Dst: "ipv6_dst",
	FieldTCPSrc: "tcp_src", FieldTCPDst: "tcp_dst", FieldUDPSrc: "udp_src", FieldUDPDst: "udp_dst",
	FieldSCTPSrc: "sctp_src", FieldSCTPDst: "sctp_dst",
}

// Field is one condition: the packet's field, under the mask, is Value.
type Field struct {
	ID    FieldID
	Value []byte
	Mask  []byte // as long as Value; nil = all bits
}

func field16(id FieldID, v uint16) Field {
	return Field{ID: id, Value: binary.BigEndian.AppendUint16(nil, v)}
}

func field32(id FieldID, v uint32) Field {
	return Field{ID: id, Value: binary.BigEndian.AppendUint32(nil, v)}
}

// InPort matches packets that enter by a port.
func InPort(port uint32) Field { return field32(FieldInPort, port) }

// EthType matches an Ethernet type; fields of a protocol need it (7.2.3.8).
func EthType(v uint16) Field { return field16(FieldEthType, v) }

// IPProto matches an IP protocol's number.
func IPProto(v uint8) Field { return Field{ID: FieldIPProto, Value: []byte{v}} }

// DSCP matches the six bits of the differentiated services code point.
func DSCP(v uint8) Field { return Field{ID: FieldDSCP, Value: []byte{v}} }

// VLAN matches packets with a tag of that number.
func VLAN(v uint16) Field { return field16(FieldVLAN, v|VLANPresent) }

// Port matches a port of a transport protocol, under a mask.
func Port(id FieldID, value, mask uint16) Field {
	return Field{ID: id, Value: binary.BigEndian.AppendUint16(nil, value&mask), Mask: binary.BigEndian.AppendUint16(nil, mask)}
}

// Ethernet matches an address.
func Ethernet(id FieldID, address net.HardwareAddr) Field {
	return Field{ID: id, Value: slices.Clone(address)}
}

// Prefix matches addresses that begin with a prefix; id fits its family.
func Prefix(id FieldID, p netip.Prefix) Field {
	p = p.Masked()
	value := p.Addr().AsSlice()
	return Field{ID: id, Value: value, Mask: net.CIDRMask(p.Bits(), 8*len(value))}
}

// Reg matches a whole register.
func Reg(n, v uint32) Field { return field32(Register(n), v) }

// Match is a list of conditions, all of which must hold.
type Match []Field

// Canonical returns the match in one form: fields in the order of their numbers, bits
// outside of masks 0, no field that says nothing, no mask that says nothing.
func (m Match) Canonical() Match {
	var out Match
	for _, f := range m {
		f.Value = slices.Clone(f.Value)
		if f.Mask != nil {
			for i := range f.Value {
				f.Value[i] &= f.Mask[i]
			}
			if all(f.Mask, 0) {
				continue
			}
			if all(f.Mask, 0xff) {
				f.Mask = nil
			}
		}
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b Field) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func all(list []byte, v byte) bool {
	return !slices.ContainsFunc(list, func(b byte) bool { return b != v })
}

// Overlaps reports whether a packet may fit both; both are canonical.
func (m Match) Overlaps(other Match) bool {
	for _, f := range m {
		g, ok := other.field(f.ID)
		if !ok || len(g.Value) != len(f.Value) {
			continue
		}
		for i := range f.Value {
			if both := f.maskAt(i) & g.maskAt(i); f.Value[i]&both != g.Value[i]&both {
				return false
			}
		}
	}
	return true
}

// Covers reports whether every packet that fits other fits m too; both are
// canonical.
func (m Match) Covers(other Match) bool {
	for _, f := range m {
		g, ok := other.field(f.ID)
		if !ok || len(g.Value) != len(f.Value) {
			return false
		}
		for i := range f.Value {
			if mask := f.maskAt(i); mask&^g.maskAt(i) != 0 || f.Value[i] != g.Value[i]&mask {
				return false
			}
		}
	}
	return true
}

func (m Match) field(id FieldID) (Field, bool) {
	i := slices.IndexFunc(m, func(f Field) bool { return f.ID == id })
	if i < 0 {
		return Field{}, false
	}
	return m[i], true
}

func (f Field) maskAt(i int) byte {
	if f.Mask == nil {
		return 0xff
	}
	return f.Mask[i]
}

// String returns the match in ovs-ofctl's words, as far as there are any.
func (m Match) String() string {
	if len(m) == 0 {
		return "any"
	}
	short, shortened := m.protocol()
	var words []string
	for _, f := range m {
		if !slices.Contains(shortened, f.ID) {
			words = append(words, f.String())
		} else if short != "" {
			words, short = append(words, short), ""
		}
	}
	return strings.Join(words, ",")
}

// protocols have a word of their own, with a 6 behind it for IPv6.
var protocols = map[byte]string{6: "tcp", 17: "udp", 132: "sctp"}

// protocol returns the one word for Ethernet type and IP protocol, and the fields that it
// stands for.
func (m Match) protocol() (string, []FieldID) {
	ethType, _ := m.field(FieldEthType)
	word, suffix := "ip", ""
	switch string(ethType.Value) {
	case "\x08\x00":
	case "\x86\xdd":
		word, suffix = "ipv6", "6"
	default:
		return "", nil
	}
	if proto, ok := m.field(FieldIPProto); ok && len(proto.Value) == 1 && protocols[proto.Value[0]] != "" {
		return protocols[proto.Value[0]] + suffix, []FieldID{FieldEthType, FieldIPProto}
	}
	return word, []FieldID{FieldEthType}
}

// String returns "name=value" or "name=value/mask".
func (f Field) String() string {
	name, known := fieldNames[f.ID]
	if !known && f.ID>>16 == classNXM1 {
		name = fmt.Sprintf("reg%d", f.ID>>9&0x7f)
	} else if !known {
		name = fmt.Sprintf("oxm_%08x", uint32(f.ID))
	}
	text := name + "=" + f.text(f.Value)
	if f.Mask == nil {
		return text
	}
	if f.isAddress() {
		if ones, bits := net.IPMask(f.Mask).Size(); bits > 0 {
			return fmt.Sprintf("%s/%d", text, ones)
		}
	}
	return text + "/" + f.maskText()
}

func (f Field) isAddress() bool {
	switch f.ID {
	case FieldIPv4Src, FieldIPv4Dst, FieldIPv6Src, FieldIPv6Dst:
		return true
	}
	return false
}

func (f Field) maskText() string {
	if f.isAddress() || len(f.Mask) > 4 {
		return f.text(f.Mask)
	}
	return "0x" + hex.EncodeToString(f.Mask)
}

func (f Field) text(value []byte) string {
	switch {
	case f.isAddress():
		if a, ok := netip.AddrFromSlice(value); ok {
			return a.String()
		}
	case len(value) == 6:
		return net.HardwareAddr(value).String()
	case f.ID == FieldEthType || f.ID == FieldVLAN:
		return "0x" + hex.EncodeToString(value)
	case len(value) <= 4:
		var n uint32
		for _, b := range value {
			n = n<<8 | uint32(b)
		}
		return fmt.Sprint(n)
	}
	return "0x" + hex.EncodeToString(value)
}

// encode appends ofp_match (7.2.3.1): its type, its length without padding, the
// fields, padding to eight bytes.
func (m Match) encode(b []byte) []byte {
	start := len(b)
	b = append(b, 0, 1, 0, 0) // OFPMT_OXM
	for _, f := range m {
		b = f.encode(b)
	}
	binary.BigEndian.PutUint16(b[start+2:], uint16(len(b)-start))
	return pad(b, start)
}

func (f Field) encode(b []byte) []byte {
	head := uint32(f.ID) | uint32(len(f.Value)+len(f.Mask))
	if f.Mask != nil {
		head |= 1 << 8
	}
	b = binary.BigEndian.AppendUint32(b, head)
	b = append(b, f.Value...)
	return append(b, f.Mask...)
}

// pad fills b up to a multiple of eight bytes from start.
func pad(b []byte, start int) []byte {
	for (len(b)-start)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

// decodeMatch reads an ofp_match and returns what follows it.
func decodeMatch(b []byte) (Match, []byte, error) {
	if len(b) < 4 {
		return nil, nil, errShort
	}
	kind, length := binary.BigEndian.Uint16(b), int(binary.BigEndian.Uint16(b[2:]))
	whole := (length + 7) / 8 * 8
	if kind != 1 || length < 4 || whole > len(b) {
		return nil, nil, fmt.Errorf("match of type %d and length %d in %d bytes", kind, length, len(b))
	}
	var m Match
	for rest := b[4:length]; len(rest) > 0; {
		var f Field
		var err error
		if f, rest, err = decodeField(rest); err != nil {
			return nil, nil, err
		}
		m = append(m, f)
	}
	return m.Canonical(), b[whole:], nil
}

// decodeField reads one field and returns what follows it.
func decodeField(b []byte) (Field, []byte, error) {
	if len(b) < 4 {
		return Field{}, nil, errShort
	}
	head := binary.BigEndian.Uint32(b)
	size := int(head & 0xff)
	if b = b[4:]; size > len(b) {
		return Field{}, nil, errShort
	}
	f := Field{ID: FieldID(head &^ 0x1ff), Value: bytes.Clone(b[:size])}
	if head&(1<<8) != 0 {
		if size%2 != 0 {
			return Field{}, nil, fmt.Errorf("field %08x with a mask has %d bytes", head, size)
		}
		f.Value, f.Mask = f.Value[:size/2:size/2], f.Value[size/2:]
	}
	return f, b[size:], nil
}
