// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"encoding/binary"
	"net"
	"slices"

	"golang.org/x/sys/unix"
)

// packetWays are sockets that write headers themselves.
var packetWays = []way{
	{name: "AF_PACKET", kinds: everyKind, how: "a packet socket with the mark and the HTB class of another workload", end: charged,
		open: byFrames(udpFrame, forged)},
	{name: "AF_PACKET at the link", kinds: []kind{onHost}, how: "a packet socket at the link itself", end: charged,
		open: atUplink(byFrames(udpFrame, nil))},
	{name: "AF_PACKET into lo", kinds: []kind{onHost}, how: "a packet socket at lo, from which the host forwards", end: charged,
		open: byFramesAt("lo", udpFrame)},
	{name: "AF_PACKET into lo inside", kinds: []kind{onMacvlan}, how: "the same at the lo of its own namespace, which forwards as the host does", end: charged,
		setup: func(x *attack) error {
			return x.do("ip link set lo up", "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.lo.rp_filter=0")
		}, open: byFramesAt("lo", udpFrame)},
	{name: "AF_PACKET into an IFB", kinds: []kind{onHost}, how: "a packet socket at the IFB of a link's ingress or of a zone, with another workload's mark", end: impossible,
		elsewhere: "TestSocketsSendNothingIntoAnIFB"},
	{name: "PACKET_QDISC_BYPASS", kinds: []kind{onPort}, how: "a packet socket that passes the qdisc of its own device", end: charged,
		open: byFrames(udpFrame, bypass)},
	{name: "PACKET_QDISC_BYPASS at the link", kinds: withoutPort, how: "a packet socket that passes the qdisc of the link, or of a macvlan", end: impossible,
		open: atUplink(byFrames(udpFrame, bypass))},
	{name: "AF_XDP", kinds: []kind{onPort}, how: "a ring that passes the qdisc of its own device", end: charged, open: byXDP},
	{name: "AF_XDP at the link", kinds: withoutPort, how: "a ring that passes the qdisc of the link, or of a macvlan", end: impossible, open: atUplink(byXDP)},
	{name: "raw IP", kinds: everyKind, how: "an IPPROTO_RAW socket", end: charged, open: byRaw},
	{name: "an echo with a forged source", kinds: everyKind, how: "an echo request to the host, or to itself, as if from the server, which the kernel then answers", end: charged,
		open: byEcho},
	{name: "a reset to a forged source", kinds: everyKind, how: "the same, by requests of connections to a closed port, which the kernel refuses", end: charged, open: byReset},
	{name: "fragments", kinds: everyKind, how: "datagrams in fragments", end: charged, open: byFrames(fragment, nil)},
	{name: "extension headers", kinds: everyKind, how: "IPv6 with four extension headers", end: charged, open: byFrames(extended, nil)},
	{name: "QinQ", kinds: everyKind, how: "frames with two VLAN tags", end: charged, open: byFrames(tagged, nil)},
	{name: "raw ethertype", kinds: everyKind, how: "frames of a protocol that is none", end: charged, open: byFrames(unknown, nil)},
	{name: "broadcast", kinds: []kind{onPort}, how: "marked frames to everybody", end: charged, open: byFrames(to(everybody), forged)},
	{name: "multicast", kinds: []kind{onPort}, how: "the same to a group", end: charged, open: byFrames(to(aGroup), forged)},
	{name: "unknown unicast", kinds: []kind{onPort}, how: "the same to an address that no bridge knows", end: charged, open: byFrames(to(noOne), forged)},
	{name: "broadcast through a bridge", kinds: withoutPort, how: "marked frames to everybody, of which the bridge above the link makes copies without a socket", end: charged,
		open: byFrames(to(everybody), forged)},
	{name: "multicast through a bridge", kinds: withoutPort, how: "the same to a group", end: charged, open: byFrames(to(aGroup), forged)},
	{name: "unknown unicast through a bridge", kinds: withoutPort, how: "the same to an address that the bridge does not know", end: charged, open: byFrames(to(noOne), forged)},
	{name: "forged addresses", kinds: everyKind, how: "frames with the addresses of another workload", end: charged,
		open: byFrames(func(x *attack) []byte {
			return datagram(workloadAt(int(x.From.To4()[1])-88, 1), endpoint{x.To, x.ToMAC})
		}, nil)},
}

