// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"weir/internal/api/rest"
	"weir/internal/base/audit"
	"weir/internal/base/crowd"
	"weir/internal/cluster/node/gate"
	"weir/internal/core/refusal"
)

// forStrangers are the patterns of the routes that a node may ask before it is a member. A
// route that is not among them is for members, and so is a path without a route.
var forStrangers = []string{"POST /v1/join", renewal}

// renewal is the pattern by which a former member gets a certificate.
const renewal = "POST /v1/renew"

// What strangers may do at the port for nodes.
const (
	memberConnections = 256  // of one member: its engine has one for each layer that comes or goes
	connections       = 4096 // of all members

	failuresAtOnce = 20          // requests of an address to join or to renew that are refused
	failureEvery   = time.Second // one more

	// bodyTime bounds how long a stranger's request may take to come.
	bodyTime = 2 * time.Second
)

// answered is how many requests of strangers are answered at once, each within a millisecond.
// The others wait for their turn, each on a connection of its own: strangers with many
// addresses, each of which is refused for the first time, keep no node out that has a token.
var answered = max(2, runtime.NumCPU()/2)

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

	each     crowd.Rates // failures
	turns    gate.Slots
	turned   crowd.Lines // of the log, about requests that were refused unread
	failures crowd.Lines // about those that were read
}

func newStrangers(m *Manager) *strangers {
	return &strangers{log: m.log, audit: m.opts.Audit, refused: &m.refused,
		each: crowd.Rates{Burst: failuresAtOnce, Every: failureEvery}, turns: make(gate.Slots, answered)}
}

// guarded returns the port for nodes: strangers make room for each other, members do not.
func guarded(m *Manager, ln net.Listener) net.Listener {
	at := crowd.Listen(ln, crowd.ConnLimits{Unknown: gate.ConnectionsUnknown, Each: memberConnections, All: connections})
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
	if !s.each.Has(address, time.Now()) {
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

// serve serves a request to join or to renew once all of it is here, when its turn comes, and
// counts it if it is refused. Its connection ends with it.
func (s *strangers) serve(w http.ResponseWriter, r *http.Request, pattern, address string, h http.Handler) {
	w.Header().Set("Connection", "close")
	most := joinShape.Bytes
	if pattern == renewal {
		most = renewShape.Bytes
	}
	if r.ContentLength <= most { // a longer one is refused unread
		arrive(w, r, most)
	}
	crowd.Asked(r.Context())
	done, err := s.turns.Take(r.Context())
	if err != nil {
		return // the stranger has gone
	}
	defer done()
	rest.IfRefused(h, w, r, func() { s.each.Take(address, time.Now()) })
}

// arrive reads a body of at most so many bytes, which the handler then has at once.
func arrive(w http.ResponseWriter, r *http.Request, most int64) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // fails where there is no connection
	head, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	gate.Arrived(w)
	further := io.Reader(r.Body)
	if err != nil {
		further = failing{err}
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), further), r.Body}
}

// failing is the rest of a body that cannot be read.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }

// failed notes a request to join or to renew that was refused.
func (s *strangers) failed(what, node string, peer remote, err error) {
	s.refused.Add(1)
	if omitted, due := s.failures.Due(time.Now()); due {
		s.log.Warn(what+" refused", "node", short(node), "peer", peer.address, "err", short(err.Error()), "omitted", omitted)
	}
}

// short cuts a text of a stranger's; the log escapes what is not to be printed.
func short(text string) string { return strings.ToValidUTF8(text[:min(len(text), 200)], "?") }
