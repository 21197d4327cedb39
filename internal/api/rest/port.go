// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"

	"weir/internal/base/tlsfile"
)

// ListenTCP opens a TCP port at host:port: with TLS, or on the loopback only. between goes
// between the port and TLS; nil = nothing does.
func ListenTCP(address string, files tlsfile.Files, log *slog.Logger, between func(net.Listener) net.Listener) (net.Listener, error) {
	var secure *tls.Config
	if files.Given() {
		var err error
		if secure, err = files.Server(log); err != nil {
			return nil, err
		}
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; choose another host:port", address, err)
	}
	if at, ok := ln.Addr().(*net.TCPAddr); secure == nil && (!ok || !at.IP.IsLoopback()) {
		ln.Close()
		return nil, fmt.Errorf("%s is not on the loopback; without TLS listen at 127.0.0.1", address)
	}
	if between != nil {
		ln = between(ln)
	}
	if secure != nil {
		ln = tls.NewListener(ln, secure)
	}
	return ln, nil
}
