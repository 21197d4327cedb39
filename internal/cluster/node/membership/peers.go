// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"weir/internal/cluster/pki"
)

// errNoMember is wrapped where a peer is refused because it is not on the list.
var errNoMember = errors.New("is no member of this cluster")

// Admit says why a peer that connects, or that sends a request, is refused, or nil.
func (m *Membership) Admit(node string, cert *x509.Certificate) error {
	return m.check(node, cert, m.roster.key)
}

// ClientTLS returns the TLS configuration by which this node connects to a peer. It
// accepts a removed peer by the key that this one had: a move that was begun with it
// has to come to its end. It cannot begin one, see MayBegin.
func (m *Membership) ClientTLS(to string) *tls.Config {
	cfg := m.credentials.Client(pki.NodeName(to))
	inOrder := cfg.VerifyConnection
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		if err := inOrder(state); err != nil {
			return err
		}
		if err := m.check(to, state.PeerCertificates[0], m.roster.keyOfTarget); err != nil {
			return fmt.Errorf("node %s %w", to, err)
		}
		return nil
	}
	return cfg
}

// check compares a peer's key with the one that is known. Where that fails, the manager
// is asked: it may know the peer only since a moment ago.
func (m *Membership) check(node string, cert *x509.Certificate, keyOf func(string) ed25519.PublicKey) error {
	err := compareKey(cert, keyOf(node))
	if err != nil && m.askForPeer() {
		err = compareKey(cert, keyOf(node))
	}
	return err
}

func compareKey(cert *x509.Certificate, known ed25519.PublicKey) error {
	key, _ := cert.PublicKey.(ed25519.PublicKey)
	switch {
	case known == nil:
		return fmt.Errorf("%w (it was removed, or has joined just now)", errNoMember)
	case !bytes.Equal(known, key):
		return fmt.Errorf("%w with this key (another machine has joined by its name)", errNoMember)
	}
	return nil
}

// askForPeer asks for the list because of a peer that is not on it: it may have joined
// just now. It reports whether the manager has answered since the call. Strangers can
// make it ask once in membersPause; a call that comes meanwhile waits for the next
// answer.
func (m *Membership) askForPeer() bool {
	came := time.Now()
	m.roster.forPeers.Lock()
	defer m.roster.forPeers.Unlock()
	if m.roster.asked.After(came) {
		return m.roster.answered
	}
	time.Sleep(membersPause - time.Since(m.roster.asked))
	ctx, cancel := context.WithTimeout(context.Background(), membersTimeout)
	defer cancel()
	m.roster.asked = time.Now()
	m.roster.answered = m.Refresh(ctx) == nil
	return m.roster.answered
}

// askUnlessLately calls askForPeer for a caller that must not keep this node waiting:
// where another call asks now, or has asked within membersPause, it does not ask again.
func (m *Membership) askUnlessLately() bool {
	if !m.roster.forPeers.TryLock() {
		return false
	}
	lately := time.Since(m.roster.asked) < membersPause
	m.roster.forPeers.Unlock()
	return !lately && m.askForPeer()
}

// cutOff closes the connections of peers that are not on the list any more.
func (m *Membership) cutOff() {
	if cut := m.serving.CloseUnless(func(node string) bool { return m.roster.key(node) != nil }); cut > 0 {
		m.log.Info("connections of nodes that were removed are closed", "connections", cut)
	}
}

// ServerTLS returns the TLS configuration by which peers connect to this node.
func (m *Membership) ServerTLS() *tls.Config {
	return m.credentials.Server(tls.RequireAndVerifyClientCert)
}

// Serving notes that a request of a peer is served until done. The connection (see
// pki.WithConnection) is closed when the peer leaves the list of members.
func (m *Membership) Serving(ctx context.Context, peer string) (done func()) {
	return m.serving.Use(ctx, peer)
}
