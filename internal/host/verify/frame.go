// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

const ethernetHeader = 14

// toward reports whether a frame has a packet to an address and port in it, inside of a tunnel
// too: in both kinds of headers the ports follow the destination.
func toward(frame []byte, to netip.AddrPort) bool {
	return has(frame, to, len(to.Addr().AsSlice())+2)
}

// from reports whether a frame has a packet from an address and port in it.
func from(frame []byte, by netip.AddrPort) bool {
	return has(frame, by, 2*len(by.Addr().AsSlice()))
}

// has reports whether a frame has an address and, at a distance from its beginning, a port.
func has(frame []byte, at netip.AddrPort, distance int) bool {
	address := at.Addr().AsSlice()
	port := binary.BigEndian.AppendUint16(nil, at.Port())
	for rest := frame; ; {
		i := bytes.Index(rest, address)
		if i < 0 {
			return false
		}
		rest = rest[i:]
		if len(rest) >= distance+2 && bytes.Equal(rest[distance:distance+2], port) {
			return true
		}
		rest = rest[1:]
	}
}

// answer returns the frame that the other end would answer with: the datagram back, or a refusal of
// a connection. It returns nil for a frame that it does not understand, such as one of a tunnel.
func answer(frame []byte) []byte {
	if len(frame) < ethernetHeader {
		return nil
	}
	a := bytes.Clone(frame)
	copy(a[0:6], frame[6:12])
	copy(a[6:12], frame[0:6])
	var ip, header, protocol, address, size int
	switch binary.BigEndian.Uint16(frame[12:]) {
	case 0x0800:
		ip, header, address, size = ethernetHeader, 20, 12, 4
	case 0x86dd:
		ip, header, address, size = ethernetHeader, 40, 8, 16
	default:
		return nil
	}
	if len(a) < ip+header+8 || size == 4 && a[ip] != 0x45 {
		return nil
	}
	if protocol = int(a[ip+9]); size == 16 {
		protocol = int(a[ip+6])
	}
	copy(a[ip+address:], frame[ip+address+size:ip+address+2*size])
	copy(a[ip+address+size:], frame[ip+address:ip+address+size])
	l4 := ip + header
	copy(a[l4:], frame[l4+2:l4+4])
	copy(a[l4+2:], frame[l4:l4+2])
	switch {
	case protocol == 17:
		binary.BigEndian.PutUint16(a[l4+6:], 0)
		sum := checksum(a[ip+address:ip+address+2*size], a[l4:], 17)
		if sum == 0 {
			sum = 0xffff
		}
		binary.BigEndian.PutUint16(a[l4+6:], sum)
	case protocol == 6 && len(a) >= l4+20:
		a = refusal(a[:l4+20], ip, l4, address, size)
	default:
		return nil
	}
	return a
}

// refusal makes a segment with swapped addresses and ports the one that refuses a connection.
func refusal(a []byte, ip, l4, address, size int) []byte {
	first := binary.BigEndian.Uint32(a[l4+4:])
	clear(a[l4+4 : l4+20])
	binary.BigEndian.PutUint32(a[l4+8:], first+1)
	a[l4+12], a[l4+13] = 5<<4, 0x14 // its length in words; RST and ACK
	binary.BigEndian.PutUint16(a[l4+16:], checksum(a[ip+address:ip+address+2*size], a[l4:], 6))
	if size == 16 {
		binary.BigEndian.PutUint16(a[ip+4:], 20)
		return a
	}
	binary.BigEndian.PutUint16(a[ip+2:], 40)
	binary.BigEndian.PutUint16(a[ip+10:], 0)
	binary.BigEndian.PutUint16(a[ip+10:], ^fold(sum(0, a[ip:ip+20])))
	return a
}

// checksum is that of TCP and UDP.
func checksum(addresses, segment []byte, protocol int) uint16 {
	return ^fold(sum(sum(uint32(protocol)+uint32(len(segment)), addresses), segment))
}

func sum(from uint32, data []byte) uint32 {
	for ; len(data) >= 2; data = data[2:] {
		from += uint32(binary.BigEndian.Uint16(data))
	}
	if len(data) == 1 {
		from += uint32(data[0]) << 8
	}
	return from
}

func fold(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
