// SPDX-License-Identifier: Apache-2.0

package marktest

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// senderEnv says how to send, with which mark and which priority, by which device:
// "packet 0x70000 0 up0 TO".
const senderEnv = "WEIR_TEST_SEND"

func join(how []string) string { return strings.Join(how, " ") }

// Sender sends one packet, sets one socket option or passes a socket on, and ends the process, if
// it was started for that.
func Sender() {
	if how, ok := os.LookupEnv(optionEnv); ok {
		setOption(strings.Fields(how))
	}
	if _, ok := os.LookupEnv(passEnv); ok {
		if err := pass(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	how, ok := os.LookupEnv(senderEnv)
	if !ok {
		return
	}
	if err := sendOne(strings.Fields(how)); err != nil {
		fmt.Fprintln(os.Stderr, how+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func sendOne(how []string) error {
	mark, err := strconv.ParseUint(how[1], 0, 32)
	if err != nil {
		return err
	}
	priority, err := strconv.ParseUint(how[2], 0, 32)
	if err != nil {
		return err
	}
	as := chosen{int(mark), int(priority)}
	switch how[0] {
	case "udp":
		return sendUDP(as)
	case "listen":
		return answer(as)
	case "forged":
		return ask(toIP, how[4], how[3])
	case "echo":
		return ask(ownIP, toIP, how[0])
	}
	packet := frame("10.9.9.9", toIP, unix.IPPROTO_UDP, "9c400009 00080000")
	if how[0] == "encapsulated" {
		return sendPacket(as, how[3], "00:00:00:00:00:00", encapsulated(how[4], packet))
	}
	return sendPacket(as, how[3], how[4], packet)
}

// encapsulated is a packet to a hardware address as a neighbour sends it to the host by VXLAN.
func encapsulated(to string, packet []byte) []byte {
	const ports, header = "9c4012b5", "08000000 00000700"
	inside := strings.ReplaceAll(to, ":", "") + "020000000001" + "0800" + hex.EncodeToString(packet)
	length := 8 + 8 + len(inside)/2
	return frame("10.9.9.9", ownIP, unix.IPPROTO_UDP, fmt.Sprintf("%s %04x0000 %s %s", ports, length, header, inside))
}

// chosen is what a sender sets: skb->mark and skb->priority.
type chosen struct{ mark, priority int }

// socket is one whose packets have that.
func socket(domain, kind int, as chosen) (fd int, err error) {
	if fd, err = unix.Socket(domain, kind, 0); err != nil {
		return fd, err
	}
	return fd, errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, as.mark),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, as.priority))
}

func sendUDP(as chosen) error {
	fd, err := socket(unix.AF_INET, unix.SOCK_DGRAM, as)
	if err != nil {
		return err
	}
	return unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte(net.ParseIP(toIP).To4())})
}

// sendPacket sends an IP packet to a hardware address, by a packet socket.
func sendPacket(as chosen, device, to string, packet []byte) error {
	fd, err := socket(unix.AF_PACKET, unix.SOCK_RAW, as)
	if err != nil {
		return err
	}
	dev, err := net.InterfaceByName(device)
	if err != nil {
		return err
	}
	ether, err := hex.DecodeString(strings.ReplaceAll(to, ":", "") + "020000000001" + "0800")
	if err != nil {
		return err
	}
	return unix.Sendto(fd, append(ether, packet...), 0, &unix.SockaddrLinklayer{Ifindex: dev.Index, Protocol: 8})
}

// answer listens, and lets a neighbour on the link begin a connection: what answers is
// not the listening socket, but a request that was made of it.
func answer(as chosen) error {
	fd, err := socket(unix.AF_INET, unix.SOCK_STREAM, as)
	if err != nil {
		return err
	}
	at := &unix.SockaddrInet4{Port: 9, Addr: [4]byte(net.ParseIP(ownIP).To4())}
	dev, noDevice := net.InterfaceByName(Uplink)
	if err := errors.Join(unix.Bind(fd, at), unix.Listen(fd, 1), noDevice); err != nil {
		return err
	}
	const syn = "9c400009 00000001 00000000 5002ffff 00000000"
	return sendPacket(chosen{}, Uplink+"p", dev.HardwareAddr.String(), frame(toIP, ownIP, unix.IPPROTO_TCP, syn))
}

// ask sends a packet in another's name, which the kernel of the receiver answers.
func ask(from, to, what string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
	if err != nil {
		return err
	}
	protocol, content := byte(unix.IPPROTO_TCP), questions[what]
	if what == "echo" {
		protocol = unix.IPPROTO_ICMP
	}
	return unix.Sendto(fd, frame(from, to, protocol, content), 0, &unix.SockaddrInet4{Addr: [4]byte(net.ParseIP(to).To4())})
}

// questions are packets without their IP header. At port 9 of a bed a program listens.
var questions = map[string]string{
	"echo":   "0800f7ff 00000000",
	"closed": "9c400007 00000001 00000000 5002ffff 00000000",
	"syn":    "9c400009 00000001 00000000 5002ffff 00000000",
	"ack":    "9c410009 00000001 00000001 5010ffff 00000000",
}

// frame is an IPv4 packet. That of UDP needs no checksum.
func frame(from, to string, proto byte, payload string) []byte {
	body, err := hex.DecodeString(strings.ReplaceAll(payload, " ", ""))
	if err != nil {
		panic(err)
	}
	packet := []byte{0x45, 0, 0, byte(20 + len(body)), 0, 7, 0, 0, 64, proto, 0, 0}
	packet = append(packet, net.ParseIP(from).To4()...)
	packet = append(packet, net.ParseIP(to).To4()...)
	binary.BigEndian.PutUint16(packet[10:], checksum(packet))
	if proto == unix.IPPROTO_TCP {
		pseudo := append([]byte{0, proto, 0, byte(len(body))}, packet[12:]...)
		binary.BigEndian.PutUint16(body[16:], checksum(append(pseudo, body...)))
	}
	return append(packet, body...)
}

// checksum is that of IP.
func checksum(of []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(of); i += 2 {
		sum += uint32(of[i])<<8 | uint32(of[i+1])
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
