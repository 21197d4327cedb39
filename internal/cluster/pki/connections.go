// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"context"
	"io"
	"net"
	"sync"
)

type connKey struct{}

// WithConnection is http.Server.ConnContext of a server whose requests are noted by
// Connections.Use.
func WithConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// Connections knows which connections a member's requests are served on, so that what
// it has begun can be cut off when it is removed. The zero value is ready.
type Connections struct {
	mu   sync.Mutex
	open map[string]map[io.Closer]int // requests, by member and connection
}

// Use notes that a request of a member, with the context ctx, is served on its
// connection, until done is called. Call it before the membership is checked: then a removal at the
// same moment either refuses the request or closes its connection.
func (c *Connections) Use(ctx context.Context, member string) (done func()) {
	conn, ok := ctx.Value(connKey{}).(io.Closer)
	if !ok {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[string]map[io.Closer]int{}
	}
	if c.open[member] == nil {
		c.open[member] = map[io.Closer]int{}
	}
	c.open[member][conn]++
	return func() { c.done(member, conn) }
}

func (c *Connections) done(member string, conn io.Closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[member][conn]--; c.open[member][conn] <= 0 {
		delete(c.open[member], conn)
	}
	if len(c.open[member]) == 0 {
		delete(c.open, member)
	}
}

// CloseUnless closes the connections of every member that is not kept, and returns how
// many those were.
func (c *Connections) CloseUnless(keep func(member string) bool) int {
	c.mu.Lock()
	var gone []io.Closer
	for member, conns := range c.open {
		if keep(member) {
			continue
		}
		for conn := range conns {
			gone = append(gone, conn)
		}
	}
	c.mu.Unlock()
	for _, conn := range gone {
		_ = conn.Close() // it is cut off either way
	}
	return len(gone)
}
