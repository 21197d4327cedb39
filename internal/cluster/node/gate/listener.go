// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"weir/internal/cluster/pki"
)

// The most connections of other nodes. An honest node has one or two for each copy under
// way.
const (
	ConnectionsEach    = 4 * CopiesEach
	ConnectionsAll     = 2048
	ConnectionsUnknown = 128 // that have not shown a certificate yet
)

// Listener is a listener that bounds how many connections are open, in all and for each
// member. Of the connections that have not shown a member's certificate yet, the oldest
// makes room: a handshake takes some milliseconds, so it is the least likely to be an
// honest one.
type Listener struct {
	net.Listener
	mu      sync.Mutex
	unknown map[*connection]struct{}
	each    map[string]int
	all     int // that belong to a member
}

// NewListener returns a Listener around one that accepts.
func NewListener(ln net.Listener) *Listener {
	return &Listener{Listener: ln, unknown: map[*connection]struct{}{}, each: map[string]int{}}
}

// connection is one of a Listener.
type connection struct {
	net.Conn
	of     *Listener
	since  time.Time
	member string // "" = not known yet
	shut   bool
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: conn, of: l, since: time.Now()}
	if oldest := l.add(c); oldest != nil {
		_ = oldest.Close()
	}
	return c, nil
}

// add notes a connection, and returns the one that makes room for it.
func (l *Listener) add(c *connection) (oldest *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unknown) >= ConnectionsUnknown {
		for other := range l.unknown {
			if oldest == nil || other.since.Before(oldest.since) {
				oldest = other
			}
		}
	}
	l.unknown[c] = struct{}{}
	return oldest
}

// admit notes whose a connection is, or refuses it.
func (l *Listener) admit(c *connection, member string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.shut:
		return net.ErrClosed
	case l.each[member] >= ConnectionsEach:
		return fmt.Errorf("node %s has %d connections open here already", member, ConnectionsEach)
	case l.all >= ConnectionsAll:
		return fmt.Errorf("%d connections of other nodes are open here already", ConnectionsAll)
	}
	delete(l.unknown, c)
	c.member = member
	l.each[member]++
	l.all++
	return nil
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.of.gone(c)
	return c.Conn.Close()
}

func (l *Listener) gone(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.shut {
		return
	}
	c.shut = true
	delete(l.unknown, c)
	if c.member != "" {
		less(l.each, c.member)
		l.all--
	}
}

// Guard returns a server's configuration whose handshakes tell the listener which member a
// connection is of.
func (l *Listener) Guard(cfg *tls.Config) *tls.Config {
	guarded := cfg.Clone()
	guarded.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c, ok := hello.Conn.(*connection)
		if !ok {
			return nil, fmt.Errorf("a connection of type %T", hello.Conn)
		}
		own := cfg.Clone()
		own.VerifyConnection = func(state tls.ConnectionState) error {
			if err := cfg.VerifyConnection(state); err != nil {
				return err
			}
			member, _, err := pki.Node(state)
			if err != nil {
				return err
			}
			return l.admit(c, member)
		}
		return own, nil
	}
	return guarded
}
