// SPDX-License-Identifier: Apache-2.0

package crowd

import (
	"bytes"
	"context"
	stdlog "log"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"weir/internal/core/bound"
)

// Bounds of a server's connections. A client that is slower is cut off, so that no client can
// make a process hold memory or goroutines for long.
const (
	headerTimeout = 5 * time.Second // of the handshake by TLS, too
	idleTimeout   = 2 * time.Minute
)

// NewServer returns an HTTP server with these bounds. It speaks HTTP/1.1 alone: one connection
// is one request at a time, and what Listener counts is what a client can have under way.
func NewServer(h http.Handler, log *slog.Logger, level slog.Level) *http.Server {
	only := &http.Protocols{}
	only.SetHTTP1(true)
	return &http.Server{Handler: h, Protocols: only, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: bound.Header,
		ErrorLog: stdlog.New(&complaints{log: log, level: level}, "", 0)}
}

// complaints logs what net/http says of its clients, in one line for many: each handshake that
// a stranger breaks off is a line of its own there.
type complaints struct {
	log   *slog.Logger
	level slog.Level
	lines Lines
}

// maxComplaint bounds a line of net/http's, in bytes: it may quote what the client sent.
const maxComplaint = 300

// Write implements io.Writer.
func (c *complaints) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("panic serving")) { // a fault of this program, with its stack
		c.log.Error(string(line))
		return len(line), nil
	}
	if omitted, due := c.lines.Due(time.Now()); due {
		c.log.Log(context.Background(), c.level, strings.ToValidUTF8(strings.TrimSpace(string(line[:min(len(line), maxComplaint)])), "?"), "omitted", omitted)
	}
	return len(line), nil
}
