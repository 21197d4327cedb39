// SPDX-License-Identifier: Apache-2.0

package crowd

import (
	"log/slog"
	"net/http"
	"time"
)

// Bounds of a server's connections. A client that is slower is cut off, so that no client can
// make a process hold memory or goroutines for long.
const (
	headerTimeout = 5 * time.Second // of the handshake by TLS, too
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10 // bytes
)

// NewServer returns an HTTP server with these bounds. It speaks HTTP/1.1 alone: one connection
// is one request at a time, and what Listener counts is what a client can have under way.
func NewServer(h http.Handler, log *slog.Logger, level slog.Level) *http.Server {
	only := &http.Protocols{}
	only.SetHTTP1(true)
	return &http.Server{Handler: h, Protocols: only, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), level)}
}