// forged is the mark and the HTB class of another workload.
func forged(x *attack, fd int) error {
	return firstOf(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(x.mark())),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, weirMajor<<16|x.Victim))
}

var (
	everybody = net.HardwareAddr{255, 255, 255, 255, 255, 255}
	aGroup    = net.HardwareAddr{1, 0, 0x5e, 1, 2, 3}
	noOne     = net.HardwareAddr{2, 9, 9, 9, 9, 9}

	withoutPort = []kind{onHost, onMacvlan}
)

// firstOf returns the first error.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func bypass(_ *attack, fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1)
}

// atUplink has a way use the link itself, where the workload sees it.
func atUplink(open func(x *attack) (send, error)) func(x *attack) (send, error) {
	return func(x *attack) (send, error) {
		x.Device = cmp.Or(x.Uplink, x.Device)
		return open(x)
	}
}

// byFrames sends frames by a packet socket with an option.
func byFrames(frame func(x *attack) []byte, option func(x *attack, fd int) error) func(x *attack) (send, error) {
	return func(x *attack) (send, error) {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK, 0)
		if err == nil && option != nil {
			err = option(x, fd)
		}
		if err != nil {
			return nil, err
		}
		dev, err := net.InterfaceByName(x.Device)
		if err != nil {
			return nil, err
		}
		packet, at := frame(x), &unix.SockaddrLinklayer{Ifindex: dev.Index}
		return func(uint64) error { return unix.Sendto(fd, packet, 0, at) }, nil
	}
}

// byFramesAt sends frames at a device that is not the workload's.
func byFramesAt(device string, frame func(x *attack) []byte) func(x *attack) (send, error) {
	return func(x *attack) (send, error) {
		x.Device = device
		x.ToMAC, x.FromMAC = make(net.HardwareAddr, 6), make(net.HardwareAddr, 6)
		x.From = net.IPv4(10, 99, 0, 2) // no address of the host, which it would not take from lo
		return byFrames(frame, nil)(x)
	}
}

func udpFrame(x *attack) []byte {
	return datagram(endpoint{x.From.To4(), x.FromMAC}, endpoint{x.To.To4(), x.ToMAC})
}

func to(group net.HardwareAddr) func(x *attack) []byte {
	return func(x *attack) []byte {
		f := udpFrame(x)
		copy(f, group)
		return f
	}
}

// unknown has an ethertype for local experiments.
func unknown(x *attack) []byte {
	f := udpFrame(x)
	binary.BigEndian.PutUint16(f[12:], 0x88b5)
	return f
}

// tagged has a tag of the provider and one of the customer.
func tagged(x *attack) []byte {
	f := udpFrame(x)
	return slices.Insert(f, 12, 0x88, 0xa8, 0, 7, 0x81, 0, 0, 9)
}

// fragment is the second part of a datagram, without ports.
func fragment(x *attack) []byte {
	f := udpFrame(x)
	ip := f[14:34]
	binary.BigEndian.PutUint16(ip[6:], 100)
	binary.BigEndian.PutUint16(ip[10:], 0)
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	return f
}

