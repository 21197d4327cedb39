// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/ed25519"
	"net/http"

	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/pki"
	"weir/internal/cluster/wire"
)

// withWarrant has the engine's calls show the migration helper, which examines it
// itself, what the manager has sealed: a Move, or a Grant with the proposal that it was
// given for.
func (n *Node) withWarrant(ctx context.Context, sealed, proposal []byte) context.Context {
	n.mu.Lock()
	manager := n.info.Manager
	n.mu.Unlock()
	if !sealedBy(manager, sealed) { // the manager has a new key, or has not been asked yet
		soon, cancel := context.WithTimeout(ctx, membersTimeout)
		defer cancel()
		info, err := ask[wire.Info](soon, n.client(), n.opts.Manager, http.MethodGet, "/v1/info", nil)
		if err == nil && n.believe(info) == nil {
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
