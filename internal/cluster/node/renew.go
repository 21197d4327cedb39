// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"weir/internal/cluster/pki"
	"weir/internal/cluster/wire"
	"weir/internal/refusal"
)

// Pauses between two tries to renew.
const (
	renewPause   = 10 * time.Second
	longestRenew = 30 * time.Minute
)

// keepCertificate renews this node's certificate in time, until ctx ends: after a third
// of its life, at once when the manager has another authority or does not take it any
// more, and until it succeeds, also when the certificate has ended meanwhile.
func (n *Node) keepCertificate(ctx context.Context) {
	for fails := 0; ; {
		wait := max(n.identity().RenewAt().Sub(n.clock.Now()), 0)
		if fails > 0 {
			pause := min(renewPause<<min(fails-1, 10), longestRenew)
			wait = pause/2 + rand.N(pause)
		}
		select {
		case <-ctx.Done():
			return
		case <-n.clock.After(wait):
		case <-n.renewNow:
			if !n.pauseRenewal(ctx) {
				return
			}
		}
		if err := n.renew(ctx); err != nil {
			if fails++; ctx.Err() == nil {
				n.log.Warn("certificate cannot be renewed, trying again", "expires", n.identity().Cert.NotAfter, "err", err)
			}
			continue
		}
		fails = 0
		n.log.Info("certificate renewed", "expires", n.identity().Cert.NotAfter)
		if err := n.askMembers(ctx); err != nil && ctx.Err() == nil { // one that had ended could not
			n.log.Debug("list of members", "err", err)
		}
	}
}

// pauseRenewal spreads the nodes that all learn of a new authority at once over a
// list's interval. It reports whether ctx goes on.
func (n *Node) pauseRenewal(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-n.clock.After(rand.N(min(n.opts.MembersInterval, membersInterval))):
		return true
	}
}

// renewSoon has the certificate renewed though it is not due.
func (n *Node) renewSoon() {
	select {
	case n.renewNow <- struct{}{}:
	default:
	}
}

// renew gets a new certificate for the key that the manager knows. The certificate of
// now is not shown, so that it may have ended; the request is signed instead.
func (n *Node) renew(ctx context.Context) error {
	request, err := pki.Request(n.key)
	if err != nil {
		return err
	}
	now := n.clock.Now()
	sealed, err := wire.Seal(n.key, n.opts.Name, wire.RenewSubject, now.UTC().Format(time.RFC3339Nano), now, &wire.RenewRequest{Request: request})
	if err != nil {
		return err
	}
	anonymous := httpClient(n.credentials.Anonymous(pki.ManagerName))
	defer anonymous.CloseIdleConnections()
	answer, err := ask[wire.JoinAnswer](ctx, anonymous, n.opts.Manager, http.MethodPost, "/v1/renew", wire.SealedRenewRequest{Sealed: sealed})
	if err != nil {
		return err
	}
	n.identityMu.Lock()
	defer n.identityMu.Unlock()
	next, err := n.identity().Renewed(answer.Certificate, answer.Authority, now)
	if err != nil {
		return err
	}
	if err := next.Save(n.opts.identityDir()); err != nil {
		return err
	}
	n.credentials.Replace(next)
	n.client().CloseIdleConnections() // those were made with the former one
	return n.believe(answer.Info)
}

// refusedInTLS reports whether the manager ended a handshake by an alert, which says
// that it does not take this node's certificate.
func refusedInTLS(err error) bool {
	var op *net.OpError
	return refusal.Of(err) == nil && errors.As(err, &op) && op.Op == "remote error"
}
