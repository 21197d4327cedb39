// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"encoding/binary"
	"net"

	"golang.org/x/sys/unix"
)

// frame is an Ethernet frame.
type frame []byte

const (
	macBytes   = 6
	arpRequest = 1
	arpReply   = 2

	icmpv6                = 58
	neighborAdvertisement = 136
	override              = 0x20 // flag: replace what is known
	targetLinkAddress     = 2    // option
	hops                  = 255  // fewer would mean that a router has passed it on
	headerBytes           = 40   // of IPv6
)

var (
	broadcast    = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	allNodes     = net.ParseIP("ff02::1")
	allNodesLink = net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}
)

func ethernet(to, from net.HardwareAddr, protocol uint16) frame {
	f := append(append(frame{}, to...), from...)
	return binary.BigEndian.AppendUint16(f, protocol)
}

// arp returns a gratuitous ARP packet: sender and target are the same.
func arp(mac net.HardwareAddr, ip net.IP, operation uint16) frame {
	f := ethernet(broadcast, mac, unix.ETH_P_ARP)
	f = append(f, 0, 1, 8, 0, macBytes, net.IPv4len) // Ethernet and IPv4
	f = binary.BigEndian.AppendUint16(f, operation)
	f = append(append(f, mac...), ip...)
	target := make(net.HardwareAddr, macBytes)
	if operation == arpReply {
		target = mac
	}
	return append(append(f, target...), ip...)
}

// advertisement returns an unsolicited neighbour advertisement to all nodes.
func advertisement(mac net.HardwareAddr, ip net.IP) frame {
	body := []byte{neighborAdvertisement, 0, 0, 0, override, 0, 0, 0}
	body = append(body, ip.To16()...)
	body = append(append(body, targetLinkAddress, 1), mac...)
	header := []byte{6 << 4, 0, 0, 0}
	header = binary.BigEndian.AppendUint16(header, uint16(len(body)))
	header = append(header, icmpv6, hops)
	header = append(append(header, ip.To16()...), allNodes...)
	binary.BigEndian.PutUint16(body[2:], checksum(header[headerBytes-2*net.IPv6len:], body))
	return append(append(ethernet(allNodesLink, mac, unix.ETH_P_IPV6), header...), body...)
}

// checksum returns the checksum of ICMPv6 over its addresses and itself (RFC 8200, 8.1).
func checksum(addresses, body []byte) uint16 {
	sum := uint32(len(body)) + icmpv6
	for _, part := range [][]byte{addresses, body} {
		for i := 0; i+1 < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
