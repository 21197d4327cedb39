// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"log/slog"
	"net"

	"weir/internal/base/crowd"
)

// most bounds the connections of the page. Those on which no token was shown yet make room
// for each other: a browser shows its token within milliseconds. Of the others those of each role
// have as many places, of which each user has a part, so that no user keeps another out.
var most = crowd.ConnLimits{Unknown: 1024, Each: 64, All: 512}

// NewCrowd returns a listener around one that accepts, which bounds how many connections are
// open. ConnContext belongs to it.
func NewCrowd(ln net.Listener, log *slog.Logger) *crowd.Listener {
	c := crowd.Listen(ln, most)
	c.Say = func(n int, last string) {
		log.Warn("the page closed connections without a token, to make room", "connections", n, "last", last)
	}
	return c
}

// ConnContext has the handler know the connection that a request came on; it is for
// http.Server.ConnContext.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	return crowd.WithConn(ctx, conn)
}
