// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"time"
)

// The most connections at once. Those on which no token was shown yet make room for each
// other, the oldest first: a browser shows its token within milliseconds.
const (
	maxStrangers = 64
	maxProven    = 256
)

// sayEvery is between two lines of the log about connections that had to make room.
const sayEvery = 10 * time.Second

// Crowd is a listener that bounds how many connections are open.
type Crowd struct {
	net.Listener
	log *slog.Logger

	mu        sync.Mutex
	strangers []*visitor // the oldest first
	proven    int
	closed    int       // since the last line of the log
	said      time.Time // when that was
}

// NewCrowd returns a Crowd around a listener that accepts.
func NewCrowd(ln net.Listener, log *slog.Logger) *Crowd { return &Crowd{Listener: ln, log: log} }

// visitor is one connection.
type visitor struct {
	net.Conn
	of             *Crowd
	proven, closed bool
}

// Accept implements net.Listener.
func (c *Crowd) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	v := &visitor{Conn: conn, of: c}
	if oldest := c.enter(v); oldest != nil {
		_ = oldest.Close()
	}
	return v, nil
}

// enter notes a connection, and returns the one that makes room for it.
func (c *Crowd) enter(v *visitor) (oldest *visitor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.strangers = append(c.strangers, v)
	if len(c.strangers) <= maxStrangers {
		return nil
	}
	c.closed++
	if now := time.Now(); now.Sub(c.said) >= sayEvery {
		c.log.Warn("the page closed connections without a token, to make room", "connections", c.closed, "last", c.strangers[0].RemoteAddr())
		c.closed, c.said = 0, now
	}
	return c.strangers[0]
}

// admit notes that a token was shown on a connection. It reports whether there is room.
func (c *Crowd) admit(v *visitor) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.proven {
		return true
	}
	if v.closed || c.proven >= maxProven {
		return false
	}
	c.forget(v)
	v.proven = true
	c.proven++
	return true
}

// forget removes a connection from the strangers.
func (c *Crowd) forget(v *visitor) {
	for i, other := range c.strangers {
		if other == v {
			c.strangers = append(c.strangers[:i], c.strangers[i+1:]...)
			return
		}
	}
}

// Close implements net.Conn.
func (v *visitor) Close() error {
	c := v.of
	c.mu.Lock()
	if !v.closed {
		v.closed = true
		c.forget(v)
		if v.proven {
			c.proven--
		}
	}
	c.mu.Unlock()
	return v.Conn.Close()
}

type visitorKey struct{}

// ConnContext has the handler know the connection that a request came on; it is for
// http.Server.ConnContext.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if v, ok := conn.(*visitor); ok {
		return context.WithValue(ctx, visitorKey{}, v)
	}
	return ctx
}

// prove notes that a token was shown on the connection of a request. It reports whether
// there is room for it.
func prove(ctx context.Context) bool {
	v, ok := ctx.Value(visitorKey{}).(*visitor)
	return !ok || v.of.admit(v)
}
