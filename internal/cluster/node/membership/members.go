// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"weir/internal/core/wire"
)

// A node believes only the manager and the members on the manager's signed list. It
// asks for the list every membersInterval, keeps the newest on its disk, and
//
//	serves and speaks to a peer    only if the peer is on the list with the key it shows
//	begins a move                  only by a list that the manager confirmed within wire.MembersFresh
//	goes on with a move            by the last list that it has: a manager that is away
//	                               must not leave a container between two nodes
//	ends a move to a former member by the key that this one had; nothing is begun with it
const (
	membersInterval = 15 * time.Second
	membersTimeout  = 3 * time.Second
	membersPause    = time.Second         // between two times that a peer can make a node ask
	keepDeparted    = 30 * 24 * time.Hour // for a move that was begun with them
)

// keepMembers asks for the list again and again until ctx ends.
func (m *Membership) keepMembers(ctx context.Context) {
	for failed := false; ; {
		every := m.opts.Every
		err := m.Refresh(ctx)
		if err != nil && ctx.Err() == nil && !failed {
			m.log.Warn("the list of members cannot be asked for, trying again", "manager", m.opts.Manager, "err", err)
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return
		case <-m.clock.After(every*3/4 + rand.N(every/2)):
		}
	}
}

// Refresh asks the manager for the list of members and takes it over.
func (m *Membership) Refresh(ctx context.Context) error {
	m.roster.asking.Lock()
	defer m.roster.asking.Unlock()
	began, have := m.clock.Now(), m.roster.sequence()
	answer, err := Ask[wire.MembersAnswer](ctx, m.Manager(), http.MethodGet, "/v1/members?have="+strconv.FormatUint(have, 10), nil)
	if err != nil {
		if refusedInTLS(err) {
			m.renewSoon() // the manager does not take the certificate
		}
		return err
	}
	statement, err := m.openStatement(ctx, answer.Statement)
	switch {
	case err != nil:
		return err
	case len(answer.Members) == 0 && statement.Sequence != have:
		return fmt.Errorf("%w: a list of members with sequence %d was announced and not sent", wire.ErrMalformed, statement.Sequence)
	case len(answer.Members) > 0:
		list, err := wire.ReadMembers(answer.Members, statement)
		if err == nil {
			err = m.roster.take(list, began)
		}
		if err == nil {
			err = m.trust(list)
		}
		if err != nil {
			return err
		}
		m.cutOff()
	}
	m.roster.confirm(began)
	return nil
}

// openStatement verifies what the manager says of its list: by a key that counts as
// the manager's, or else by the one in the manager's certificate.
func (m *Membership) openStatement(ctx context.Context, sealed []byte) (s wire.MembersStatement, err error) {
	e, err := wire.Open(sealed)
	if err == nil {
		err = m.byManager(e, wire.MembersSubject)
	}
	if err != nil { // the first list, or the manager has a new key
		if _, failed := m.Learn(ctx); failed != nil {
			return s, errors.Join(err, failed)
		}
		err = m.byManager(e, wire.MembersSubject)
	}
	if err != nil {
		return s, err
	}
	return s, e.Read(&s)
}

// trust takes over the authorities of a list.
func (m *Membership) trust(list wire.Members) error {
	var authorities []*x509.Certificate
	for _, der := range list.Authorities {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("authority on the list of members: %w", err)
		}
		authorities = append(authorities, cert)
	}
	m.identityMu.Lock()
	defer m.identityMu.Unlock()
	id := m.Identity()
	if slices.EqualFunc(id.Trusted, authorities, (*x509.Certificate).Equal) {
		return nil
	}
	id.Trusted = authorities
	if err := id.Save(m.opts.identityDir()); err != nil {
		return fmt.Errorf("authorities cannot be kept: %w", err)
	}
	m.credentials.Replace(id)
	if !id.Authority.Equal(authorities[0]) {
		m.log.Info("the cluster has a new authority; asking for a certificate of it")
		m.renewSoon()
	}
	return nil
}
