// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// sniffer reads what a device of the host sends and receives.
type sniffer struct {
	socket int
	out    bool // what leaves by it, else what comes by it
}

// listen opens a sniffer at a device.
func listen(index int, out bool) (sniffer, error) {
	everything := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return sniffer{}, fmt.Errorf("open a packet socket: %w", err)
	}
	_ = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20) // else less fits
	if err := unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: everything, Ifindex: index}); err != nil {
		_ = unix.Close(socket)
		return sniffer{}, fmt.Errorf("listen at device %d: %w", index, err)
	}
	return sniffer{socket, out}, nil
}

func (s sniffer) close() { _ = unix.Close(s.socket) }

// frames returns those frames of the sniffer's direction that match, of what came until now.
func (s sniffer) frames(match func([]byte) bool) (found [][]byte) {
	buffer := make([]byte, 1<<16)
	for begin := time.Now(); time.Since(begin) < time.Second; { // a busy device may never be empty
		n, by, err := unix.Recvfrom(s.socket, buffer, 0)
		if err != nil {
			return found
		}
		at, ok := by.(*unix.SockaddrLinklayer)
		if ok && (at.Pkttype == unix.PACKET_OUTGOING) == s.out && match(buffer[:n]) {
			found = append(found, slices.Clone(buffer[:n]))
		}
	}
	return found
}
