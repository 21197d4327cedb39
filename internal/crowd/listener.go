// SPDX-License-Identifier: Apache-2.0

package crowd

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Limits are the most connections of a Listener that are open at once.
type Limits struct {
	Unknown int // on which no party has shown who it is
	Each    int // of one party that has; 0 = as many as of all
	All     int // of all parties that have
}

// Listener is a listener that bounds how many connections are open.
type Listener struct {
	net.Listener
	limits Limits
	// Say, if it is set, is told from time to time how many connections had to make room, and
	// whose the last of them was.
	Say func(connections int, last string)

	mu             sync.Mutex
	number         uint64
	silent, spoken pool // strangers
	known          pool
	lines          Lines
	users          func(net.Conn) (party string, err error)
}

// Listen returns a Listener around one that accepts. Strangers are counted by their address.
// Of a TCP port the kernel hands a connection over once the client has said something: a flood
// of connections that say nothing pushes out no client whose first packet is on its way.
func Listen(ln net.Listener, most Limits) *Listener {
	deferAccept(ln)
	half := max(1, most.Unknown/2)
	return &Listener{Listener: ln, limits: most, silent: pool{all: half}, spoken: pool{all: half}, known: pool{each: most.Each, all: most.All}}
}

// deferAccept has the kernel keep a connection to itself for some seconds, until something has
// come on it. Where that cannot be, Accept returns connections at once.
func deferAccept(ln net.Listener) {
	port, ok := ln.(*net.TCPListener)
	if !ok {
		return
	}
	if raw, err := port.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, int(headerTimeout/time.Second))
		})
	}
}

// ListenUsers returns a Listener whose parties are known as soon as they connect. Of a party
// with too many connections the oldest makes room for the newest.
func ListenUsers(ln net.Listener, most Limits, party func(net.Conn) (string, error)) *Listener {
	l := Listen(ln, most)
	l.users = party
	return l
}

// Conn is a connection of a Listener.
type Conn struct {
	net.Conn
	of     *Listener
	number uint64 // in the order in which connections came
	talks  atomic.Bool

	// These are the Listener's to change.
	party         string
	known, closed bool
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &Conn{Conn: conn, of: l, party: Share(conn.RemoteAddr())}
		if l.users != nil {
			if c.party, err = l.users(conn); err != nil {
				_ = conn.Close() // the process at the other end has gone
				continue
			}
			c.known = true
		}
		l.enter(c)
		return c, nil
	}
}

// enter notes a connection, and closes the one that makes room for it.
func (l *Listener) enter(c *Conn) {
	l.mu.Lock()
	l.number++
	c.number = l.number
	p := &l.silent
	if c.known {
		p = &l.known
	}
	out := p.add(c)
	l.mu.Unlock()
	l.expel(out)
}

// expel closes a connection that has to make room, nil = none has.
func (l *Listener) expel(c *Conn) {
	if c == nil {
		return
	}
	_ = c.Close() // of a stranger
	if l.Say != nil {
		if omitted, due := l.lines.Due(time.Now()); due {
			l.Say(omitted+1, c.party)
		}
	}
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.talks.Swap(true) {
		c.of.speak(c)
	}
	return n, err
}

// speak notes that something has come on a connection.
func (l *Listener) speak(c *Conn) {
	l.mu.Lock()
	var out *Conn
	if !c.closed && !c.known {
		l.silent.remove(c)
		out = l.spoken.add(c)
	}
	l.mu.Unlock()
	l.expel(out)
}

// Admit notes whose a connection is: it makes no room for strangers from now on. The error
// says that the party, or all together, have as many connections as they may.
func (c *Conn) Admit(party string) error {
	l := c.of
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.closed:
		return net.ErrClosed
	case c.known:
		return nil
	case l.known.each > 0 && len(l.known.parties[party]) >= l.known.each:
		return fmt.Errorf("%s has %d connections open here already", party, l.known.each)
	case l.known.n >= l.known.all:
		return fmt.Errorf("%d connections of others are open here already", l.known.all)
	}
	l.silent.remove(c)
	l.spoken.remove(c)
	c.party, c.known = party, true
	l.known.add(c)
	return nil
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	l := c.of
	l.mu.Lock()
	if !c.closed {
		c.closed = true
		l.silent.remove(c)
		l.spoken.remove(c)
		l.known.remove(c)
	}
	l.mu.Unlock()
	return c.Conn.Close()
}

// NetConn returns the connection below, as tls.Conn does.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Open returns how many connections are open: of strangers and of known parties.
func (l *Listener) Open() (strangers, known int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.silent.n + l.spoken.n, l.known.n
}

// Of returns how many connections of a known party are open.
func (l *Listener) Of(party string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.known.parties[party])
}

// Share returns the party that an address counts as: the address without its port, and of
// IPv6 the network of 64 bits, all of whose addresses one host may have.
func Share(at net.Addr) string {
	if at == nil {
		return ""
	}
	return ShareOf(at.String())
}

// ShareOf is Share of an address as a text, with its port.
func ShareOf(address string) string {
	port, err := netip.ParseAddrPort(address)
	if err != nil {
		return address
	}
	ip := port.Addr().Unmap().WithZone("")
	if ip.Is6() {
		prefix, _ := ip.Prefix(64) // of an IPv6 address, which has as many bits
		return prefix.String()
	}
	return ip.String()
}
