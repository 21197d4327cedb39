// SPDX-License-Identifier: Apache-2.0

// Package natsserver is the server of NATS JetStream that is embedded in the manager; package
// nats has the nodes' connections to it.
//
// Each topic is a stream with the topic's letter as its name. A node reaches it by
// mutual TLS, and the server lets it do four things: publish on M, H and R of its
// own name, and take messages from its own consumer of stream L. All else is
// refused, and the first refusals are logged. The consumer is made by the manager (Admit), so a
// node has no say over what it filters. What a node can publish is bounded in size (quota.go) and
// in pace (pace.go), so that one that fills its subjects keeps no other from its own.
//
// The server writes messages to its files at once and to the disk every few seconds
// (syncInterval): they outlive its process whatever ends it, and a power cut of the
// manager's machine costs at most those seconds. What must not be lost then either
// (orders under way, what became of them) is in the manager's database and in the
// node's journal, and is said again.
package natsserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/base/crowd"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/bus/nats"
	"weir/internal/cluster/pki"
	"weir/internal/core/wire"
)

const (
	syncInterval = 5 * time.Second
	readyTimeout = 30 * time.Second // to read back the messages on the disk
)

// ServerOptions configure a server.
type ServerOptions struct {
	Listen   string     // host:port; port 0 = any
	Dir      string     // of the streams
	Identity pki.Holder // the manager
	// Member reports whether the holder of a certificate belongs to the cluster, by
	// an error that says why not. It is asked whenever a node connects.
	Member func(node string, cert *x509.Certificate) error
	Log    *slog.Logger
}

var _ bus.Admin = (*Server)(nil)

// Server is the embedded server with the manager's own connection to it.
type Server struct {
	*nats.Conn
	server *server.Server
	opts   ServerOptions
	own    string // password of the manager's own connection
	pace   *pace
	stop   func() // ends what runs beside the server
	// refusals bounds the lines about connections that were refused, by node; "" = no member's.
	refusals crowd.LinesOf
}

// Serve starts a server. What a former one kept in Dir is there again.
func Serve(ctx context.Context, opts ServerOptions) (*Server, error) {
	host, port, err := net.SplitHostPort(opts.Listen)
	if err != nil {
		return nil, fmt.Errorf("address of the bus %q: %w", opts.Listen, err)
	}
	number, err := net.LookupPort("tcp", cmp.Or(port, "0"))
	if err != nil {
		return nil, fmt.Errorf("address of the bus %q: %w", opts.Listen, err)
	}
	if number == 0 {
		number = server.RANDOM_PORT
	}
	stopped := make(chan struct{})
	s := &Server{opts: opts, own: rand.Text(), pace: newPace(), stop: sync.OnceFunc(func() { close(stopped) })}
	s.server, err = server.NewServer(&server.Options{
		ServerName:                 wire.Manager,
		Host:                       host,
		Port:                       number,
		NoSigs:                     true,
		MaxPayload:                 wire.MaxMessage + 1<<10,
		TLS:                        true,
		TLSVerify:                  true,
		TLSConfig:                  opts.Identity.Server(tls.RequireAndVerifyClientCert),
		TLSHandshakeFirst:          true,
		TLSTimeout:                 10,
		CustomClientAuthentication: s,
		JetStream:                  true,
		StoreDir:                   opts.Dir,
		SyncInterval:               syncInterval,
		DisableJetStreamBanner:     true,
	})
	if err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	s.server.SetLogger(logger{opts.Log.With("component", "bus"), &crowd.LinesOf{}}, false, false)
	s.server.Start()
	if !s.server.ReadyForConnections(readyTimeout) {
		s.server.Shutdown()
		return nil, fmt.Errorf("bus: cannot listen on %s or read %s; is another manager running?", opts.Listen, filepath.Clean(opts.Dir))
	}
	conn, err := client.Connect("", client.InProcessServer(s.server), client.UserInfo(wire.Manager, s.own),
		client.Name(wire.Manager), client.MaxReconnects(-1))
	if err == nil {
		s.Conn, err = nats.New(conn, opts.Log)
	}
	if err == nil {
		err = s.streams(ctx)
	}
	if err != nil {
		s.server.Shutdown()
		return nil, fmt.Errorf("bus: %w", err)
	}
	go s.keepPace(stopped, opts.Log.With("component", "bus"))
	return s, nil
}

