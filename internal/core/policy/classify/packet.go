// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"encoding/binary"
	"net/netip"
)

// Packet holds the fields that rules compare: the headers of one packet and the
// kernel's notes beside it. bpf/marking/rules.h reads the same fields from the packet itself,
// and a test holds the two together.
type Packet struct {
	Src, Dst     netip.Addr // invalid if the packet is not IP, or damaged
	Proto        uint8      // IPv6: the first that is no extension header
	Sport, Dport uint16
	Ports        bool // Sport and Dport are known
	DSCP         uint8
	VLAN         uint16 // id in the outermost tag
	Tagged       bool   // there is one
	Fragment     Fragment
	ID           uint32 // of the datagram; fragments only
	Priority     uint32 // skb->priority
	Mark         uint32 // skb->mark
}

// Fragment says which part of a datagram a packet is.
type Fragment uint8

// What a packet can be of its datagram. Ports are in the first fragment only.
const (
	Whole Fragment = iota
	FirstFragment
	LaterFragment
)

// IP reports whether the packet's IP header could be read.
func (p Packet) IP() bool { return p.Src.IsValid() }

// Ethernet types, and how deep headers are followed. The last two are the same in
// bpf/marking/rules.h.
const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	etherVLAN = 0x8100 // 802.1Q
	etherQinQ = 0x88a8 // 802.1ad

	maxTags       = 2
	maxExtensions = 8
)

// DecodeEthernet reads a packet that begins with its Ethernet header. What cannot
// be read is not known: a rule on it does not fit.
func DecodeEthernet(frame []byte) Packet {
	var p Packet
	if len(frame) < 14 {
		return p
	}
	kind, rest := binary.BigEndian.Uint16(frame[12:]), frame[14:]
	for tags := 0; kind == etherVLAN || kind == etherQinQ; tags++ {
		if tags == maxTags || len(rest) < 4 {
			return p
		}
		if tags == 0 {
			p.VLAN, p.Tagged = binary.BigEndian.Uint16(rest)&0xfff, true
		}
		kind, rest = binary.BigEndian.Uint16(rest[2:]), rest[4:]
	}
	switch kind {
	case etherIPv4:
		p.decodeIPv4(rest)
	case etherIPv6:
		p.decodeIPv6(rest)
	}
	return p
}

// DecodeIP reads a packet that begins with its IP header.
func DecodeIP(data []byte) Packet {
	var p Packet
	if len(data) > 0 && data[0]>>4 == 6 {
		p.decodeIPv6(data)
	} else {
		p.decodeIPv4(data)
	}
	return p
}

func (p *Packet) decodeIPv4(data []byte) {
	if len(data) < 20 || data[0]>>4 != 4 || data[0]&15 < 5 {
		return
	}
	p.Src, p.Dst = netip.AddrFrom4([4]byte(data[12:16])), netip.AddrFrom4([4]byte(data[16:20]))
	p.DSCP, p.Proto = data[1]>>2, data[9]
	const more, offset = 0x2000, 0x1fff
	switch part := binary.BigEndian.Uint16(data[6:]); {
	case part&offset != 0:
		p.Fragment = LaterFragment
	case part&more != 0:
		p.Fragment = FirstFragment
	}
	if p.Fragment != Whole {
		p.ID = uint32(binary.BigEndian.Uint16(data[4:]))
	}
	p.decodePorts(data, int(data[0]&15)*4)
}

// Extension headers of IPv6 (RFC 8200 section 4, RFC 4302).
const (
	extHopByHop    = 0
	extRouting     = 43
	extFragment    = 44
	extAuth        = 51
	extDestination = 60
)

func (p *Packet) decodeIPv6(data []byte) {
	if len(data) < 40 || data[0]>>4 != 6 {
		return
	}
	p.Src, p.Dst = netip.AddrFrom16([16]byte(data[8:24])), netip.AddrFrom16([16]byte(data[24:40]))
	p.DSCP, p.Proto = uint8(binary.BigEndian.Uint16(data)>>6)&MaxDSCP, data[6]
	at := 40
	for range maxExtensions {
		var length int
		switch p.Proto {
		case extHopByHop, extRouting, extDestination, extAuth, extFragment:
		default:
			p.decodePorts(data, at)
			return
		}
		if len(data) < at+8 {
			return
		}
		switch next, units := data[at], int(data[at+1]); p.Proto {
		case extFragment:
			length = 8
			// A header of which no fragments come says nothing of those that another
			// one makes.
			part, id := binary.BigEndian.Uint16(data[at+2:]), binary.BigEndian.Uint32(data[at+4:])
			switch {
			case part&^7 != 0:
				p.Fragment, p.ID = LaterFragment, id
			case part&1 != 0:
				p.Fragment, p.ID = FirstFragment, id
			}
			p.Proto = next
			if p.Fragment == LaterFragment {
				return
			}
		case extAuth:
			length, p.Proto = (units+2)*4, next
		default:
			length, p.Proto = (units+1)*8, next
		}
		at += length
	}
}

func (p *Packet) decodePorts(data []byte, at int) {
	if p.Fragment == LaterFragment || !hasPorts(p.Proto) || len(data) < at+4 {
		return
	}
	p.Sport, p.Dport = binary.BigEndian.Uint16(data[at:]), binary.BigEndian.Uint16(data[at+2:])
	p.Ports = true
}
