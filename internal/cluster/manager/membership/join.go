// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"crypto/ed25519"
	"crypto/x509"
	"fmt"
	"time"

	"weir/internal/cluster/manager/statedir"
	"weir/internal/cluster/pki"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// Join makes a node a member: it checks the token, signs the certificate and writes the
// member down. The same request again, whose answer was lost, gets the same answer, which
// has no wire.Info.
func (s *Members) Join(req wire.JoinRequest) (wire.JoinAnswer, error) {
	if err := wire.CheckNode(req.Node); err != nil {
		return wire.JoinAnswer{}, &refusal.Error{Kind: refusal.Invalid, Field: "node", Value: req.Node, Msg: err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	cert, err := s.enroll(req, s.clock.Now())
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	return s.answer(cert), nil
}

// enroll returns the certificate of a node that joins. The lock is held.
func (s *Members) enroll(req wire.JoinRequest, now time.Time) (*x509.Certificate, error) {
	t, err := s.check(req.Token, req.Secret, req.Node, now)
	if err != nil {
		return nil, err
	}
	cert, err := s.authority.IssueNode(req.Node, req.Request, now)
	if err != nil {
		return nil, &refusal.Error{Kind: refusal.Invalid, Field: "request", Msg: err.Error()}
	}
	key := cert.PublicKey.(ed25519.PublicKey)
	old, taken := s.members[req.Node]
	if taken && !old.Key.Equal(key) {
		return nil, &refusal.Error{Kind: refusal.Conflict, Field: "name", Value: req.Node, Msg: "a node of this name has joined already",
			Remedy: "choose another name, or remove that one first: weir manager remove " + req.Node}
	}
	again := taken && old.Token == t.ID // the answer was lost
	if t.Uses > 0 && t.Joined >= t.Uses && !again {
		return nil, &refusal.Error{Kind: refusal.Denied, Field: "token", Value: t.ID, Msg: fmt.Sprintf("was used already: it is for %d", t.Uses),
			Remedy: "make another on the manager: weir manager token create, with --uses N for several nodes"}
	}
	member, used := &member{Name: req.Node, Joined: now.UTC(), Key: key, Token: t.ID}, *t
	if !again {
		used.Joined++
	}
	tx := &statedir.Transaction{}
	bucketMembers.Put(tx, member.Name, member)
	bucketTokens.Put(tx, t.ID, &used)
	s.issued(tx, member.Name, cert)
	s.sequence(tx)
	if err := s.write(tx); err != nil {
		return nil, err
	}
	s.members[member.Name], s.tokens[t.ID] = member, &used
	s.log.Info("node joined", "node", member.Name, "token", t.ID)
	return cert, nil
}

// answer shows a node its certificate, and whom to trust. The lock is held.
func (s *Members) answer(cert *x509.Certificate) wire.JoinAnswer {
	return wire.JoinAnswer{Certificate: s.authority.Show(cert), Authority: pki.EncodeCerts(s.trusted())}
}

// issued notes the certificate that a node was given. The lock is held.
func (s *Members) issued(tx *statedir.Transaction, node string, cert *x509.Certificate) {
	hash := pki.Hash(s.authority.Cert)
	record := &certificate{Ends: cert.NotAfter.UTC(), Authority: hash[:]}
	s.certificates[node] = record
	bucketCertificates.Put(tx, node, record)
}
