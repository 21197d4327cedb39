// SPDX-License-Identifier: Apache-2.0

package tlsfile

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Server returns the configuration of a server. With CA, a client has to show a
// certificate of it. The files are read again when one of them has changed: what the
// next handshake finds there counts. Files that cannot be used then are logged, and
// what was there before goes on to count.
func (f Files) Server(log *slog.Logger) (*tls.Config, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	s := &server{files: f, log: log}
	if err := s.load(); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.current(), nil }}, nil
}

// server holds what the files said when they were read last.
type server struct {
	files Files
	log   *slog.Logger

	mu   sync.Mutex
	now  *tls.Config
	seen [3]stamp
}

// stamp tells one content of a file from the next.
type stamp struct {
	size     int64
	modified time.Time
}

func (s *server) stamps() (all [3]stamp) {
	for i, path := range []string{s.files.CA, s.files.Cert, s.files.Key} {
		if info, err := os.Stat(path); err == nil {
			all[i] = stamp{info.Size(), info.ModTime()}
		}
	}
	return all
}

// load reads the files.
func (s *server) load() error {
	s.seen = s.stamps()
	pair, err := s.files.pair()
	if err != nil {
		return err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if s.files.CA != "" {
		if c.ClientCAs, err = pool(s.files.CA); err != nil {
			return err
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	s.now = c
	return nil
}

// current returns the configuration for the next handshake.
func (s *server) current() *tls.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stamps() != s.seen {
		if err := s.load(); err != nil {
			s.log.Warn("certificate files changed and cannot be used; the server keeps the former ones", "err", err)
		} else {
			s.log.Info("certificate read anew", "cert", s.files.Cert, "expires", s.now.Certificates[0].Leaf.NotAfter)
		}
	}
	return s.now
}
