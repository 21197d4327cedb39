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

// ConnLimits are the most connections of a Listener that are open at once.
type ConnLimits struct {
	Unknown int // on which no party has shown who it is; those that have Asked have half as many beside
	Each    int // of one party that has; 0 = as many as of all
	All     int // of all parties of one class that have
}

// Listener is a listener that bounds how many connections are open.
type Listener struct {
	net.Listener
	limits ConnLimits
	// Say, if it is set, is told from time to time how many connections had to make room, and
	// whose the last of them was.
	Say func(connections int, last string)

	mu                    sync.Mutex
	number                uint64
	silent, spoken, asked pool             // strangers
	known                 map[string]*pool // by class
	lines                 Lines
	users                 func(net.Conn) (party string, err error)
}

// Listen returns a Listener around one that accepts. Strangers are counted by their address.
// Of a TCP port the kernel hands a connection over once the client has said something: a flood
// of connections that say nothing pushes out no client whose first packet is on its way.
func Listen(ln net.Listener, most ConnLimits) *Listener {
	deferAccept(ln)
	half := max(1, most.Unknown/2)
	return &Listener{Listener: ln, limits: most, silent: pool{all: half}, spoken: pool{all: half}, asked: pool{all: half}, known: map[string]*pool{}}
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
func ListenUsers(ln net.Listener, most ConnLimits, party func(net.Conn) (string, error)) *Listener {
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
	waits  atomic.Int64 // since when the server waits for what is to come on it, in ns; 0 = it does not

	// These are the Listener's to change.
	party string
	in    *pool // nil = it is closed
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &Conn{Conn: conn, of: l, party: Share(conn.RemoteAddr())}
		if l.users == nil {
			l.move(c, &l.silent)
			return c, nil
		}
		if c.party, err = l.users(conn); err != nil {
			_ = conn.Close() // the process at the other end has gone
			continue
		}
		l.move(c, l.class(""))
		return c, nil
	}
}

// move puts a connection into a pool, and closes the one that makes room for it. A connection
// that was closed meanwhile, or whose party is known, stays where it is.
func (l *Listener) move(c *Conn, to *pool) {
	l.mu.Lock()
	var out *Conn
	if c.number == 0 || c.in != nil && l.isStranger(c) {
		out = l.put(c, to)
	}
	l.mu.Unlock()
	l.expel(out)
}

// put takes a connection out of its pool and into another one. The lock is held.
func (l *Listener) put(c *Conn, to *pool) (out *Conn) {
	if c.number == 0 {
		l.number++
		c.number = l.number
	}
	if c.in != nil {
		c.in.remove(c)
	}
	c.in = to
	return to.add(c)
}

// isStranger reports whether no party has shown that an open connection is its own. The lock
// is held.
func (l *Listener) isStranger(c *Conn) bool {
	return c.in == &l.silent || c.in == &l.spoken || c.in == &l.asked
}

// class returns the pool of a class of known parties.
func (l *Listener) class(name string) *pool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.known[name]
	if p == nil {
		p = &pool{each: l.limits.Each, all: l.limits.All}
		l.known[name] = p
	}
	return p
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
	c.waits.Store(time.Now().UnixNano())
	n, err := c.Conn.Read(b)
	c.waits.Store(0)
	if n > 0 && !c.talks.Swap(true) {
		c.of.move(c, &c.of.spoken)
	}
	return n, err
}

// Asked notes that a stranger's request is here as a whole. From now on the connection makes
// room for others of that kind alone: they cost as much to make as to answer.
func (c *Conn) Asked() { c.of.move(c, &c.of.asked) }

// Admit notes whose a connection is: it makes no room for strangers from now on, nor for a
// party of another class, such as users with fewer rights. Where all places of the class are
// taken, the party with the most of them makes room, if it has more than the new one would.
// The error says that the party has as many connections as it may.
func (c *Conn) Admit(class, party string) error {
	to := c.of.class(class)
	out, err := c.admit(to, party)
	c.of.expel(out)
	return err
}

func (c *Conn) admit(to *pool, party string) (out *Conn, err error) {
	l := c.of
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := len(to.parties[party])
	switch {
	case c.in == nil:
		return nil, net.ErrClosed
	case !l.isStranger(c):
		return nil, nil
	case to.each > 0 && mine >= to.each:
		return nil, fmt.Errorf("%s has %d connections open here already", party, to.each)
	case to.n >= to.all && to.most() <= mine+1:
		return nil, fmt.Errorf("%d connections of others are open here already", to.all)
	}
	c.in.remove(c)
	c.in, c.party = nil, party
	return l.put(c, to), nil
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	l := c.of
	l.mu.Lock()
	if c.in != nil {
		c.in.remove(c)
		c.in = nil
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
	for _, p := range l.known {
		known += p.n
	}
	return l.silent.n + l.spoken.n + l.asked.n, known
}

// Of returns how many connections of a known party are open.
func (l *Listener) Of(party string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.known {
		n += len(p.parties[party])
	}
	return n
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
