// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/pki"
	"weir/internal/cluster/wire"
	"weir/internal/refusal"
)

const defaultTTL = 24 * time.Hour

// AnyNumber is the number of uses of a token that any number of nodes may join by.
const AnyNumber = -1

// newToken makes a token for an authority by which so many nodes may join, 0 = one, and
// the record of it that the manager keeps.
func newToken(authority *x509.Certificate, node string, uses int, now time.Time, ttl time.Duration) (pki.Token, *token) {
	t := pki.NewToken(pki.Hash(authority))
	hash := sha256.Sum256([]byte(t.Secret))
	return t, &token{ID: t.ID, Hash: hash[:], Node: node, Uses: max(0, cmp.Or(uses, 1)), Created: now.UTC(), Expires: now.Add(ttl).UTC()}
}

// NewToken implements api.Manager.
func (m *Manager) NewToken(_ context.Context, req api.TokenRequest) (api.Token, error) {
	ttl := defaultTTL
	if req.TTLSeconds > 0 {
		ttl = time.Duration(req.TTLSeconds * float64(time.Second))
	}
	if req.Node != "" {
		if err := wire.CheckNode(req.Node); err != nil {
			return api.Token{}, &refusal.Error{Kind: refusal.Invalid, Field: "node", Value: req.Node, Msg: err.Error()}
		}
	}
	if req.Uses < AnyNumber {
		return api.Token{}, &refusal.Error{Kind: refusal.Invalid, Field: "uses", Value: fmt.Sprint(req.Uses), Msg: "is no number of nodes; write 1 or more, or -1 for any number"}
	}
	now := m.clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	t, record := newToken(m.authority.Cert, req.Node, req.Uses, now, ttl)
	c := &change{}
	c.put(bucketTokens, record.ID, record)
	for id, old := range m.tokens { // tokens that no node can use any more
		if now.Sub(old.Expires) > 7*24*time.Hour {
			c.put(bucketTokens, id, nil)
			delete(m.tokens, id)
		}
	}
	if len(m.tokens) >= maxTokens {
		return api.Token{}, &refusal.Error{Kind: refusal.Conflict, Field: "token", Msg: fmt.Sprintf("there are %d already", len(m.tokens)),
			Remedy: "revoke some: weir manager token list, weir manager token revoke ID"}
	}
	if err := m.write(c); err != nil {
		return api.Token{}, err
	}
	m.tokens[record.ID] = record
	m.log.Info("token made", "token", record.ID, "node", record.Node, "expires", record.Expires)
	view := tokenView(record)
	view.Token = t.String()
	return view, nil
}

func tokenView(t *token) api.Token {
	return api.Token{ID: t.ID, Node: t.Node, Uses: cmp.Or(t.Uses, AnyNumber), Created: t.Created, Expires: t.Expires, Joined: t.Joined}
}

// Tokens implements api.Manager.
func (m *Manager) Tokens(context.Context) ([]api.Token, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := []api.Token{}
	for _, t := range m.tokens {
		list = append(list, tokenView(t))
	}
	slices.SortFunc(list, func(a, b api.Token) int { return a.Created.Compare(b.Created) })
	return list, nil
}

// RevokeToken implements api.Manager. Nodes that joined by it stay.
func (m *Manager) RevokeToken(_ context.Context, id string) (api.Token, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.tokens[id]
	if !ok {
		return api.Token{}, &refusal.Error{Kind: refusal.Unknown, Field: "token", Value: id, Msg: "no token has this id", Remedy: "see weir manager token list"}
	}
	c := &change{}
	c.put(bucketTokens, id, nil)
	if err := m.write(c); err != nil {
		return api.Token{}, err
	}
	delete(m.tokens, id)
	m.log.Info("token revoked", "token", id)
	return tokenView(t), nil
}

