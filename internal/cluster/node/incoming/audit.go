// SPDX-License-Identifier: Apache-2.0

package incoming

import (
	"encoding/base64"
	"net/http"
	"strings"

	"weir/internal/base/audit"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/pki"
	"weir/internal/core/wire"
)

// recorded writes to the audit log what other nodes have this one do, and what they
// are refused. What only looks and is granted has no line.
func (s *Server) recorded(next http.HandlerFunc) http.HandlerFunc {
	if s.opts.Audit == nil {
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
			if sealed, err := base64.StdEncoding.DecodeString(r.Header.Get(remote.OrderHeader)); err == nil {
				e.Object, change["move"] = s.shown(sealed, source)
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
		s.opts.Audit.Append(e)
	}
}

// shown returns the container and the move that an order or a grant is about, "" if
// the manager did not sign it. The call itself has asked for the manager's newest key.
func (s *Server) shown(sealed []byte, source string) (container, move string) {
	e, err := s.opts.Members.VerifyAtOnce(sealed, wire.Orders.Of(source))
	if err != nil {
		return "", ""
	}
	m, _, err := e.Permission()
	if err != nil {
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
