// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"weir/internal/cluster/migrate"
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
	mux.HandleFunc("POST "+migratePath+"{verb}", n.serveMigrate)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelWarn), BaseContext: nil}
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return n.identity().Server(tls.RequireAndVerifyClientCert), nil
	}}
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
	source, _, err := pki.Node(*r.TLS)
	if err != nil {
		return m, err
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
	move, err := n.permit(r)
	if err != nil {
		n.log.Warn("migration refused", "peer", r.RemoteAddr, "err", err)
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	in, err := readInvocation(r)
	if err == nil && in.Order != nil && (in.Order.Move != move.ID || in.Order.Container.Name != move.Container || in.Order.From != move.From || in.Order.To != move.To) {
		err = fmt.Errorf("the manager's order is about another move")
	}
	if err == nil && move.DryRun && r.PathValue("verb") != "facts" && r.PathValue("verb") != "lacking" {
		err = fmt.Errorf("the manager's order is for a dry run")
	}
	if err != nil {
		n.log.Warn("migration refused", "peer", r.RemoteAddr, "from", move.From, "err", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if in.Order != nil {
		in.Order.Registry = n.registry(move.Registry) // by the name that the engine here knows
	}
	out, err := n.invoke(r.Context(), r.PathValue("verb"), in, r.Body)
	var definite *migrate.Error
	switch {
	case errors.As(err, &definite):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(definite) // a client that has gone away learns nothing
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out)
	}
}

func readInvocation(r *http.Request) (in invocation, err error) {
	var body io.Reader = io.LimitReader(r.Body, maxCall)
	if r.PathValue("verb") == "receive" {
		var length [4]byte
		if _, err := io.ReadFull(r.Body, length[:]); err != nil {
			return in, err
		}
		if n := binary.BigEndian.Uint32(length[:]); n > maxCall {
			return in, fmt.Errorf("a call of %d bytes", n)
		}
		body = io.LimitReader(r.Body, int64(binary.BigEndian.Uint32(length[:])))
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return in, err
	}
	return in, json.Unmarshal(text, &in)
}

// invoke has the engine do what is asked.
func (n *Node) invoke(ctx context.Context, verb string, in invocation, rest io.Reader) (any, error) {
	if in.Order == nil && verb != "facts" && verb != "describe" {
		return nil, &migrate.Error{Code: migrate.CodeRefused, Node: n.opts.Name, Msg: "a call without an order"}
	}
	e := n.opts.Engine
	switch verb {
	case "facts":
		return e.Facts(ctx)
	case "describe":
		return e.Describe(ctx, in.Name)
	case "lacking":
		return e.Lacking(ctx, *in.Order)
	case "do":
		return e.Do(ctx, in.Step, *in.Order)
	case "receive":
		if in.Part == nil {
			return nil, &migrate.Error{Code: migrate.CodeRefused, Node: n.opts.Name, Msg: "a part without a name"}
		}
		return e.Receive(ctx, *in.Part, *in.Order, rest)
	}
	return nil, &migrate.Error{Code: migrate.CodeRefused, Node: n.opts.Name, Msg: "no such call: " + verb}
}