// check says whether a token lets a node join. The lock is held.
func (m *Manager) check(id, secret, node string, now time.Time) (*token, error) {
	refuse := func(format string, args ...any) (*token, error) {
		return nil, &refusal.Error{Kind: refusal.Denied, Field: "token", Value: id, Msg: fmt.Sprintf(format, args...), Remedy: "make a new one on the manager: weir manager token create"}
	}
	t, ok := m.tokens[id]
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

// join makes a node a member.
func (m *Manager) join(ctx context.Context, req wire.JoinRequest) (wire.JoinAnswer, error) {
	if err := wire.CheckNode(req.Node); err != nil {
		return wire.JoinAnswer{}, &refusal.Error{Kind: refusal.Invalid, Field: "node", Value: req.Node, Msg: err.Error()}
	}
	cert, err := m.enroll(req, m.clock.Now())
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	if err := m.bus.Admit(ctx, req.Node); err != nil {
		return wire.JoinAnswer{}, fmt.Errorf("the bus does not take node %s: %w", req.Node, err)
	}
	return m.welcome(cert), nil
}

// enroll checks the token, signs the certificate and writes the member down.
func (m *Manager) enroll(req wire.JoinRequest, now time.Time) (*x509.Certificate, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, err := m.check(req.Token, req.Secret, req.Node, now)
	if err != nil {
		return nil, err
	}
	cert, err := m.authority.IssueNode(req.Node, req.Request, now)
	if err != nil {
		return nil, &refusal.Error{Kind: refusal.Invalid, Field: "request", Msg: err.Error()}
	}
	key := cert.PublicKey.(ed25519.PublicKey)
	old, taken := m.members[req.Node]
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
	c := &change{}
	c.put(bucketMembers, member.Name, member)
	c.put(bucketTokens, t.ID, &used)
	m.issued(c, member.Name, cert)
	if err := m.write(c); err != nil {
		return nil, err
	}
	m.members[member.Name], m.tokens[t.ID] = member, &used
	m.log.Info("node joined", "node", member.Name, "token", t.ID)
	return cert, nil
}

func (m *Manager) welcome(cert *x509.Certificate) wire.JoinAnswer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return wire.JoinAnswer{Certificate: m.authority.Show(cert), Authority: pki.EncodeCerts(m.trusted()), Info: m.info()}
}

// info returns what the manager tells its members.
func (m *Manager) info() wire.Info {
	return wire.Info{Manager: m.identity().Bundle(), Bus: m.opts.Bus.String(), BusPort: m.busPort, Registry: m.opts.Registry}
}

// RemoveNode implements api.Manager. Nothing keeps a node in the cluster: its moves end
// with it.
func (m *Manager) RemoveNode(ctx context.Context, name string) (api.Node, error) {
	view, err := m.drop(name)
	if err != nil {
		return view, err
	}
	if cut := m.serving.CloseUnless(m.isMember); cut > 0 {
		m.log.Info("requests of a removed node are cut off", "node", name, "connections", cut)
	}
	if err := m.bus.Remove(ctx, name); err != nil {
		return view, fmt.Errorf("node %s is no member any more, but the bus keeps something of it: %w", name, err)
	}
	return view, nil
}

func (m *Manager) drop(name string) (api.Node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.members[name]; !ok {
		return api.Node{}, m.unknownNode("name", name)
	}
	now := time.Now()
	view := m.nodeView(name, now)
	c := &change{}
	c.put(bucketMembers, name, nil)
	c.put(bucketCertificates, name, nil)
	if err := m.write(c); err != nil {
		return view, err
	}
	delete(m.members, name)
	delete(m.certificates, name)
	delete(m.nodes, name)
	m.log.Info("node removed", "node", name)
	m.forsake(name, now)
	return view, nil
}

// names returns the members' names, in order. The lock is held.
func (m *Manager) names() []string { return slices.Sorted(maps.Keys(m.members)) }

func (m *Manager) isMember(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.members[name] != nil
}
