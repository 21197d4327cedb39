// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"time"

	"weir/internal/cluster/pki"
	"weir/internal/cluster/wire"
)

const (
	// trustInterval is between two looks at the manager's own certificate and at how far
	// a rotation of the authority is.
	trustInterval = time.Minute
	// signEvery is how old a statement about the list of members may be before it is
	// signed anew; with 1,000 nodes, some 60 ask in that time.
	signEvery = time.Second
)

// trustRecord is the database's record of whom the cluster trusts, beside the members.
type trustRecord struct {
	Sequence uint64    `json:"sequence"` // of the list of members
	Rotation *rotation `json:"rotation,omitempty"`
}

const trustKey = "trust" // of the only record in its bucket

// rotation is one authority taking the place of another.
type rotation struct {
	Started    time.Time         `json:"started"`
	Former     []byte            `json:"former"`      // its certificate, DER
	ManagerKey ed25519.PublicKey `json:"manager_key"` // by which orders were signed before
}

// certificate is the manager's record of the certificate that it signed last for a node.
type certificate struct {
	Ends      time.Time `json:"ends"`
	Authority []byte    `json:"authority"` // pki.Hash of the authority that has signed it
}

// memberList is the signed list of members as nodes get it.
type memberList struct {
	text      []byte // JSON; nil = it has changed
	statement []byte // sealed; nil = to be signed anew
	signed    time.Time
}

// openTrust reads the authority, the manager's identity and the state of a rotation,
// and mends what a crash has left half done.
func (m *Manager) openTrust() error {
	records, err := read[trustRecord](m.store, bucketTrust)
	if err != nil {
		return err
	}
	if r := records[trustKey]; r != nil {
		m.trust = *r
	}
	if m.certificates, err = read[certificate](m.store, bucketCertificates); err != nil {
		return err
	}
	if m.trust.Rotation != nil && string(m.trust.Rotation.Former) == string(m.authority.Cert.Raw) {
		m.trust.Rotation = nil // it was written down, and the new authority was not
	}
	own, err := m.ownIdentity()
	if err != nil {
		return err
	}
	m.credentials = pki.NewCredentials(own, m.clock.Now)
	c := &change{}
	m.nextSequence(c)
	return m.store.write(c)
}

// identity returns the manager's own identity in use now.
func (m *Manager) identity() pki.Identity { return m.credentials.Identity() }

// ownIdentity reads the manager's identity and makes what of it is missing, has ended
// or is of a former authority. The key is made anew with the authority only: nodes know
// orders by it.
func (m *Manager) ownIdentity() (pki.Identity, error) {
	id, err := pki.LoadIdentity(m.ownDir())
	if err != nil && !errors.Is(err, pki.ErrNone) && !errors.Is(err, pki.ErrMismatch) {
		return id, err
	}
	if err != nil || !m.authority.Issued(id.Cert) {
		return m.newIdentity()
	}
	if !m.clock.Now().Before(id.RenewAt()) {
		return m.issueOwn(id.Key)
	}
	id.Authority, id.Bridges, id.Trusted = m.authority.Cert, m.authority.Bridges, m.trusted()
	return id, nil
}

func (m *Manager) newIdentity() (pki.Identity, error) {
	key, err := pki.NewKey()
	if err != nil {
		return pki.Identity{}, err
	}
	return m.issueOwn(key)
}

// issueOwn signs the manager's certificate and keeps it.
func (m *Manager) issueOwn(key ed25519.PrivateKey) (pki.Identity, error) {
	id := pki.Identity{Authority: m.authority.Cert, Bridges: m.authority.Bridges, Trusted: m.trusted(), Key: key}
	var err error
	if id.Cert, err = m.authority.IssueManager(id.Public(), m.clock.Now()); err != nil {
		return id, err
	}
	return id, id.Save(m.ownDir())
}

// trusted returns the authorities whose certificates count: the present one and,
// during a rotation, the one before it.
func (m *Manager) trusted() []*x509.Certificate {
	list := []*x509.Certificate{m.authority.Cert}
	if r := m.trust.Rotation; r != nil {
		if former, err := x509.ParseCertificate(r.Former); err == nil {
			list = append(list, former)
		}
	}
	return list
}

// keepTrust renews the manager's certificate in time and ends rotations, until ctx ends.
func (m *Manager) keepTrust(ctx context.Context) {
	for {
		m.lookAtTrust()
		select {
		case <-ctx.Done():
			return
		case <-m.clock.After(trustInterval):
		}
	}
}

func (m *Manager) lookAtTrust() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	if id := m.identity(); !now.Before(id.RenewAt()) {
		next, err := m.issueOwn(id.Key)
		if err != nil { // the disk: the new one counts until the next start, which makes another
			m.log.Error("the manager's certificate cannot be kept; is the disk full?", "err", err)
		}
		if next.Cert != nil {
			m.credentials.Replace(next)
			m.log.Info("the manager's certificate is renewed", "expires", next.Cert.NotAfter)
		}
	}
	m.endRotation(now)
}

// nextSequence has the list of members made anew with the change. The lock is held.
func (m *Manager) nextSequence(c *change) {
	m.trust.Sequence = max(m.trust.Sequence+1, uint64(max(m.clock.Now().UnixMilli(), 0)))
	record := m.trust
	c.put(bucketTrust, trustKey, &record)
	m.list = memberList{}
}

// MemberList returns the list of members for a node that has the one of sequence have.
func (m *Manager) MemberList(have uint64) (wire.MembersAnswer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.list.text == nil {
		text, err := json.Marshal(m.membersNow())
		if err != nil {
			return wire.MembersAnswer{}, err
		}
		m.list = memberList{text: text}
	}
	now := m.clock.Now()
	if age := now.Sub(m.list.signed); m.list.statement == nil || age < 0 || age > signEvery {
		s := wire.MembersStatement{Sequence: m.trust.Sequence, Hash: sha256.Sum256(m.list.text), Issued: now.UTC(), Until: now.Add(wire.MembersFresh).UTC()}
		sealed, err := wire.Seal(m.identity().Key, wire.Manager, wire.MembersSubject, s.Issued.Format(time.RFC3339Nano), now, &s)
		if err != nil {
			return wire.MembersAnswer{}, err
		}
		m.list.statement, m.list.signed = sealed, now
	}
	answer := wire.MembersAnswer{Statement: m.list.statement}
	if have != m.trust.Sequence {
		answer.Members = m.list.text
	}
	return answer, nil
}

// membersNow returns the list itself. The lock is held.
func (m *Manager) membersNow() wire.Members {
	list := wire.Members{Sequence: m.trust.Sequence, Managers: []ed25519.PublicKey{m.identity().Public()}, Members: []wire.MemberKey{}}
	for _, authority := range m.trusted() {
		list.Authorities = append(list.Authorities, authority.Raw)
	}
	if r := m.trust.Rotation; r != nil {
		list.Managers = append(list.Managers, r.ManagerKey)
	}
	for _, name := range m.names() {
		list.Members = append(list.Members, wire.MemberKey{Name: name, Key: m.members[name].Key})
	}
	return list
}

// issued notes the certificate that a node was given. The lock is held.
func (m *Manager) issued(c *change, node string, cert *x509.Certificate) {
	hash := pki.Hash(m.authority.Cert)
	record := &certificate{Ends: cert.NotAfter.UTC(), Authority: hash[:]}
	m.certificates[node] = record
	c.put(bucketCertificates, node, record)
}
