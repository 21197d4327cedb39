// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"time"

	"weir/internal/cluster/wire"
	"weir/internal/refusal"
)

// renewWindow is how far the time in a request for a renewal may be from the manager's.
const renewWindow = 10 * time.Minute

// renew signs a new certificate for a member, which keeps its key and shows by its
// signature that it has it. Its certificate is not asked for: a member that was
// switched off for long has none that counts.
func (m *Manager) renew(req wire.SealedRenewRequest) (wire.JoinAnswer, error) {
	now := m.clock.Now()
	e, err := wire.Open(req.Sealed)
	if err != nil {
		return wire.JoinAnswer{}, &refusal.Error{Kind: refusal.Invalid, Field: "sealed", Msg: err.Error()}
	}
	refuse := func(msg, remedy string) (wire.JoinAnswer, error) {
		m.refused.Add(1)
		m.log.Warn("renewal refused", "node", e.From, "err", msg)
		return wire.JoinAnswer{}, &refusal.Error{Kind: refusal.Denied, Field: "node", Value: e.From, Msg: msg, Remedy: remedy}
	}
	m.mu.Lock()
	known := m.members[e.From]
	m.mu.Unlock()
	if known == nil {
		return refuse("is no member of this cluster (removed, or of one that was before)", rejoin)
	}
	if err := e.Verify(known.Key, wire.RenewSubject); err != nil {
		return refuse("has not signed the request with the key that it joined by: "+err.Error(), rejoin)
	}
	if off := now.Sub(e.At); off > renewWindow || off < -renewWindow {
		return refuse("signed the request at "+e.At.Format(time.RFC3339)+", and here it is "+now.UTC().Format(time.RFC3339), "set the clocks of both machines")
	}
	var r wire.RenewRequest
	if err := e.Read(&r); err != nil {
		return wire.JoinAnswer{}, &refusal.Error{Kind: refusal.Invalid, Field: "sealed", Msg: err.Error()}
	}
	return m.reissue(e.From, r.Request, now)
}

// rejoin is the remedy for a node whose key the manager does not know.
const rejoin = "remove the node's folder cluster in its state_dir and join again with a new token"

// reissue signs a certificate for a member's present key and notes it.
func (m *Manager) reissue(node string, request []byte, now time.Time) (wire.JoinAnswer, error) {
	m.mu.Lock()
	cert, err := m.authority.IssueNode(node, request, now)
	m.mu.Unlock()
	if err != nil {
		return wire.JoinAnswer{}, &refusal.Error{Kind: refusal.Invalid, Field: "request", Msg: err.Error()}
	}
	if err := m.admits(node, cert); err != nil {
		return wire.JoinAnswer{}, &refusal.Error{Kind: refusal.Denied, Field: "request", Msg: "node " + node + " " + err.Error(), Remedy: rejoin}
	}
	c := &change{}
	m.mu.Lock()
	m.issued(c, node, cert)
	err = m.write(c)
	m.mu.Unlock()
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	m.log.Info("certificate renewed", "node", node, "expires", cert.NotAfter)
	return m.welcome(cert), nil
}
