// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/pki"
	"weir/internal/refusal"
)

// A rotation replaces the authority while the cluster runs:
//
//	t = 0       a new authority and a new key of the manager; the former authority signs a
//	            bridge to the new one, and its key is destroyed
//	some 15 s   nodes read both authorities and both keys of the manager from the list of
//	            members and ask for certificates of the new one
//	until then  a node that has not read the list yet believes the new certificates by the bridge
//	at the end  the former authority and the manager's former key are off the list, so
//	            what they have signed counts no more
//
// It ends when every member has a certificate of the new authority and no move that was
// ordered before it is under way, but not before settleTime; and after graceTime in any
// case. A member that was off all that time finds the manager by the bridge, shows that
// it has its key, and is given a certificate.
const (
	settleTime = orderLife
	graceTime  = 2 * pki.CertificateLife
)

// RotateAuthority implements api.Manager.
func (m *Manager) RotateAuthority(context.Context) (api.Authority, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	if r := m.trust.Rotation; r != nil {
		return api.Authority{}, &refusal.Error{Kind: refusal.Conflict, Field: "authority",
			Msg:    fmt.Sprintf("a rotation that began %s is under way: %d of %d nodes have a certificate of the new authority", r.Started.Format(time.RFC3339), len(m.names())-len(m.behind()), len(m.names())),
			Remedy: "wait for its end, see weir manager status; remove nodes that will not come back"}
	}
	next, err := m.authority.Rotate(now)
	if err != nil {
		return api.Authority{}, err
	}
	m.trust.Rotation = &rotation{Started: now.UTC(), Former: m.authority.Cert.Raw, ManagerKey: m.identity().Public()}
	c := &change{}
	m.nextSequence(c)
	if err := m.write(c); err != nil {
		m.trust.Rotation = nil
		return api.Authority{}, err
	}
	if err := next.Replace(m.opts.Dir); err != nil {
		m.trust.Rotation = nil // a start finds the former authority and drops the record
		return api.Authority{}, fmt.Errorf("the new authority cannot be kept: %w", err)
	}
	m.authority = next
	own, err := m.newIdentity()
	if own.Cert != nil {
		m.credentials.Replace(own)
	}
	m.list = memberList{}
	if err != nil { // a start makes another
		m.log.Error("the manager's certificate cannot be kept; is the disk full?", "err", err)
	}
	m.log.Info("rotation of the authority begins", "nodes", len(m.members), "authority", hashText(next))
	return m.authorityView(), nil
}

// behind returns the members without a certificate of the present authority. The lock is
// held.
func (m *Manager) behind() []string {
	hash := pki.Hash(m.authority.Cert)
	list := []string{}
	for _, name := range m.names() {
		if cert := m.certificates[name]; cert == nil || !bytes.Equal(cert.Authority, hash[:]) {
			list = append(list, name)
		}
	}
	return list
}

// endRotation drops the former authority if it may be. The lock is held.
func (m *Manager) endRotation(now time.Time) {
	r := m.trust.Rotation
	if r == nil {
		return
	}
	behind := m.behind()
	if now.Sub(r.Started) < graceTime && (len(behind) > 0 || now.Sub(r.Started) < settleTime || m.movesSince(r.Started)) {
		return
	}
	m.trust.Rotation = nil
	c := &change{}
	m.nextSequence(c)
	if err := m.write(c); err != nil {
		m.trust.Rotation = r
		return
	}
	own := m.identity()
	own.Trusted = m.trusted()
	if err := own.Save(m.ownDir()); err != nil {
		m.log.Error("the manager's certificate cannot be kept; is the disk full?", "err", err)
	}
	m.credentials.Replace(own)
	m.log.Info("rotation of the authority has ended; the former one counts no more", "authority", hashText(m.authority), "nodes_without_a_new_certificate", behind)
}

// movesSince reports whether a move that was made before a time is not over: its order
// was signed by the manager's former key. The lock is held.
func (m *Manager) movesSince(t time.Time) bool {
	for _, mv := range m.moves {
		if !mv.final() && mv.Created.Before(t) {
			return true
		}
	}
	return false
}

// authorityView returns the authority as people see it. The lock is held.
func (m *Manager) authorityView() api.Authority {
	v := api.Authority{Hash: hashText(m.authority), Ends: m.authority.Cert.NotAfter.UTC(), CertificateEnds: m.identity().Cert.NotAfter.UTC()}
	if r := m.trust.Rotation; r != nil {
		v.Rotation = &api.Rotation{Started: r.Started, Nodes: len(m.members), Behind: m.behind(), EndsBy: r.Started.Add(graceTime)}
		v.Rotation.Renewed = v.Rotation.Nodes - len(v.Rotation.Behind)
	}
	return v
}

// hashText tells authorities apart: the first 16 digits of the hash of its key.
func hashText(a pki.Authority) string {
	hash := pki.Hash(a.Cert)
	return fmt.Sprintf("%x", hash[:8])
}
