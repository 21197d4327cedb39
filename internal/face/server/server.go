// SPDX-License-Identifier: Apache-2.0

// Package server offers an agent to the world: HTTP and JSON over a unix socket,
// a live stream of server-sent events, and Prometheus metrics. It decides
// nothing; every request becomes one call of api.Agent.
//
//	GET    /v1/status                      the agent and its links
//	GET    /v1/workloads                   every workload
//	POST   /v1/workloads                   attach a namespace, a device, units or a cgroup
//	GET    /v1/workloads/{name}            one workload
//	DELETE /v1/workloads/{name}            detach it
//	PATCH  /v1/workloads/{name}/policy     change weight, min, max, limits, queues, group
//	GET    /v1/workloads/{name}/explain    why it has the rate it has
//	GET    /v1/workloads/{name}/classify   which of its queues a packet belongs to
//	GET    /v1/groups                      every group
//	PATCH  /v1/groups/{name}               make one, or change its weight, min, max
//	DELETE /v1/groups/{name}               remove it
//	GET    /v1/allocations                 every min set aside for pods
//	PUT    /v1/allocations/{name}          set one aside, or change it
//	DELETE /v1/allocations/{name}          give it back
//	GET    /v1/divide                      how a link would be divided
//	GET    /v1/audit                       who changed what
//	GET    /v1/events                      what an operator should know, docs/events.md
//	GET    /v1/stream                      one sample a second, server-sent events
//	GET    /v1/web                         a link to the page
//	DELETE /v1/web                         end its sessions
//	GET    /metrics                        Prometheus
//	GET    /openapi.json, /openapi.yaml    this interface, OpenAPI 3.1
//
// Each route that changes something takes ?dry_run=true. Errors are problem details (RFC
// 9457) with the members field, value and remedy. For example
//
//	curl --unix-socket /run/weir/weir.sock -X PATCH -d '{"min":"20mbit"}' \
//	     -H 'Content-Type: application/json' http://weir/v1/workloads/web/policy
//
// The modes of two sockets alone decide about rights: a user who can open weir.sock
// (0660, root and group weir) can do everything, a user who can open weir-view.sock
// (0660, group weir-view) can look. Each route says which role it needs, see rest.Role.
// Two optional TCP listeners serve metrics only, and the page (package web), which sends a
// token with each request; beyond the loopback by TLS.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"weir/internal/api"
	"weir/internal/api/rest"
	"weir/internal/base/audit"
	"weir/internal/base/crowd"
	"weir/internal/base/tlsfile"
	"weir/internal/core/event"
	"weir/internal/face/server/page"
)

// Options are the sockets and the address where a server listens, and its logs.
type Options struct {
	Socket string // unix socket of the API; "" = api.DefaultSocket
	Group  string // group that may use the socket besides root, "" = none
	// ViewGroup may look and change nothing, at api.ViewSocket of the socket; "" = none.
	ViewGroup string
	Metrics   []string // host:port for /metrics alone, none = only on the socket
	// MetricsTLS are the files of those ports; without them they must be on the loopback.
	MetricsTLS tlsfile.Files
	// Web is the page; the zero value means that there is none.
	Web   page.Config
	Audit *audit.Log // of changes; nil = none
	Log   *slog.Logger
}

// maxStreams bounds how many clients of a role follow the live stream at once, userStreams
// how many of one user do.
const (
	maxStreams  = 128
	userStreams = 32
)

// Server serves the API of one agent.
type Server struct {
	agent api.Agent
	opts  Options
	log   *slog.Logger
	rest  *rest.API
	// closing ends when the server shuts down: streams have no end of their own.
	closing context.Context
	close   context.CancelFunc

	encoded encoder // samples of the stream

	socket  *rest.LockedSocket
	view    net.Listener // for those who may only look; nil = none
	metrics *rest.TCPAddresses

	page *page.Page
}

// New makes a server; nothing is opened yet.
func New(agent api.Agent, opts Options) *Server {
	if opts.Socket == "" {
		opts.Socket = api.DefaultSocket
	}
	s := &Server{agent: agent, opts: opts, log: opts.Log.With("component", "server")}
	s.closing, s.close = context.WithCancel(context.Background())
	s.rest = s.routes()
	s.metrics = rest.NewPorts("/metrics", opts.Metrics, opts.MetricsTLS, s.log, func(ln net.Listener) net.Listener {
		return crowd.Listen(ln, crowd.ConnLimits{Unknown: scrapers})
	})
	return s
}

// Look adds the addresses of page and metrics that are not served to what problems and events
// follow from.
func (s *Server) Look(seen *event.Sight) {
	s.metrics.Look(seen)
	s.page.Look(seen)
}

// Handler returns the whole API, for tests and other uses without a socket.
func (s *Server) Handler() http.Handler { return s.rest.Mux }

// Listen claims the socket. It is apart from Serve so that an agent finds out that another one
// runs before it touches the kernel. The ports of metrics and page are opened if they can be;
// what they lack, Look says.
func (s *Server) Listen() error {
	sock, err := rest.Listen(s.opts.Socket, s.opts.Group, "agent", s.log)
	if err != nil {
		return err
	}
	view, err := rest.ListenView(s.opts.Socket, s.opts.ViewGroup, "agent", s.log)
	if err != nil {
		sock.Close()
		return err
	}
	s.socket, s.view = sock, view
	s.metrics.Open()
	s.page.Listen()
	return nil
}

// scrapers bounds the connections to the port of the metrics. Beyond, the address with the most
// of them makes room.
const scrapers = 256

// Close releases the socket and the port that Listen has claimed, of a server that does
// not serve.
func (s *Server) Close() error {
	err := s.socket.Close()
	if s.view != nil {
		err = errors.Join(err, s.view.Close())
	}
	return errors.Join(err, s.metrics.Close(), s.page.Close())
}

// MetricsAddr returns the first TCP address of /metrics that is served, "" if none is. It is
// valid after Listen.
func (s *Server) MetricsAddr() string { return s.metrics.Addr() }

// WebAddr returns the TCP address of the page, "" if there is none. It is valid after
// Listen.
func (s *Server) WebAddr() string { return s.page.Addr() }

// Serve answers requests until ctx ends, then lets those under way finish. The
// socket is removed when it returns. Listen must have succeeded before.
func (s *Server) Serve(ctx context.Context) error {
	defer s.socket.Close()
	if s.view != nil {
		defer s.view.Close() // its server may not have begun to serve when all ends
	}
	servers := []*http.Server{rest.Server(s.rest.Mux, s.log)}
	listeners := []net.Listener{s.socket}
	if s.view != nil {
		servers = append(servers, rest.Server(s.rest.Reading(s.opts.Socket, s.opts.Group), s.log))
		listeners = append(listeners, s.view)
	}
	failed := make(chan error, len(listeners))
	for i, srv := range servers {
		go func() { failed <- srv.Serve(listeners[i]) }()
	}
	if len(s.opts.Metrics) > 0 {
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", s.metricsHandler(s.rest))
		srv := rest.Server(mux, s.log)
		servers = append(servers, srv)
		go s.metrics.Serve(ctx, srv)
	}
	servers = append(servers, s.page.Serve(ctx))
	s.log.Info("listening", "socket", s.opts.Socket)
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("serve: %w", err)
	}
	s.close()
	return errors.Join(err, rest.Shutdown(servers...))
}
