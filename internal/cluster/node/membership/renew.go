// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"weir/internal/cluster/pki"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

const (
	renewPause   = 10 * time.Second // between two tries, at first
	longestRenew = 30 * time.Minute
	renewLook    = time.Minute // between two looks at the clock: a timer stands still while the machine sleeps
)

// keepCertificate renews this node's certificate in time, until ctx ends: after a third
// of its life, at once when the manager has another authority or does not take it any
// more, and until it succeeds, also when the certificate has ended meanwhile.
func (m *Membership) keepCertificate(ctx context.Context) {
	due := m.Identity().RenewAt()
	for fails := 0; ; {
		left := max(due.Sub(m.clock.Now()), 0)
		select {
		case <-ctx.Done():
			return
		case <-m.clock.After(min(left, renewLook)):
			if left > renewLook {
				continue
			}
		case <-m.renewNow:
			if !m.pauseRenewal(ctx) {
				return
			}
		}
		if err := m.Renew(ctx); err != nil {
			pause := min(renewPause<<min(fails, 10), longestRenew)
			due = m.clock.Now().Add(pause/2 + rand.N(pause))
			if fails++; ctx.Err() == nil {
				m.log.Warn("certificate cannot be renewed, trying again", "expires", m.Identity().Cert.NotAfter, "err", err)
			}
			continue
		}
		fails, due = 0, m.Identity().RenewAt()
		m.log.Info("certificate renewed", "expires", m.Identity().Cert.NotAfter)
		if err := m.Refresh(ctx); err != nil && ctx.Err() == nil { // one that had ended could not
			m.log.Debug("list of members", "err", err)
		}
	}
}

// pauseRenewal spreads the nodes that all learn of a new authority at once over a
// list's interval. It reports whether ctx goes on.
func (m *Membership) pauseRenewal(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-m.clock.After(rand.N(min(m.opts.Every, membersInterval))):
		return true
	}
}

// renewSoon has the certificate renewed though it is not due.
func (m *Membership) renewSoon() {
	select {
	case m.renewNow <- struct{}{}:
	default:
	}
}

// Renew gets a new certificate for the key that the manager knows. The certificate of
// now is not shown, so that it may have ended; the request is signed instead.
func (m *Membership) Renew(ctx context.Context) error {
	request, err := pki.Request(m.Identity().Key)
	if err != nil {
		return err
	}
	now := m.clock.Now()
	sealed, err := wire.Seal(m.Identity().Key, m.opts.Name, wire.RenewSubject, now.UTC().Format(time.RFC3339Nano), now, &wire.RenewRequest{Request: request})
	if err != nil {
		return err
	}
	anonymous := ManagerAt(m.opts.Manager, m.credentials.Anonymous(pki.ManagerName))
	defer anonymous.HTTP.CloseIdleConnections()
	answer, err := Ask[wire.JoinAnswer](ctx, anonymous, http.MethodPost, "/v1/renew", wire.SealedRenewRequest{Sealed: sealed})
	if err != nil {
		return err
	}
	m.identityMu.Lock()
	defer m.identityMu.Unlock()
	next, err := m.Identity().Renewed(answer.Certificate, answer.Authority, now)
	if err != nil {
		return err
	}
	if err := next.Save(m.opts.identityDir()); err != nil {
		return err
	}
	m.credentials.Replace(next)
	m.http.CloseIdleConnections() // those were made with the former one
	return m.believe(answer.Info)
}

// refusedInTLS reports whether the manager ended a handshake by an alert, which says
// that it does not take this node's certificate.
func refusedInTLS(err error) bool {
	var op *net.OpError
	return refusal.Of(err) == nil && errors.As(err, &op) && op.Op == "remote error"
}
