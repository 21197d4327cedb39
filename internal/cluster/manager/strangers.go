// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/audit"
	"weir/internal/cluster/node/gate"
	"weir/internal/crowd"
	"weir/internal/refusal"
	"weir/internal/server/rest"
)

// forStrangers are the patterns of the routes that a node may ask before it is a member. A
// route that is not among them is for members, and so is a path without a route.
var forStrangers = []string{"POST /v1/join", "POST /v1/renew"}

// What strangers may do at the port for nodes.
const (
	memberConnections = 256  // of one member: its engine has one for each layer that comes or goes
	connections       = 4096 // of all members

	failuresAtOnce = 20          // requests of an address to join or to renew that are refused
	failureEvery   = time.Second // one more
	allFailures    = 1000        // of all addresses
	allEvery       = 2 * time.Millisecond
)

// What the requests of strangers to join and to renew may look like. A signing request has
// some 200 bytes, its envelope some 1,000.
var (
	joinShape  = rest.Shape{Bytes: 4 << 10, Levels: 1, Values: 8}
	renewShape = rest.Shape{Bytes: 8 << 10, Levels: 1, Values: 4}
)

// strangers bounds what strangers cost, and counts what they are refused.
type strangers struct {
	log     *slog.Logger
	audit   *audit.Log
	refused *atomic.Uint64

	each, all crowd.Rates // failures
	turned    crowd.Lines // of the log, about requests that were refused unread
	failures  crowd.Lines // about those that were read
}

func newStrangers(m *Manager) *strangers {
	return &strangers{log: m.log, audit: m.opts.Audit, refused: &m.refused,
		each: crowd.Rates{Burst: failuresAtOnce, Every: failureEvery}, all: crowd.Rates{Burst: allFailures, Every: allEvery}}
}

// guarded returns the port for nodes: strangers make room for each other, members do not.
func guarded(m *Manager, ln net.Listener) net.Listener {
	at := crowd.Listen(ln, crowd.Limits{Unknown: gate.ConnectionsUnknown, Each: memberConnections, All: connections})
	at.Say = func(n int, last string) {
		m.log.Warn("connections without a certificate were closed, to make room", "connections", n, "last", last)
	}
	return tls.NewListener(at, gate.Guard(m.members.Credentials().Server(tls.VerifyClientCertIfGiven),
		func(name string, cert *x509.Certificate) bool { return m.members.Admit(name, cert) == nil }))
}

// mayAsk says why a request without a member's certificate is refused before its body is
// read, nil if it may be read.
func (s *strangers) mayAsk(pattern, address string) *refusal.Error {
	if !slices.Contains(forStrangers, pattern) {
		return &refusal.Error{Kind: refusal.Denied, Field: "certificate", Msg: "no certificate of this cluster was shown", Remedy: "join first, with a token"}
	}
	if now := time.Now(); !s.each.Has(address, now) || !s.all.Has("", now) {
		return &refusal.Error{Kind: refusal.TooMany, Msg: "too many requests to join were refused lately", Remedy: "wait for some seconds"}
	}
	return nil
}

// turnAway refuses a request unread. The log has one line for many, in which what a stranger
// wrote is cut.
func (s *strangers) turnAway(w http.ResponseWriter, r *http.Request, who remote, action string, no *refusal.Error) {
	s.refused.Add(1)
	if omitted, due := s.turned.Due(time.Now()); due {
		s.log.Warn("request refused", "path", short(r.URL.Path), "node", no.Value, "peer", r.RemoteAddr, "err", no.Msg, "omitted", omitted)
	}
	s.audit.Append(audit.Entry{Who: who.author(), Action: action, Object: no.Value, Result: audit.Refused, Reason: no.Msg})
	rest.RefuseUnread(w, r, no)
}

// serve serves a request to join or to renew, and counts it if it is refused.
func (s *strangers) serve(w http.ResponseWriter, r *http.Request, address string, h http.Handler) {
	rest.IfRefused(h, w, r, func() {
		now := time.Now()
		s.each.Take(address, now)
		s.all.Take("", now)
	})
}

// failed notes a request to join or to renew that was refused.
func (s *strangers) failed(what, node string, peer remote, err error) {
	s.refused.Add(1)
	if omitted, due := s.failures.Due(time.Now()); due {
		s.log.Warn(what+" refused", "node", short(node), "peer", peer.address, "err", short(err.Error()), "omitted", omitted)
	}
}

// short cuts a text of a stranger's; the log escapes what is not to be printed.
func short(text string) string { return strings.ToValidUTF8(text[:min(len(text), 200)], "?") }
