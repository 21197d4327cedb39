// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"time"

	"weir/internal/cluster/manager/statedir"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// renewWindow is how far the time in a request for a renewal may be from the manager's.
const renewWindow = 10 * time.Minute

// Renew signs a new certificate for a member, which keeps its key and shows by its
// signature that it has it. Its certificate is not asked for: a member that was
// switched off for long has none that counts. The answer has no wire.Info.
func (s *Members) Renew(req wire.SealedRenewRequest) (wire.JoinAnswer, error) {
	now := s.clock.Now()
	e, err := wire.Open(req.Sealed)
	if err != nil {
		return wire.JoinAnswer{}, &refusal.Error{Kind: refusal.Invalid, Field: "sealed", Msg: err.Error()}
	}
	if err := wire.CheckNode(e.From); err != nil {
		return wire.JoinAnswer{}, &refusal.Error{Kind: refusal.Invalid, Field: "sealed", Msg: "is of no node"}
	}
	refuse := func(msg, remedy string) (wire.JoinAnswer, error) {
		return wire.JoinAnswer{}, &refusal.Error{Kind: refusal.Denied, Field: "node", Value: e.From, Msg: msg, Remedy: remedy}
	}
	key := s.Key(e.From)
	if key == nil {
		return refuse(errNoMember.Error(), Rejoin)
	}
	if err := e.Verify(key, wire.RenewSubject); err != nil {
		return refuse("has not signed the request with the key that it joined by: "+err.Error(), Rejoin)
	}
	if off := now.Sub(e.At); off > renewWindow || off < -renewWindow {
		return refuse("signed the request at "+e.At.Format(time.RFC3339)+", and here it is "+now.UTC().Format(time.RFC3339), "set the clocks of both machines")
	}
	var r wire.RenewRequest
	if err := e.Read(&r); err != nil {
		return wire.JoinAnswer{}, &refusal.Error{Kind: refusal.Invalid, Field: "sealed", Msg: err.Error()}
	}
	return s.reissue(e.From, r.Request, now)
}

// Rejoin is the remedy for a node whose key the manager does not know.
const Rejoin = "remove the node's folder cluster in its state_dir and join again with a new token"

// reissue signs a certificate for a member's present key and notes it.
func (s *Members) reissue(node string, request []byte, now time.Time) (wire.JoinAnswer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cert, err := s.authority.IssueNode(node, request, now)
	if err != nil {
		return wire.JoinAnswer{}, &refusal.Error{Kind: refusal.Invalid, Field: "request", Msg: err.Error()}
	}
	if err := s.admit(node, cert); err != nil {
		return wire.JoinAnswer{}, &refusal.Error{Kind: refusal.Denied, Field: "request", Msg: "node " + node + " " + err.Error(), Remedy: Rejoin}
	}
	tx := &statedir.Transaction{}
	s.issued(tx, node, cert)
	if err := s.write(tx); err != nil {
		return wire.JoinAnswer{}, err
	}
	s.log.Info("certificate renewed", "node", node, "expires", cert.NotAfter)
	return s.answer(cert), nil
}
