// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/internal/lab/meter"
	"weir/internal/lab/topology"
)

// Sender sends small UDP packets as fast as one thread can, to measure what one
// costs. It makes no system call but sendto, and no garbage.
type Sender struct {
	routes  []route
	next    int // of routes: where the next packet goes
	payload []byte
}

// route is a socket and where it sends to. Each packet takes the next route.
type route struct {
	socket int
	to     unix.RawSockaddrInet4
}

const (
	headers    = 14 + 20 + 8 // of a UDP packet on Ethernet
	sendBuffer = 1 << 29
)

// NewSender sends frames of a size in bytes.
func NewSender(frame int) *Sender { return &Sender{payload: make([]byte, frame-headers)} }

// Add a way for packets: from namespace ns to a workload's server address and
// the given ports, one after the other.
func (s *Sender) Add(ns *topology.NS, workload int, ports []int) error {
	socket := -1
	err := ns.Do(func() (err error) {
		if socket, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		// Packets that wait in the scheduler count against the socket's buffer; a
		// full one would keep packets away from the scheduler that is measured.
		return unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer)
	})
	if err != nil {
		return fmt.Errorf("open a socket in %s: %w", ns.Name, err)
	}
	for _, port := range ports {
		to := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: uint16(port>>8) | uint16(port&0xff)<<8}
		copy(to.Addr[:], topology.ServerAddress(workload).To4())
		s.routes = append(s.routes, route{socket, to})
	}
	return nil
}

// Send sends n packets and returns how long that took.
func (s *Sender) Send(n int) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	next, began := s.next, meter.Now()
	for range n {
		r := &s.routes[next]
		if next++; next == len(s.routes) {
			next = 0
		}
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(r.socket), uintptr(unsafe.Pointer(&s.payload[0])),
			uintptr(len(s.payload)), unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(&r.to)), unix.SizeofSockaddrInet4)
		if errno != 0 && errno != unix.ENOBUFS { // ENOBUFS: the scheduler dropped it
			return 0, fmt.Errorf("send: %w", errno)
		}
	}
	s.next = next
	return meter.Now() - began, nil
}

// SendPaced sends n packets, burst at a time, one burst in each interval. The
// thread sleeps in between, and so does the rest of a Go program on one CPU.
func (s *Sender) SendPaced(n, burst int, every time.Duration) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for at := meter.Now() + every; n > 0; at += every {
		if _, err := s.Send(min(n, burst)); err != nil {
			return err
		}
		n -= burst
		meter.SleepUntil(at)
	}
	return nil
}

// Close the sockets.
func (s *Sender) Close() {
	last := -1
	for _, r := range s.routes {
		if r.socket != last {
			unix.Close(r.socket)
		}
		last = r.socket
	}
	s.routes = nil
}
