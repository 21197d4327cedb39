// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"path/filepath"

	"weir/internal/cluster/pki"
)

// ownDir returns the folder of the manager's own certificate and key.
func (s *Members) ownDir() string { return filepath.Join(s.dir, "own") }

// Credentials returns the manager's own, which change by themselves (Maintain).
func (s *Members) Credentials() *pki.Credentials { return s.credentials }

// Identity returns the manager's own identity in use now.
func (s *Members) Identity() pki.Identity { return s.credentials.Identity() }

// ownIdentity reads the manager's identity and makes what of it is missing, has ended
// or is of a former authority. The key is made anew with the authority only: nodes know
// orders by it.
func (s *Members) ownIdentity() (pki.Identity, error) {
	id, err := pki.LoadIdentity(s.ownDir())
	if err != nil && !errors.Is(err, pki.ErrNone) && !errors.Is(err, pki.ErrMismatch) {
		return id, err
	}
	if err != nil || !s.authority.Issued(id.Cert) {
		return s.newIdentity()
	}
	if !s.clock.Now().Before(id.RenewAt()) {
		return s.issueOwn(id.Key)
	}
	id.Authority, id.Bridges, id.Trusted = s.authority.Cert, s.authority.Bridges, s.trusted()
	return id, nil
}

func (s *Members) newIdentity() (pki.Identity, error) {
	key, err := pki.NewKey()
	if err != nil {
		return pki.Identity{}, err
	}
	return s.issueOwn(key)
}

// issueOwn signs the manager's certificate and keeps it.
func (s *Members) issueOwn(key ed25519.PrivateKey) (pki.Identity, error) {
	id := pki.Identity{Authority: s.authority.Cert, Bridges: s.authority.Bridges, Trusted: s.trusted(), Key: key}
	var err error
	if id.Cert, err = s.authority.IssueManager(id.Public(), s.clock.Now()); err != nil {
		return id, err
	}
	return id, id.Save(s.ownDir())
}

// trusted returns the authorities whose certificates count: the present one and,
// during a rotation, the one before it.
func (s *Members) trusted() []*x509.Certificate {
	list := []*x509.Certificate{s.authority.Cert}
	if r := s.trust.Rotation; r != nil {
		if former, err := x509.ParseCertificate(r.Former); err == nil {
			list = append(list, former)
		}
	}
	return list
}

// Maintain renews the manager's certificate in time, and ends a rotation whose time has come.
// unsettled says that a move which was ordered before the rotation is not over. Call it
// every minute.
func (s *Members) Maintain(unsettled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if id := s.Identity(); !now.Before(id.RenewAt()) {
		next, err := s.issueOwn(id.Key)
		if err != nil { // the disk: the new one counts until the next start, which makes another
			s.log.Error("the manager's certificate cannot be kept; is the disk full?", "err", err)
		}
		if next.Cert != nil {
			s.credentials.Replace(next)
			s.log.Info("the manager's certificate is renewed", "expires", next.Cert.NotAfter)
		}
	}
	s.endRotation(now, unsettled)
}
