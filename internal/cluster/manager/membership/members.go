// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"weir/internal/cluster/manager/statedir"
	"weir/internal/cluster/pki"
)

// member is a node that joined.
type member struct {
	Name   string            `json:"name"`
	Joined time.Time         `json:"joined"`
	Key    ed25519.PublicKey `json:"key"` // of its certificate, and of its messages
	Token  string            `json:"token"`
}

// token is the record of a token by which nodes join.
type token struct {
	ID      string    `json:"id"`
	Hash    []byte    `json:"hash"` // SHA-256 of the secret
	Node    string    `json:"node,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Joined  int       `json:"joined"`
	Uses    int       `json:"uses,omitempty"` // nodes that may join by it; 0 = any number, as all of before
}

// trustRecord is the record of whom the cluster trusts, beside the members.
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

// certificate is the record of the certificate that was signed last for a node.
type certificate struct {
	Ends      time.Time `json:"ends"`
	Authority []byte    `json:"authority"` // pki.Hash of the authority that has signed it
}

const (
	bucketMembers      statedir.Bucket[member]      = "members"
	bucketTokens       statedir.Bucket[token]       = "tokens"
	bucketTrust        statedir.Bucket[trustRecord] = "trust"
	bucketCertificates statedir.Bucket[certificate] = "certificates"
)

// Buckets are those of the database that a record of members needs.
var Buckets = []string{string(bucketMembers), string(bucketTokens), string(bucketTrust), string(bucketCertificates)}

// Members is the record of a cluster's members. Its methods may be called from any
// goroutine.
type Members struct {
	dir         string
	db          *statedir.DB
	clock       clockwork.Clock
	log         *slog.Logger
	credentials *pki.Credentials // the manager's own

	mu           sync.Mutex
	authority    pki.Authority
	members      map[string]*member
	tokens       map[string]*token
	certificates map[string]*certificate // by node
	trust        trustRecord
	list         memberList
}

// Create makes a new cluster in a manager's folder: the authority and a first token that so
// many nodes may join by, or api.AnyNumber.
func Create(dir string, uses int, now time.Time) (pki.Token, error) {
	authority, err := pki.NewAuthority(now)
	if err != nil {
		return pki.Token{}, err
	}
	if err := authority.Save(dir); err != nil {
		return pki.Token{}, err
	}
	db, err := statedir.Open(dir, Buckets...)
	if err != nil {
		return pki.Token{}, err
	}
	t, record := newToken(authority.Cert, "", uses, now, defaultTTL)
	tx := &statedir.Transaction{}
	bucketTokens.Put(tx, record.ID, record)
	return t, errors.Join(db.Write(tx), db.Close())
}

// Open reads the record from a manager's folder, whose database is open, and mends what a
// crash has left half done. Without a cluster there the error is pki.ErrNone.
func Open(dir string, authority pki.Authority, db *statedir.DB, clock clockwork.Clock, log *slog.Logger) (*Members, error) {
	s := &Members{dir: dir, db: db, clock: clock, log: log, authority: authority}
	if err := s.read(); err != nil {
		return nil, fmt.Errorf("manager's database: %w", err)
	}
	if r := s.trust.Rotation; r != nil && string(r.Former) == string(s.authority.Cert.Raw) {
		s.trust.Rotation = nil // it was written down, and the new authority was not
	}
	own, err := s.ownIdentity()
	if err != nil {
		return nil, err
	}
	s.credentials = pki.NewCredentials(own, s.clock.Now)
	tx := &statedir.Transaction{}
	s.sequence(tx)
	return s, db.Write(tx)
}

func (s *Members) read() error {
	var errs [4]error
	var trust *trustRecord
	s.members, errs[0] = bucketMembers.All(s.db)
	s.tokens, errs[1] = bucketTokens.All(s.db)
	s.certificates, errs[2] = bucketCertificates.All(s.db)
	if trust, errs[3] = bucketTrust.Get(s.db, trustKey); trust != nil {
		s.trust = *trust
	}
	return cmp.Or(errs[:]...)
}

// write makes a change of the database. The lock is held.
func (s *Members) write(tx *statedir.Transaction) error {
	if err := s.db.Write(tx); err != nil {
		s.log.Error("state cannot be kept; is the disk full?", "err", err)
		return err
	}
	return nil
}

// Names returns the members' names, in order.
func (s *Members) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names()
}

func (s *Members) names() []string { return slices.Sorted(maps.Keys(s.members)) }

// Len returns the number of members.
func (s *Members) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.members)
}

// Has reports whether a node is a member.
func (s *Members) Has(node string) bool { return s.Key(node) != nil }

// Key returns the key that a member's messages are signed by, nil if it is no member.
func (s *Members) Key(node string) ed25519.PublicKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.members[node]; known != nil {
		return known.Key
	}
	return nil
}

// Member is what people see of a member.
type Member struct {
	Joined          time.Time
	CertificateEnds time.Time // zero if it is not known
}

// Member returns a member; ok says whether the node is one.
func (s *Members) Member(node string) (m Member, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.members[node]
	if known == nil {
		return m, false
	}
	m.Joined = known.Joined
	if cert := s.certificates[node]; cert != nil {
		m.CertificateEnds = cert.Ends
	}
	return m, true
}

var errNoMember = errors.New("is no member of this cluster (removed, or of one that was before)")

// Admit says why the holder of a certificate is not admitted as a member, nil if it is.
func (s *Members) Admit(node string, cert *x509.Certificate) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admit(node, cert)
}

// admit is Admit while the lock is held.
func (s *Members) admit(node string, cert *x509.Certificate) error {
	known := s.members[node]
	key, _ := cert.PublicKey.(ed25519.PublicKey)
	switch {
	case known == nil:
		return errNoMember
	case !known.Key.Equal(key):
		return errors.New("has a certificate that another one has taken the place of")
	}
	return nil
}

// Remove takes a node out of the cluster. Its certificate counts no more.
func (s *Members) Remove(node string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := &statedir.Transaction{}
	bucketMembers.Delete(tx, node)
	bucketCertificates.Delete(tx, node)
	s.sequence(tx)
	if err := s.write(tx); err != nil {
		return err
	}
	delete(s.members, node)
	delete(s.certificates, node)
	return nil
}

// Still calls use while nothing of the record changes, with the members' names and the hash
// of the authority.
func (s *Members) Still(use func(nodes []string, authority [sha256.Size]byte) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return use(s.names(), pki.Hash(s.authority.Cert))
}
