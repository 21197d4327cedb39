// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net"
	"net/http"
	"sync"
)

// unasked holds the connections of a server that have brought no request yet. http.Server.Shutdown
// waits for them for five seconds, longer than ShutdownTimeout.
type unasked struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	over  bool // the server is being shut down
}

// note is told of each connection (http.Server.ConnState).
func (u *unasked) note(conn net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(u.conns, conn)
	case u.over:
		conn.Close()
	default:
		u.conns[conn] = struct{}{}
	}
}

// close ends them.
func (u *unasked) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
	for conn := range u.conns {
		conn.Close()
	}
}
