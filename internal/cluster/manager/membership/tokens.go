// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/manager/statedir"
	"weir/internal/cluster/pki"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

const (
	defaultTTL = 24 * time.Hour
	maxTokens  = 1000 // that may still be used
)

// newToken makes a token for an authority by which so many nodes may join, 0 = one, and
// the record of it that the manager keeps.
func newToken(authority *x509.Certificate, node string, uses int, now time.Time, ttl time.Duration) (pki.Token, *token) {
	t := pki.NewToken(pki.Hash(authority))
	hash := sha256.Sum256([]byte(t.Secret))
	return t, &token{ID: t.ID, Hash: hash[:], Node: node, Uses: max(0, cmp.Or(uses, 1)), Created: now.UTC(), Expires: now.Add(ttl).UTC()}
}

// NewToken makes a token. The answer has its secret, which is kept nowhere.
func (s *Members) NewToken(req api.TokenRequest) (api.Token, error) {
	ttl := defaultTTL
	if req.TTLSeconds > 0 {
		ttl = time.Duration(req.TTLSeconds * float64(time.Second))
	}
	if req.Node != "" {
		if err := wire.CheckNode(req.Node); err != nil {
			return api.Token{}, &refusal.Error{Kind: refusal.Invalid, Field: "node", Value: req.Node, Msg: err.Error()}
		}
	}
	if req.Uses < api.AnyNumber {
		return api.Token{}, &refusal.Error{Kind: refusal.Invalid, Field: "uses", Value: fmt.Sprint(req.Uses), Msg: "is no number of nodes; write 1 or more, or -1 for any number"}
	}
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	t, record := newToken(s.authority.Cert, req.Node, req.Uses, now, ttl)
	tx := &statedir.Transaction{}
	bucketTokens.Put(tx, record.ID, record)
	for id, old := range s.tokens { // tokens that no node can use any more
		if now.Sub(old.Expires) > 7*24*time.Hour {
			bucketTokens.Delete(tx, id)
			delete(s.tokens, id)
		}
	}
	if len(s.tokens) >= maxTokens {
		return api.Token{}, &refusal.Error{Kind: refusal.Conflict, Field: "token", Msg: fmt.Sprintf("there are %d already", len(s.tokens)),
			Remedy: "revoke some: weir manager token list, weir manager token revoke ID"}
	}
	if err := s.write(tx); err != nil {
		return api.Token{}, err
	}
	s.tokens[record.ID] = record
	s.log.Info("token made", "token", record.ID, "node", record.Node, "expires", record.Expires)
	view := tokenView(record)
	view.Token = t.String()
	return view, nil
}

func tokenView(t *token) api.Token {
	return api.Token{ID: t.ID, Node: t.Node, Uses: cmp.Or(t.Uses, api.AnyNumber), Created: t.Created, Expires: t.Expires, Joined: t.Joined}
}

// Tokens returns the tokens, the oldest first.
func (s *Members) Tokens() []api.Token {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []api.Token{}
	for _, t := range s.tokens {
		list = append(list, tokenView(t))
	}
	slices.SortFunc(list, func(a, b api.Token) int { return a.Created.Compare(b.Created) })
	return list
}

// RevokeToken revokes a token. Nodes that joined by it stay.
func (s *Members) RevokeToken(id string) (api.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tokens[id]
	if !ok {
		return api.Token{}, &refusal.Error{Kind: refusal.Unknown, Field: "token", Value: id, Msg: "no token has this id", Remedy: "see weir manager token list"}
	}
	tx := &statedir.Transaction{}
	bucketTokens.Delete(tx, id)
	if err := s.write(tx); err != nil {
		return api.Token{}, err
	}
	delete(s.tokens, id)
	s.log.Info("token revoked", "token", id)
	return tokenView(t), nil
}

// RevokeAll revokes all tokens.
func (s *Members) RevokeAll() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := &statedir.Transaction{}
	for id := range s.tokens {
		bucketTokens.Delete(tx, id)
	}
	clear(s.tokens)
	return s.write(tx)
}

// check says whether a token lets a node join. The lock is held.
func (s *Members) check(id, secret, node string, now time.Time) (*token, error) {
	refuse := func(format string, args ...any) (*token, error) {
		return nil, &refusal.Error{Kind: refusal.Denied, Field: "token", Value: id, Msg: fmt.Sprintf(format, args...), Remedy: "make a new one on the manager: weir manager token create"}
	}
	t, ok := s.tokens[id]
	hash := sha256.Sum256([]byte(secret))
	if !ok || subtle.ConstantTimeCompare(t.Hash, hash[:]) != 1 {
		return refuse("is not known to the manager: revoked, or never made")
	}
	if !now.Before(t.Expires) {
		return refuse("has expired at %s", t.Expires.Format(time.RFC3339))
	}
	if t.Node != "" && t.Node != node {
		return refuse("is for node %s, not for %s", t.Node, node)
	}
	return t, nil
}
