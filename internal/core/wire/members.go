// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// MembersSubject is the subject that a sealed MembersStatement is for.
const MembersSubject Subject = "members"

// RenewSubject is the subject that a sealed RenewRequest is for.
const RenewSubject Subject = "renew"

// MembersFresh is how old the word of the manager about its members may be for a move
// to begin.
const MembersFresh = time.Minute

// Members is the list of the nodes that belong to the cluster now, with the keys that
// the manager and its authority have. The manager changes it whenever a node joins or
// is removed, and during a rotation of the authority.
type Members struct {
	// Sequence grows with each change and never falls, not even when the manager is
	// restored from a snapshot: it is at least the time of the change in milliseconds.
	Sequence uint64 `json:"sequence"`
	// Authorities are certificates (DER) that members' certificates may be signed by, the
	// one that signs new certificates first.
	Authorities [][]byte `json:"authorities"`
	// Managers are the keys whose signatures count as the manager's, the present one first.
	Managers []ed25519.PublicKey `json:"managers"`
	Members  []MemberKey         `json:"members"` // in the order of their names
}

// MemberKey is a member's name and the key of its certificate and of its messages.
type MemberKey struct {
	Name string            `json:"name"`
	Key  ed25519.PublicKey `json:"key"`
}

// MembersStatement is the manager's signed word that a list is the present one. It is
// small, so that 1,000 nodes can ask for it every few seconds.
type MembersStatement struct {
	Sequence uint64            `json:"sequence"`
	Hash     [sha256.Size]byte `json:"hash"` // SHA-256 of the list's JSON as sent
	Issued   time.Time         `json:"issued"`
	Until    time.Time         `json:"until"` // afterwards it is too old to begin a move by
}

// MembersAnswer answers GET /v1/members?have=SEQUENCE.
type MembersAnswer struct {
	Statement []byte `json:"statement" doc:"sealed by the manager"`
	Members   []byte `json:"members,omitempty" doc:"the list, JSON; left out if the node has it"`
}

// Kind implements Message.
func (MembersStatement) Kind() string { return "members" }

// Check implements Message.
func (s MembersStatement) Check() error {
	switch {
	case s.Sequence == 0:
		return errors.New("sequence is missing")
	case !s.Issued.Before(s.Until):
		return errors.New("until is not after issued")
	}
	return nil
}

// ReadMembers decodes the list that a statement is about.
func ReadMembers(text []byte, of MembersStatement) (Members, error) {
	var m Members
	if sha256.Sum256(text) != of.Hash {
		return m, fmt.Errorf("%w: the list of members is not the one that was signed", ErrForged)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%w: list of members: %w", ErrMalformed, err)
	}
	if m.Sequence != of.Sequence || len(m.Authorities) == 0 || len(m.Managers) == 0 {
		return m, fmt.Errorf("%w: list of members: sequence %d (signed: %d), %d authorities, %d manager keys", ErrMalformed, m.Sequence, of.Sequence, len(m.Authorities), len(m.Managers))
	}
	for _, k := range m.Managers {
		if len(k) != ed25519.PublicKeySize {
			return m, fmt.Errorf("%w: list of members: a manager's key of %d bytes", ErrMalformed, len(k))
		}
	}
	for _, k := range m.Members {
		if err := CheckNode(k.Name); err != nil || len(k.Key) != ed25519.PublicKeySize {
			return m, fmt.Errorf("%w: list of members: %q with a key of %d bytes", ErrMalformed, k.Name, len(k.Key))
		}
	}
	return m, nil
}

// KeyOf returns a member's key, nil if it is no member.
func (m Members) KeyOf(node string) ed25519.PublicKey {
	for _, k := range m.Members {
		if k.Name == node {
			return k.Key
		}
	}
	return nil
}

// IsManager reports whether signatures by key count as the manager's.
func (m Members) IsManager(key ed25519.PublicKey) bool {
	for _, k := range m.Managers {
		if bytes.Equal(k, key) {
			return true
		}
	}
	return false
}
