// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/pki"
	"weir/internal/cluster/wire"
)

// The manager's image registry is there for members by mutual TLS, of which an engine
// knows nothing. So the agent offers it to its engine on the loopback, which engines
// take for safe without TLS:
//
//	dockerd ──HTTP──► 127.0.0.1:7474 (agent) ──TLS, this node's certificate──► manager
//
// Only root's processes are served, since whoever may push an image may say what a
// container of the next node runs.

// DefaultRegistry is where an agent offers the registry to its engine.
const DefaultRegistry = "127.0.0.1:7474"

// registryTimeout is for the manager to say that its registry is there.
const registryTimeout = 3 * time.Second

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
	n.images = ln
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
		Transport: transport,
		ErrorLog:  slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if ctx.Err() == nil {
				n.log.Warn("the manager's image registry cannot be reached", "manager", n.opts.Manager, "err", err)
			}
			http.Error(w, fmt.Sprintf("the registry of the manager at %s cannot be reached: %v", n.opts.Manager, err), http.StatusBadGateway)
		},
	}
	srv := &http.Server{ReadHeaderTimeout: headerTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog:    slog.NewLogLogger(n.log.Handler(), slog.LevelDebug), // an engine tries TLS first
		ConnContext: withOwner,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if o := r.Context().Value(ownerKey{}).(owner); o.err != nil || o.uid != 0 {
				n.log.Warn("image registry refused", "peer", r.RemoteAddr, "uid", o.uid, "err", o.err)
				http.Error(w, "only root's processes may use the cluster's image registry", http.StatusForbidden)
				return
			}
			if !strings.HasPrefix(r.URL.Path, registryPath) {
				http.NotFound(w, r)
				return
			}
			proxy.ServeHTTP(w, r)
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

// registryPath is where registries are, by their specification.
const registryPath = "/v2/"

// dialManager connects to the manager as this node, as a migration does.
func (n *Node) dialManager(ctx context.Context, network, address string) (net.Conn, error) {
	return (&tls.Dialer{NetDialer: n.dialer(ctx), Config: n.credentials.Client(pki.ManagerName)}).DialContext(ctx, network, address)
}

// registry is that of an order as this node's engine names it, "" if there is none.
func (n *Node) registry(address string) string {
	switch {
	case address != wire.OwnRegistry:
		return address
	case n.images == nil:
		return ""
	}
	return n.images.Addr().String()
}

// usableRegistry is the registry for an order, "" if it is out of reach and the move
// can do without.
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

// owner is the user whose process is at the other end of a connection.
type owner struct {
	uid int
	err error
}

type ownerKey struct{}

// ownerTries is how often a connection is looked for: a table that changes while it is
// read may lack it once.
const ownerTries = 5

// withOwner notes at a connection's beginning whose it is.
func withOwner(ctx context.Context, c net.Conn) context.Context {
	var o owner
	for try := range ownerTries {
		if o.uid, o.err = ownerOf(c); o.err == nil {
			break
		}
		time.Sleep(time.Duration(try) * time.Millisecond)
	}
	return context.WithValue(ctx, ownerKey{}, o)
}

// ownerOf is the user whose process is at the other end of a connection over the
// loopback.
func ownerOf(c net.Conn) (uid int, err error) {
	client, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return -1, err
	}
	server, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return -1, err
	}
	// Not "self", which is the main thread: that may be left in the network namespace of
	// a container that somebody here has looked into.
	file := "/proc/thread-self/net/tcp"
	if client.Addr().Unmap().Is6() {
		file = "/proc/thread-self/net/tcp6"
	}
	table, err := os.Open(file)
	if err != nil {
		return -1, err
	}
	defer table.Close()
	return ownerIn(table, client, server)
}

// ownerIn looks a connection up in a table such as /proc/net/tcp, by its two ends as
// the process at the first one has them:
//
//	sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid ...
//	 0: 0100007F:D2F0 0100007F:1D32 01 00000000:00000000 00:00000000 00000000     0 ...
func ownerIn(table io.Reader, local, remote netip.AddrPort) (uid int, err error) {
	want := procAddress(local) + " " + procAddress(remote)
	for s := bufio.NewScanner(table); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) < 8 || f[1]+" "+f[2] != want {
			continue
		}
		_, err := fmt.Sscan(f[7], &uid)
		return uid, err
	}
	return -1, fmt.Errorf("no connection from %s", local)
}

// procAddress is an address as /proc/net/tcp has it: words of four bytes in the
// machine's own order, and the port.
func procAddress(a netip.AddrPort) string {
	bytes := a.Addr().Unmap().AsSlice()
	for i := 0; i < len(bytes); i += 4 {
		binary.NativeEndian.PutUint32(bytes[i:], binary.BigEndian.Uint32(bytes[i:]))
	}
	return strings.ToUpper(hex.EncodeToString(bytes)) + fmt.Sprintf(":%04X", a.Port())
}
