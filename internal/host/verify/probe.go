// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/base/nsthread"
)

// probe is a little traffic out of a workload's namespace: datagrams, or attempts to connect.
type probe struct {
	to      netip.AddrPort
	tcp     bool
	sockets []int
	sent    int
}

const (
	datagrams = 40
	attempts  = 20
	between   = 2 * time.Millisecond
)

// errNoRoute says that a namespace has no way to an address by an interface.
var errNoRoute = errors.New("no route")

// open makes the sockets of a probe in the namespace at path, bound to an interface.
func open(path, device string, to netip.AddrPort, tcp bool) (*probe, error) {
	p := &probe{to: to, tcp: tcp}
	kind, n := unix.SOCK_DGRAM, 1
	if tcp {
		kind, n = unix.SOCK_STREAM, attempts
	}
	family := unix.AF_INET
	if to.Addr().Is6() {
		family = unix.AF_INET6
	}
	err := nsthread.InPath(path, func() error {
		for range n {
			s, err := unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			p.sockets = append(p.sockets, s)
			if err := unix.BindToDevice(s, device); err != nil {
				return fmt.Errorf("bind to %s: %w", device, err)
			}
		}
		return nil
	})
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *probe) close() {
	for _, s := range p.sockets {
		_ = unix.Close(s)
	}
}

func (p *probe) address() unix.Sockaddr {
	if p.to.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(p.to.Port()), Addr: p.to.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(p.to.Port()), Addr: p.to.Addr().As16()}
}

// send sends it. It waits for the first packet, for which addresses are asked for.
func (p *probe) send() error {
	if p.tcp {
		for _, s := range p.sockets {
			if err := noRoute(unix.Connect(s, p.address())); err != nil {
				return err
			}
			p.sent++
			time.Sleep(between)
		}
		return nil
	}
	if err := noRoute(unix.Connect(p.sockets[0], p.address())); err != nil {
		return err
	}
	payload := make([]byte, 400)
	copy(payload, "weir verify")
	for range datagrams {
		if _, err := unix.Write(p.sockets[0], payload); err == nil { // else an answer refused the one before
			p.sent++
		}
		time.Sleep(between)
	}
	return nil
}

// noRoute tells what keeps a socket from sending at all from what is no matter here.
func noRoute(err error) error {
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EADDRNOTAVAIL), errors.Is(err, unix.EACCES):
		return errNoRoute
	case errors.Is(err, unix.EINPROGRESS):
		return nil
	}
	return err
}

// got returns how many answers have come in: datagrams, or refused and taken connections.
func (p *probe) got() (n int) {
	if !p.tcp {
		buffer := make([]byte, 2048)
		for {
			if _, err := unix.Read(p.sockets[0], buffer); errors.Is(err, unix.ECONNREFUSED) {
				continue
			} else if err != nil {
				return n
			}
			n++
		}
	}
	for _, s := range p.sockets {
		if code, err := unix.GetsockoptInt(s, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && code == int(unix.ECONNREFUSED) {
			n++
		} else if _, err := unix.Getpeername(s); err == nil {
			n++
		}
	}
	return n
}
