// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"weir/internal/cluster/pki"
)

// Connections of other nodes. An honest node has one or two for each copy under way.
const (
	doorsEach    = 4 * guestsEach
	doorsAll     = 2048
	doorsUnknown = 128 // that have not shown a certificate yet
)

// doors is a listener that bounds how many connections are open, in all and for each
// member. Of the connections that have not shown a member's certificate yet, the oldest
// makes room: a handshake takes some milliseconds, so it is the least likely to be an
// honest one.
type doors struct {
	net.Listener
	mu      sync.Mutex
	unknown map[*door]struct{}
	each    map[string]int
	all     int // that belong to a member
}

func newDoors(ln net.Listener) *doors {
	return &doors{Listener: ln, unknown: map[*door]struct{}{}, each: map[string]int{}}
}

// door is one connection.
type door struct {
	net.Conn
	of     *doors
	since  time.Time
	member string // "" = not known yet
	shut   bool
}

// Accept implements net.Listener.
func (d *doors) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &door{Conn: conn, of: d, since: time.Now()}
	if oldest := d.add(c); oldest != nil {
		_ = oldest.Close()
	}
	return c, nil
}

// add notes a connection, and returns the one that makes room for it.
func (d *doors) add(c *door) (oldest *door) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.unknown) >= doorsUnknown {
		for other := range d.unknown {
			if oldest == nil || other.since.Before(oldest.since) {
				oldest = other
			}
		}
	}
	d.unknown[c] = struct{}{}
	return oldest
}

// admit notes whose a connection is, or refuses it.
func (d *doors) admit(c *door, member string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case c.shut:
		return net.ErrClosed
	case d.each[member] >= doorsEach:
		return fmt.Errorf("node %s has %d connections open here already", member, doorsEach)
	case d.all >= doorsAll:
		return fmt.Errorf("%d connections of other nodes are open here already", doorsAll)
	}
	delete(d.unknown, c)
	c.member = member
	d.each[member]++
	d.all++
	return nil
}

// Close implements net.Conn.
func (c *door) Close() error {
	c.of.gone(c)
	return c.Conn.Close()
}

func (d *doors) gone(c *door) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.shut {
		return
	}
	c.shut = true
	delete(d.unknown, c)
	if c.member != "" {
		less(d.each, c.member)
		d.all--
	}
}

// guard has a server's handshakes say whose their connections are.
func (d *doors) guard(cfg *tls.Config) *tls.Config {
	guarded := cfg.Clone()
	guarded.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c, ok := hello.Conn.(*door)
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
			return d.admit(c, member)
		}
		return own, nil
	}
	return guarded
}
