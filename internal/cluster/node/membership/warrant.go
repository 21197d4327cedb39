// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"crypto/ed25519"

	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/pki"
	"weir/internal/core/wire"
)

// WithWarrant has the engine's calls show the migration helper, which examines it
// itself, what the manager has sealed: a Move, or a Grant with the proposal that it was
// given for.
func (m *Membership) WithWarrant(ctx context.Context, sealed, proposal []byte) context.Context {
	m.mu.Lock()
	manager := m.certificate
	m.mu.Unlock()
	if !sealedBy(manager, sealed) { // the manager has a new key, or has not been asked yet
		soon, cancel := context.WithTimeout(ctx, membersTimeout)
		defer cancel()
		if info, err := m.Learn(soon); err == nil {
			manager = info.Manager
		}
	}
	return remote.WithWarrant(ctx, remote.Warrant{Sealed: sealed, Manager: manager, Proposal: proposal})
}

// sealedBy reports whether an envelope was sealed by the key of a certificate.
func sealedBy(certificate, sealed []byte) bool {
	cert, err := pki.DecodeCert(certificate)
	if err != nil {
		return false
	}
	key, _ := cert.PublicKey.(ed25519.PublicKey)
	e, err := wire.Open(sealed)
	return err == nil && e.Verify(key, e.Subject) == nil
}