// extended is an IPv6 packet with hop-by-hop, destination, routing and destination options
// before UDP.
func extended(x *attack) []byte {
	from, to := []byte(endpoint{x.From, x.FromMAC}.ipv6()), []byte(endpoint{x.To, x.ToMAC}.ipv6())
	f := slices.Concat([]byte(x.ToMAC), x.FromMAC, []byte{0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 0, 64}, from, to)
	chain := []byte{unix.IPPROTO_HOPOPTS, unix.IPPROTO_DSTOPTS, unix.IPPROTO_ROUTING, unix.IPPROTO_DSTOPTS, unix.IPPROTO_UDP}
	f[20] = chain[0]
	for i, next := range chain[1:] {
		header := []byte{next, 0, 1, 4, 0, 0, 0, 0} // PadN of four bytes
		if chain[i] == unix.IPPROTO_ROUTING {
			header = []byte{next, 0, 4, 0, 0, 0, 0, 0} // of type 4, no segment left
		}
		f = append(f, header...)
	}
	f = binary.BigEndian.AppendUint16(f, udpPort)
	f = binary.BigEndian.AppendUint16(f, udpPort)
	f = append(f, make([]byte, 4+payload)...)
	binary.BigEndian.PutUint16(f[18:], uint16(len(f)-54))
	return f
}

func checksum(header []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	sum = sum>>16 + sum&0xffff
	return ^uint16(sum + sum>>16)
}

// ipv4Of returns an IPv4 packet from another address to the server.
func ipv4Of(x *attack, from net.IP) []byte {
	return datagram(endpoint{from, x.FromMAC}, endpoint{x.To.To4(), x.ToMAC})[14:]
}

// byEcho sends echo requests in the server's name to the host, or to the workload's own address
// where it has none of its own.
func byEcho(x *attack) (send, error) {
	fd, to, err := towardsKernel(x)
	echo := append([]byte{8, 0, 0, 0, 0, 7, 0, 1}, make([]byte, payload)...)
	binary.BigEndian.PutUint16(echo[2:], checksum(echo))
	packet := forgedIPv4(x, to.Addr, unix.IPPROTO_ICMP, echo)
	return func(uint64) error { return unix.Sendto(fd, packet, 0, to) }, err
}

// byReset asks for connections to a closed port in the server's name, where byEcho asks for an
// echo: some at once, since the answer has no payload.
func byReset(x *attack) (send, error) {
	const atOnce = 32
	fd, to, err := towardsKernel(x)
	packet := forgedRequest(x, to.Addr)
	return func(uint64) error {
		for range atOnce {
			if err := unix.Sendto(fd, packet, 0, to); err != nil {
				return err
			}
		}
		return nil
	}, err
}

// forgedRequest returns a request of a connection in the server's name.
func forgedRequest(x *attack, to [4]byte) []byte {
	const flagSyn = 2
	segment := []byte{0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 5 << 4, flagSyn, 1, 0, 0, 0, 0, 0}
	pseudo := slices.Concat(x.To.To4(), to[:], []byte{0, unix.IPPROTO_TCP, 0, byte(len(segment))})
	binary.BigEndian.PutUint16(segment[16:], checksum(append(pseudo, segment...)))
	return forgedIPv4(x, to, unix.IPPROTO_TCP, segment)
}

// towardsKernel returns a raw socket, and the address of the kernel that is to answer: the host's,
// of a workload with a port; else the workload's own.
func towardsKernel(x *attack) (fd int, to *unix.SockaddrInet4, err error) {
	at := x.From.To4()
	if x.Kind == onPort {
		at = hostIn(int(at[1]) - 88).ip.To4()
	}
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_NONBLOCK, unix.IPPROTO_RAW)
	return fd, &unix.SockaddrInet4{Addr: [4]byte(at)}, err
}

// forgedIPv4 returns a packet in the server's name.
func forgedIPv4(x *attack, to [4]byte, protocol byte, content []byte) []byte {
	packet := slices.Concat([]byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0}, x.To.To4(), to[:], content)
	binary.BigEndian.PutUint16(packet[2:], uint16(len(packet)))
	return packet
}

// byRaw sends packets with their IP header.
func byRaw(x *attack) (send, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_NONBLOCK, unix.IPPROTO_RAW)
	packet, at := ipv4Of(x, x.From.To4()), &unix.SockaddrInet4{Addr: [4]byte(x.To.To4())}
	return func(uint64) error { return unix.Sendto(fd, packet, 0, at) }, err
}
