// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/pki"
	"weir/internal/cluster/wire"
)

const headerTimeout = 10 * time.Second

// serve lets other nodes migrate to this one until ctx ends.
func (n *Node) serve(ctx context.Context) {
	if n.listener == nil {
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+remote.Path+"{verb}", n.serveMigrate)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelWarn), ConnContext: pki.WithConnection}
	cfg := n.credentials.Server(tls.RequireAndVerifyClientCert)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(tls.NewListener(n.listener, cfg)) }()
	select {
	case <-ctx.Done():
		srv.Close() // a migration that is cut off is settled by its journal
	case err := <-ended:
		n.log.Error("other nodes cannot reach this one any more", "err", err)
	}
}

// permit says whether a request is covered by an order of the manager's: that the
// node that asks should move that container here.
func (n *Node) permit(r *http.Request) (wire.Move, error) {
	var m wire.Move
	source, cert, err := pki.Node(*r.TLS)
	if err == nil {
		err = n.admit(source, cert)
	}
	if err != nil {
		return m, fmt.Errorf("node %s %w", source, err)
	}
	sealed, err := base64.StdEncoding.DecodeString(r.Header.Get(orderHeader))
	if err != nil || len(sealed) == 0 {
		return m, fmt.Errorf("node %s shows no order of the manager's", source)
	}
	e, err := n.verify(sealed, wire.Orders.Of(source))
	if err == nil {
		err = e.Read(&m)
	}
	switch {
	case err != nil:
		return m, fmt.Errorf("order that node %s shows: %w", source, err)
	case m.From != source || m.To != n.opts.Name:
		return m, fmt.Errorf("node %s shows an order for a move from %s to %s", source, m.From, m.To)
	}
	return m, nil
}

func (n *Node) serveMigrate(w http.ResponseWriter, r *http.Request) {
	if source, _, err := pki.Node(*r.TLS); err == nil {
		defer n.serving.Use(r.Context(), source)()
	}
	move, err := n.permit(r)
	if err != nil {
		n.log.Warn("migration refused", "peer", r.RemoteAddr, "err", err)
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	verb := remote.Verb(r.PathValue("verb"))
	in, err := remote.Read(r, verb)
	if err == nil && in.Order != nil && (in.Order.Move != move.ID || in.Order.Container.Name != move.Container || in.Order.From != move.From || in.Order.To != move.To) {
		err = fmt.Errorf("the manager's order is about another move")
	}
	if err == nil && move.DryRun && verb != remote.Facts && verb != remote.Lacking {
		err = fmt.Errorf("the manager's order is for a dry run")
	}
	if err != nil {
		n.log.Warn("migration refused", "peer", r.RemoteAddr, "from", move.From, "err", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := n.mayServe(r.Context(), move, r.PathValue("verb"), in.Step); err != nil {
		n.log.Warn("migration refused", "peer", r.RemoteAddr, "from", move.From, "err", err)
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if in.Order != nil {
		in.Order.Registry = n.registry(move.Registry) // by the name that the engine here knows
		in.Order.Login = n.login(move, false)
	}
	out, err := remote.Invoke(r.Context(), n.opts.Engine, verb, in, r.Body)
	remote.Answer(w, out, err)
}
