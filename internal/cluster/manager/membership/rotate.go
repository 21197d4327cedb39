// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"bytes"
	"fmt"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/manager/moves"
	"weir/internal/cluster/manager/statedir"
	"weir/internal/cluster/pki"
	"weir/internal/core/refusal"
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
	settleTime = moves.OrderLife
	graceTime  = 2 * pki.CertificateLife
)

// Rotate begins a rotation.
func (s *Members) Rotate() (api.Authority, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if r := s.trust.Rotation; r != nil {
		return api.Authority{}, &refusal.Error{Kind: refusal.Conflict, Field: "authority",
			Msg:    fmt.Sprintf("a rotation that began %s is under way: %d of %d nodes have a certificate of the new authority", r.Started.Format(time.RFC3339), len(s.names())-len(s.behind()), len(s.names())),
			Remedy: "wait for its end, see weir manager status; remove nodes that will not come back"}
	}
	next, err := s.authority.Rotate(now)
	if err != nil {
		return api.Authority{}, err
	}
	s.trust.Rotation = &rotation{Started: now.UTC(), Former: s.authority.Cert.Raw, ManagerKey: s.Identity().Public()}
	tx := &statedir.Transaction{}
	s.sequence(tx)
	if err := s.write(tx); err != nil {
		s.trust.Rotation = nil
		return api.Authority{}, err
	}
	if err := next.Replace(s.dir); err != nil {
		s.trust.Rotation = nil // a start finds the former authority and drops the record
		return api.Authority{}, fmt.Errorf("the new authority cannot be kept: %w", err)
	}
	s.authority = next
	own, err := s.newIdentity()
	if own.Cert != nil {
		s.credentials.Replace(own)
	}
	s.list = memberList{}
	if err != nil { // a start makes another
		s.log.Error("the manager's certificate cannot be kept; is the disk full?", "err", err)
	}
	s.log.Info("rotation of the authority begins", "nodes", len(s.members), "authority", hashText(next))
	return s.authorityView(), nil
}

// behind returns the members without a certificate of the present authority. The lock is
// held.
func (s *Members) behind() []string {
	hash := pki.Hash(s.authority.Cert)
	list := []string{}
	for _, name := range s.names() {
		if cert := s.certificates[name]; cert == nil || !bytes.Equal(cert.Authority, hash[:]) {
			list = append(list, name)
		}
	}
	return list
}

// Rotating returns when the rotation under way has begun; ok says whether there is one.
func (s *Members) Rotating() (since time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trust.Rotation == nil {
		return since, false
	}
	return s.trust.Rotation.Started, true
}

// endRotation drops the former authority if it may be. The lock is held.
func (s *Members) endRotation(now time.Time, unsettled bool) {
	r := s.trust.Rotation
	if r == nil {
		return
	}
	behind := s.behind()
	if now.Sub(r.Started) < graceTime && (len(behind) > 0 || now.Sub(r.Started) < settleTime || unsettled) {
		return
	}
	s.trust.Rotation = nil
	tx := &statedir.Transaction{}
	s.sequence(tx)
	if err := s.write(tx); err != nil {
		s.trust.Rotation = r
		return
	}
	own := s.Identity()
	own.Trusted = s.trusted()
	if err := own.Save(s.ownDir()); err != nil {
		s.log.Error("the manager's certificate cannot be kept; is the disk full?", "err", err)
	}
	s.credentials.Replace(own)
	s.log.Info("rotation of the authority has ended; the former one counts no more", "authority", hashText(s.authority), "nodes_without_a_new_certificate", behind)
}

// Authority returns the authority as people see it.
func (s *Members) Authority() api.Authority {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.authorityView()
}

func (s *Members) authorityView() api.Authority {
	v := api.Authority{Hash: hashText(s.authority), Ends: s.authority.Cert.NotAfter.UTC(), CertificateEnds: s.Identity().Cert.NotAfter.UTC()}
	if r := s.trust.Rotation; r != nil {
		v.Rotation = &api.Rotation{Started: r.Started, Nodes: len(s.members), Behind: s.behind(), EndsBy: r.Started.Add(graceTime)}
		v.Rotation.Renewed = v.Rotation.Nodes - len(v.Rotation.Behind)
	}
	return v
}

// hashText tells authorities apart: the first 16 digits of the hash of its key.
func hashText(a pki.Authority) string {
	hash := pki.Hash(a.Cert)
	return fmt.Sprintf("%x", hash[:8])
}