// Addr returns the address at which the server listens.
func (s *Server) Addr() net.Addr { return s.server.Addr() }

// Close stops the server; what it keeps is on the disk.
func (s *Server) Close() error {
	s.stop()
	err := s.Conn.Close()
	s.server.Shutdown()
	s.server.WaitForShutdown()
	return err
}

// Admit implements bus.Admin.
func (s *Server) Admit(ctx context.Context, node string) error {
	return s.Consumer(ctx, wire.Orders.Of(node), node)
}

// Remove implements bus.Admin: it throws the node out, and removes what the server
// keeps of it.
func (s *Server) Remove(ctx context.Context, node string) error {
	var failed []error
	if err := s.JetStream().DeleteConsumer(ctx, string(wire.Orders), node); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		failed = append(failed, err)
	}
	for _, topic := range wire.Topics {
		stream, err := s.JetStream().Stream(ctx, string(topic))
		if err == nil {
			err = stream.Purge(ctx, jetstream.WithPurgeSubject(string(topic.Of(node))))
		}
		failed = append(failed, err)
	}
	failed = append(failed, s.expel(node))
	return errors.Join(failed...)
}

// expel cuts a node's connections; Member refuses it when it comes back.
func (s *Server) expel(node string) error {
	conns, err := s.server.Connz(&server.ConnzOptions{Username: true, User: node})
	if err != nil {
		return err
	}
	for _, c := range conns.Conns {
		if err := s.server.DisconnectClientByID(c.Cid); err != nil {
			return err
		}
	}
	return nil
}

// Check implements server.Authentication: who may connect, and what for.
func (s *Server) Check(c server.ClientAuthentication) bool {
	state := c.GetTLSConnectionState()
	if state == nil { // within this process
		if opts := c.GetOpts(); opts.Username == wire.Manager && opts.Password == s.own {
			return true
		}
		return false
	}
	log := s.opts.Log.With("component", "bus", "peer", fmt.Sprint(c.RemoteAddress()))
	node, cert, err := pki.Node(*state)
	if err == nil {
		err = s.opts.Member(node, cert)
	}
	if err == nil {
		err = s.pace.admits(node, time.Now())
	}
	if err != nil {
		if omitted, due := s.refusals.Due(node, time.Now()); due {
			log.Warn("connection to the bus refused", "node", node, "err", err, "omitted", omitted)
		}
		return false
	}
	c.RegisterUser(&server.User{Username: node, Permissions: permissions(node)})
	log.Debug("node connected to the bus", "node", node)
	return true
}

// permissions returns the subjects that a node may publish and subscribe to.
func permissions(node string) *server.Permissions {
	api := "$JS.API.CONSUMER."
	return &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			string(wire.Profiles.Of(node)), string(wire.Heartbeats.Of(node)), string(wire.Reports.Of(node)),
			api + "INFO." + string(wire.Orders.Of(node)), api + "MSG.NEXT." + string(wire.Orders.Of(node)),
			"$JS.ACK." + string(wire.Orders.Of(node)) + ".>", "$JS.ACK.*.*." + string(wire.Orders.Of(node)) + ".>",
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{nats.Inbox(node) + ".>"}},
	}
}

// logger writes the server's lines to the log of the whole process. The server says
// much about itself, so its notices are logged at level debug. It has a line about each message and
// each connection that it refuses; few of them are written of each sort.
type logger struct {
	to   *slog.Logger
	said *crowd.LinesOf // by the format
}

func (l logger) Noticef(format string, v ...any) { l.to.Debug(line(format, v)) }
func (l logger) Warnf(format string, v ...any) {
	if !strings.Contains(format, "TLS Handshake First") { // all clients are ours and do
		l.warn(format, v)
	}
}
func (l logger) Fatalf(format string, v ...any) { l.to.Error(line(format, v)) }
func (l logger) Errorf(format string, v ...any) { l.warn(format, v) }
func (l logger) Debugf(format string, v ...any) {}
func (l logger) Tracef(format string, v ...any) {}

func (l logger) warn(format string, v []any) {
	if omitted, due := l.said.Due(format, time.Now()); due {
		l.to.Warn(line(format, v), "omitted", omitted)
	}
}

func line(format string, v []any) string {
	return strings.ToValidUTF8(strings.TrimSpace(fmt.Sprintf(format, v...)), "?")
}
