// SPDX-License-Identifier: Apache-2.0

package crowd

import (
	"context"
	"net"
)

type connKey struct{}

// WithConn is http.Server.ConnContext of a server whose handlers call Admit.
func WithConn(ctx context.Context, conn net.Conn) context.Context {
	for {
		if c, ok := conn.(*Conn); ok {
			return context.WithValue(ctx, connKey{}, c)
		}
		over, ok := conn.(interface{ NetConn() net.Conn }) // by TLS
		if !ok {
			return ctx
		}
		conn = over.NetConn()
	}
}

// Admit notes whose the connection of a request is, see Conn.Admit. A connection that is of no
// Listener is bounded elsewhere.
func Admit(ctx context.Context, class, party string) error {
	if c, ok := ctx.Value(connKey{}).(*Conn); ok {
		return c.Admit(class, party)
	}
	return nil
}

// Asked notes that the request of a stranger is here as a whole, see Conn.Asked.
func Asked(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*Conn); ok {
		c.Asked()
	}
}
