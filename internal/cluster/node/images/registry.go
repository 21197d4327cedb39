// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"

	"weir/internal/base/crowd"
	"weir/internal/cluster/migrate/registry/access"
	"weir/internal/cluster/pki"
)

const (
	// MaxConns bounds the connections to that address on which no password was shown: any
	// local user can make some, and the agent needs its descriptors for more than that. They
	// make room for each other, and are closed after their first answer.
	MaxConns = 256
	// engineConns bounds those on which one was, of a move and of all.
	engineConns = 256
)

// Options say where the registry is offered, and how this node reaches the manager.
type Options struct {
	Listen      string           // host:port on the loopback; "" = nowhere
	Manager     string           // host:port
	Credentials *pki.Credentials // of this node
	HTTP        *http.Client     // asks the manager as this node
	// Dial connects to registries: the packets are a
	// migration's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Log  *slog.Logger
}

// Registry is the manager's image registry at an address of this machine.
type Registry struct {
	opts     Options
	log      *slog.Logger
	listener net.Listener // nil = it is not offered
	passes   passes       // of the engine

	served  atomic.Uint64 // requests of the engine
	refused atomic.Uint64 // requests without a password, or with one for something else
}

// New returns a registry that is not offered before Listen.
func New(o Options) *Registry { return &Registry{opts: o, log: o.Log} }

// Listen opens the address. It is no reason not to be a node if it is taken.
func (r *Registry) Listen() {
	if r.opts.Listen == "" {
		return
	}
	ln, err := net.Listen("tcp", r.opts.Listen)
	if err != nil {
		r.log.Warn("the manager's image registry cannot be offered to this node's engine; choose another cluster.registry_listen", "err", err)
		return
	}
	r.listener = crowd.Listen(ln, crowd.ConnLimits{Unknown: MaxConns, All: engineConns})
}

// Serve offers the registry until ctx ends.
func (r *Registry) Serve(ctx context.Context) {
	if r.listener == nil {
		return
	}
	transport := &http.Transport{DialTLSContext: r.dialManager, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 8, DisableCompression: true}
	defer transport.CloseIdleConnections()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "https", Host: r.opts.Manager})
			p.Out.Host = p.In.Host // where an upload goes on is said by this name
			p.SetXForwarded()
		},
		Transport: access.Watch(transport),
		ErrorLog:  slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if ctx.Err() == nil {
				r.log.Warn("the manager's image registry cannot be reached", "manager", r.opts.Manager, "err", err)
			}
			http.Error(w, fmt.Sprintf("the registry of the manager at %s cannot be reached: %v", r.opts.Manager, err), http.StatusBadGateway)
		},
	}
	srv := crowd.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if r.hasPass(w, q) {
			if err := crowd.Admit(q.Context(), "", "engine"); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			q = q.WithContext(r.passes.allowance(q).With(q.Context()))
			q.Header.Del("Authorization") // the manager knows the node by its certificate
			r.served.Add(1)
			proxy.ServeHTTP(w, q)
		}
	}), r.log, slog.LevelDebug) // an engine tries TLS first
	srv.ConnContext = crowd.WithConn
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(r.listener) }()
	select {
	case <-ctx.Done():
		srv.Close()
	case err := <-ended:
		r.log.Error("image registry is not offered any more", "err", err)
	}
}

// Counts returns how many requests of clients were served and refused.
func (r *Registry) Counts() (served, refused uint64) { return r.served.Load(), r.refused.Load() }

// refusedEvery is how many refused requests are one line of the log, after the first: an
// engine asks once without a password each time, and a stranger must not fill a disk.
const refusedEvery = 100

// hasPass reports whether a request to the registry has a pass for what it asks; if not, it
// is answered here.
func (r *Registry) hasPass(w http.ResponseWriter, q *http.Request) bool {
	right, ok := r.passes.check(q, time.Now())
	if !ok {
		if _, _, given := q.BasicAuth(); given || q.URL.Path != rootPath {
			r.refuse(q, "it shows no password of a move under way")
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="weir"`)
		w.Header().Set("Connection", "close")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"the agent gives this node's engine a password for each move; there is no other way in"}]}`)
		return false
	}
	if request, known := access.Parse(q); !known || !right.Allows(request) {
		r.refuse(q, "it is not about the image of move "+right.Move)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"errors":[{"code":"DENIED","message":"this password is for the image of one move"}]}`)
		return false
	}
	return true
}

// refuse counts a request that is refused, and logs some of them.
func (r *Registry) refuse(q *http.Request, reason string) {
	if count := r.refused.Add(1); count%refusedEvery == 1 {
		r.log.Warn("image registry refused", "method", q.Method, "path", fmt.Sprintf("%.200q", q.URL.Path), "peer", q.RemoteAddr, "err", reason, "so_far", count)
	}
}

// rootPath begins the path of every request to a registry, by its specification.
const rootPath = "/v2/"

// dialManager connects to the manager as this node, as a migration does.
func (r *Registry) dialManager(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := r.opts.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(conn, r.opts.Credentials.Client(pki.ManagerName))
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}
