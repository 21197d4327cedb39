// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"time"

	"weir/internal/cluster/manager/statedir"
	"weir/internal/core/wire"
)

// signEvery is how old a statement about the list of members may be before it is
// signed anew; with 1,000 nodes, some 60 ask in that time.
const signEvery = time.Second

// memberList is the signed list of members as nodes get it.
type memberList struct {
	text      []byte // JSON; nil = it has changed
	statement []byte // sealed; nil = to be signed anew
	signed    time.Time
}

// sequence has the list of members made anew with the change. The lock is held.
func (s *Members) sequence(tx *statedir.Transaction) {
	s.trust.Sequence = max(s.trust.Sequence+1, uint64(max(s.clock.Now().UnixMilli(), 0)))
	record := s.trust
	bucketTrust.Put(tx, trustKey, &record)
	s.list = memberList{}
}

// List returns the signed list of members for a node that has the one of sequence have.
func (s *Members) List(have uint64) (wire.MembersAnswer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list.text == nil {
		text, err := json.Marshal(s.membersNow())
		if err != nil {
			return wire.MembersAnswer{}, err
		}
		s.list = memberList{text: text}
	}
	now := s.clock.Now()
	if age := now.Sub(s.list.signed); s.list.statement == nil || age < 0 || age > signEvery {
		statement := wire.MembersStatement{Sequence: s.trust.Sequence, Hash: sha256.Sum256(s.list.text), Issued: now.UTC(), Until: now.Add(wire.MembersFresh).UTC()}
		sealed, err := wire.Seal(s.Identity().Key, wire.Manager, wire.MembersSubject, statement.Issued.Format(time.RFC3339Nano), now, &statement)
		if err != nil {
			return wire.MembersAnswer{}, err
		}
		s.list.statement, s.list.signed = sealed, now
	}
	answer := wire.MembersAnswer{Statement: s.list.statement}
	if have != s.trust.Sequence {
		answer.Members = s.list.text
	}
	return answer, nil
}

// membersNow returns the list itself. The lock is held.
func (s *Members) membersNow() wire.Members {
	list := wire.Members{Sequence: s.trust.Sequence, Managers: []ed25519.PublicKey{s.Identity().Public()}, Members: []wire.MemberKey{}}
	for _, authority := range s.trusted() {
		list.Authorities = append(list.Authorities, authority.Raw)
	}
	if r := s.trust.Rotation; r != nil {
		list.Managers = append(list.Managers, r.ManagerKey)
	}
	for _, name := range s.names() {
		list.Members = append(list.Members, wire.MemberKey{Name: name, Key: s.members[name].Key})
	}
	return list
}
