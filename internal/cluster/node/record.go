// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"

	"weir/internal/audit"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/pki"
	"weir/internal/cluster/wire"
)

// recorded writes to the audit log what other nodes have this one do, and what they
// are refused. What only looks and is granted has no line.
func (n *Node) recorded(next http.HandlerFunc) http.HandlerFunc {
	if n.opts.Audit == nil {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		a := &answer{ResponseWriter: w, status: http.StatusOK}
		next(a, r)
		verb := remote.Verb(r.PathValue("verb"))
		if looks := verb == remote.Facts || verb == remote.Describe || verb == remote.Lacking; looks && a.status < http.StatusBadRequest {
			return
		}
		e := audit.Entry{Who: audit.Who{Via: audit.ViaNetwork, Address: r.RemoteAddr}, Action: "step", Result: audit.Done}
		change := map[string]string{"call": string(verb)}
		if source, _, err := pki.Node(*r.TLS); err == nil {
			e.Who.Via, e.Who.Node = audit.ViaNode, source
			if sealed, err := base64.StdEncoding.DecodeString(r.Header.Get(orderHeader)); err == nil {
				e.Object, change["move"] = n.shown(sealed, source)
			}
		}
		e.Change = change
		switch {
		case a.status >= http.StatusInternalServerError && a.status != http.StatusServiceUnavailable:
			e.Result = audit.Failed
		case a.status >= http.StatusBadRequest:
			e.Result = audit.Refused
		}
		if e.Result != audit.Done {
			e.Reason = strings.TrimSpace(string(a.text))
		}
		n.opts.Audit.Append(e)
	}
}

// shown returns the container and the move that an order or a grant is about, "" if
// the manager did not sign it.
func (n *Node) shown(sealed []byte, source string) (container, move string) {
	e, err := n.members.Verify(sealed, wire.Orders.Of(source))
	if err != nil {
		return "", ""
	}
	if e.Kind == (wire.Grant{}).Kind() {
		var g wire.Grant
		if e.Read(&g) != nil {
			return "", ""
		}
		return g.Container, g.Move
	}
	var m wire.Move
	if e.Read(&m) != nil {
		return "", ""
	}
	return m.Container, m.ID
}

// answer notes how a request was answered.
type answer struct {
	http.ResponseWriter
	status int
	text   []byte // the beginning of what an error says
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if room := wire.MaxText - len(a.text); a.status >= http.StatusBadRequest && room > 0 {
		a.text = append(a.text, b[:min(room, len(b))]...)
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap returns the wrapped writer, as http.ResponseController expects.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// recordEnd writes to the audit log how a move ended that this node was to make.
func (n *Node) recordEnd(order wire.Move, r wire.MoveReport) {
	if order.DryRun {
		return
	}
	e := audit.Entry{Who: audit.Who{Via: audit.ViaManager}, Action: "move", Object: order.Container,
		Change: map[string]string{"move": order.ID, "from": order.From, "to": order.To}, After: r.State, Result: audit.Failed, Reason: r.Error}
	switch r.State {
	case wire.MoveDone:
		e.Result, e.Reason = audit.Done, order.Why
	case wire.MoveRefused:
		e.Result = audit.Refused
	}
	n.opts.Audit.Append(e)
}

// recordedSet puts a policy into force that the manager sends.
func (n *Node) recordedSet(ctx context.Context, a wire.Apply) error {
	e := audit.Entry{Who: audit.Who{Via: audit.ViaManager}, Action: "apply-policy", Object: a.Workload, Change: a.Change}
	return n.opts.Audit.Do(ctx, e, func(ctx context.Context) error { return n.set(ctx, a) })
}
