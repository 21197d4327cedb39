// SPDX-License-Identifier: Apache-2.0

package natsserver

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"weir/internal/base/crowd"
	"weir/internal/test/logtest"
)

// stranger is a client without a certificate.
type stranger struct{ server.ClientAuthentication }

func (stranger) GetTLSConnectionState() *tls.ConnectionState { return &tls.ConnectionState{} }
func (stranger) RemoteAddress() net.Addr                     { return &net.TCPAddr{} }

// Connections and messages that are refused, thousands a second, are few lines of each sort.
func TestRefusalsAreFewLines(t *testing.T) {
	var text logtest.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	s := &Server{opts: ServerOptions{Log: log}}
	for range 10_000 {
		if s.Check(stranger{}) {
			t.Fatal("a client without a certificate was let in")
		}
	}
	count := func(words string, most int) {
		t.Helper()
		if n := strings.Count(text.String(), words); n == 0 || n > most {
			t.Errorf("%d lines with %q, want 1 to %d", n, words, most)
		}
	}
	count("connection to the bus refused", crowd.LinesAtOnce+2)
	l := logger{log, &crowd.LinesOf{}}
	for n := range 10_000 {
		l.Errorf("TLS handshake error from %d: %v", n, errors.New("no certificate"))
		l.Warnf("Permissions Violation for Publish to %q", strings.Repeat("x", n%7))
	}
	l.Errorf("the disk is full: %v", errors.New("once"))
	count("TLS handshake error", crowd.LinesAtOnce+2)
	count("Permissions Violation", crowd.LinesAtOnce+2)
	count("the disk is full", 1)
}
