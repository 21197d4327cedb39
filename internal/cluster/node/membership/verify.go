// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"

	"weir/internal/core/wire"
)

// Verify opens an envelope that is to be the manager's. Where it is not signed by a key
// that is known, Verify waits for the newest list: the manager may have a new key.
func (m *Membership) Verify(data []byte, subject wire.Subject) (wire.Envelope, error) {
	return m.verify(data, subject, m.askForPeer)
}

// VerifyForPeer is Verify for an envelope that a peer shows. A peer that sends many of
// them does not keep this node waiting, see askUnlessLately.
func (m *Membership) VerifyForPeer(data []byte, subject wire.Subject) (wire.Envelope, error) {
	return m.verify(data, subject, m.askUnlessLately)
}

// VerifyAtOnce is Verify by the keys that are known, without a question to the manager.
func (m *Membership) VerifyAtOnce(data []byte, subject wire.Subject) (wire.Envelope, error) {
	return m.verify(data, subject, func() bool { return false })
}

func (m *Membership) verify(data []byte, subject wire.Subject, ask func() bool) (wire.Envelope, error) {
	e, err := wire.Open(data)
	if err != nil {
		return e, err
	}
	if err = m.byManager(e, subject); err != nil && e.From == wire.Manager && ask() {
		err = m.byManager(e, subject)
	}
	return e, err
}

// byManager says whether an envelope was sealed by a key that counts as the manager's.
func (m *Membership) byManager(e wire.Envelope, on wire.Subject) error {
	if e.From != wire.Manager {
		return fmt.Errorf("%w: only the manager gives orders", wire.ErrForged)
	}
	m.mu.Lock()
	keys := append(m.roster.managers(), m.key)
	m.mu.Unlock()
	err := fmt.Errorf("%w: not signed by %s", wire.ErrForged, e.From)
	for _, key := range keys {
		if len(key) == 0 {
			continue
		}
		if err = e.Verify(key, on); err == nil {
			return nil
		}
	}
	return err
}
