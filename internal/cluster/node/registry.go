// SPDX-License-Identifier: Apache-2.0

package node

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
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/registry"
	"weir/internal/cluster/pki"
	"weir/internal/cluster/wire"
)

// The manager's image registry is there for members by mutual TLS, of which an engine
// knows nothing. So the agent offers it to its engine on the loopback, which engines
// take for safe without TLS:
//
//	dockerd ──HTTP, a password──► 127.0.0.1:7474 (agent) ──TLS, this node's certificate──► manager
//
// A client that may push an image decides what a container of the next node runs. So a
// request needs the password of a move (passes), which only the engine gets. Any local
// user can connect, and so can root of a container in the host's network namespace;
// neither has one. The user at the other end of a connection is not asked for: the
// kernel forgets him while a connection ends, and takes root of a container for root.

// DefaultRegistry is the address at which an agent offers the registry to its engine.
const DefaultRegistry = "127.0.0.1:7474"

// registryTimeout bounds how long the manager may take to say that its registry is there.
const registryTimeout = 3 * time.Second

// maxEngineConns bounds the connections to that address: any local user can make some, and
// the agent needs its descriptors for more than that. Those without a password are closed
// after their first answer, those that say nothing after headerTimeout.
const maxEngineConns = 256

// listenRegistry opens that address. It is no reason not to be a node if it is taken.
func (n *Node) listenRegistry() {
	if n.opts.Registry == "" || n.opts.Engine == nil {
		return
	}
	ln, err := net.Listen("tcp", n.opts.Registry)
	if err != nil {
		n.log.Warn("the manager's image registry cannot be offered to this node's engine; choose another cluster.registry_listen", "err", err)
		return
	}
	n.images = netutil.LimitListener(ln, maxEngineConns)
}

// serveRegistry offers the registry until ctx ends.
func (n *Node) serveRegistry(ctx context.Context) {
	if n.images == nil {
		return
	}
	transport := &http.Transport{DialTLSContext: n.dialManager, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 8, DisableCompression: true}
	defer transport.CloseIdleConnections()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: n.opts.Manager})
			r.Out.Host = r.In.Host // where an upload goes on is said by this name
			r.SetXForwarded()
		},
		Transport: registry.Watch(transport),
		ErrorLog:  slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if ctx.Err() == nil {
				n.log.Warn("the manager's image registry cannot be reached", "manager", n.opts.Manager, "err", err)
			}
			http.Error(w, fmt.Sprintf("the registry of the manager at %s cannot be reached: %v", n.opts.Manager, err), http.StatusBadGateway)
		},
	}
	srv := &http.Server{ReadHeaderTimeout: headerTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelDebug), // an engine tries TLS first
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n.hasPass(w, r) {
				r = r.WithContext(n.passes.allowance(r).With(r.Context()))
				r.Header.Del("Authorization") // the manager knows the node by its certificate
				n.imagesServed.Add(1)
				proxy.ServeHTTP(w, r)
			}
		})}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(n.images) }()
	select {
	case <-ctx.Done():
		srv.Close()
	case err := <-ended:
		n.log.Error("image registry is not offered any more", "err", err)
	}
}

// refusedEvery is how many refused requests are one line of the log, after the first: an
// engine asks once without a password each time, and a stranger must not fill a disk.
const refusedEvery = 100

// hasPass reports whether a request to the registry has a pass for what it asks; if not, it
// is answered here.
func (n *Node) hasPass(w http.ResponseWriter, r *http.Request) bool {
	access, ok := n.passes.check(r, time.Now())
	if !ok {
		if _, _, given := r.BasicAuth(); given || r.URL.Path != registryPath {
			n.refusedRequest(r, "it shows no password of a move under way")
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="weir"`)
		w.Header().Set("Connection", "close")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"the agent gives this node's engine a password for each move; there is no other way in"}]}`)
		return false
	}
	if request, known := registry.Parse(r); !known || !access.Allows(request) {
		n.refusedRequest(r, "it is not about the image of move "+access.Move)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"errors":[{"code":"DENIED","message":"this password is for the image of one move"}]}`)
		return false
	}
	return true
}

func (n *Node) refusedRequest(r *http.Request, why string) {
	if count := n.imagesRefused.Add(1); count%refusedEvery == 1 {
		n.log.Warn("image registry refused", "method", r.Method, "path", fmt.Sprintf("%.200q", r.URL.Path), "peer", r.RemoteAddr, "err", why, "so_far", count)
	}
}

// registryPath begins the path of every request to a registry, by its specification.
const registryPath = "/v2/"

// dialManager connects to the manager as this node, as a migration does.
func (n *Node) dialManager(ctx context.Context, network, address string) (net.Conn, error) {
	return (&tls.Dialer{NetDialer: n.dialer(ctx), Config: n.credentials.Client(pki.ManagerName)}).DialContext(ctx, network, address)
}

// registry returns the registry of an order as this node's engine names it, "" if
// there is none.
func (n *Node) registry(address string) string {
	switch {
	case address != wire.OwnRegistry:
		return address
	case n.images == nil:
		return ""
	}
	return n.images.Addr().String()
}

// pushLogin returns the login that this node's engine shows to the agent's registry for
// a move of which it is the source. Other registries get none.
func (n *Node) pushLogin(order wire.Move) migrate.Login { return n.login(order, true) }

// pullLogin returns the login for a move of which this node is the target. What comes
// may unpack to what was announced.
func (n *Node) pullLogin(order wire.Move, o migrate.Order) migrate.Login {
	login := n.login(order, false)
	n.passes.allow(login, o.Limit(migrate.Part{Kind: migrate.PartExport}))
	return login
}

func (n *Node) login(order wire.Move, source bool) migrate.Login {
	if order.Registry != wire.OwnRegistry || n.images == nil {
		return migrate.Login{}
	}
	return n.passes.issue(registry.Access{Move: order.ID, Source: source}, time.Now())
}

// usableRegistry returns the registry for an order, "" if it is out of reach and the
// move can do without.
func (n *Node) usableRegistry(ctx context.Context, order wire.Move) (string, error) {
	if order.Registry == "" {
		return "", nil
	}
	err := n.checkRegistry(ctx, order.Registry)
	if err == nil {
		return n.registry(order.Registry), nil
	}
	if migrate.Approach(order.Approach) == migrate.ApproachCommit {
		return "", fmt.Errorf("approach commit needs the registry: %w", err)
	}
	n.log.Warn("move goes without the registry", "move", order.ID, "err", err)
	return "", nil
}

// checkRegistry says why an order's registry cannot be used now.
func (n *Node) checkRegistry(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	if address != wire.OwnRegistry {
		host, _, _ := strings.Cut(address, "/")
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
		if err != nil {
			return fmt.Errorf("registry %s cannot be reached: %w", address, err)
		}
		return conn.Close()
	}
	if n.images == nil {
		return fmt.Errorf("the manager's registry is not offered on node %s: %s is taken; choose another cluster.registry_listen", n.opts.Name, n.opts.Registry)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+n.opts.Manager+registryPath, nil)
	if err != nil {
		return err
	}
	resp, err := n.client().Do(req)
	if err != nil {
		var about *url.Error
		if errors.As(err, &about) {
			err = about.Err
		}
		return fmt.Errorf("the manager's registry cannot be reached: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the manager's registry answers %s", resp.Status)
	}
	return nil
}
