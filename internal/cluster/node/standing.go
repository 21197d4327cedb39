// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"maps"
	"sync"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/node/membership"
	"weir/internal/core/event"
	"weir/internal/core/refusal"
)

// standing says how this machine stands to its cluster (one of the states), since
// when, and why.
type standing struct {
	mu    sync.Mutex
	state api.MembershipState
	since time.Time
	why   string
	// refusals counts, by reason, what was refused since the agent began.
	refusals map[string]uint64
}

// set notes a state; the time is that of its beginning.
func (s *standing) set(state api.MembershipState, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != state {
		s.state, s.since = state, time.Now().UTC()
	}
	s.why = why
}

// refused counts, by reason, a call or an order that this node has refused: it came
// from another node, or in the manager's name.
func (s *standing) refused(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusals == nil {
		s.refusals = map[string]uint64{}
	}
	s.refusals[reason]++
}

// lost notes that the bus is out of reach, and what it refuses if it does; unless it is
// known that the manager wants it so.
func (s *standing) lost(b bus.Bus) {
	s.mu.Lock()
	refused := s.state == api.MemberRefused
	s.mu.Unlock()
	if !refused {
		if k, ok := b.(interface{ Problem() string }); ok && k.Problem() != "" {
			s.set(api.MemberUnreachable, k.Problem())
			return
		}
		s.set(api.MemberUnreachable, "the bus cannot be reached; links are steered as before, and what is to be said waits")
	}
}

// failed notes why the manager has not answered as it should.
func (s *standing) failed(err error) {
	if refusal.Of(err) != nil {
		s.set(api.MemberRefused, err.Error())
		return
	}
	s.set(api.MemberUnreachable, err.Error())
}

// of returns a machine's membership as people see it.
func (s *standing) of(o Options, moves []string) *api.Membership {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &api.Membership{Manager: o.Manager, Node: o.Name, State: s.state, Since: s.since, Note: s.why, Moves: append([]string{}, moves...), Refused: maps.Clone(s.refusals)}
}

// follow notes once a second whether the bus is in reach, until ctx ends.
func (s *standing) follow(ctx context.Context, b bus.Bus) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if b.Connected() {
			s.set(api.MemberConnected, "")
		} else {
			s.lost(b)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Membership says how this machine stands to its cluster.
func (m *Member) Membership() *api.Membership {
	var moves []string
	n := m.node.Load()
	if n != nil {
		moves = n.moves.Running()
	}
	view := m.opts.standing.of(m.opts, moves)
	if n != nil {
		view.CertificateEnds = n.members.Identity().Cert.NotAfter.UTC()
	}
	return view
}

// Look adds what is wrong with this machine's place in its cluster to what problems and events
// follow from.
func (m *Member) Look(s *event.Sight) {
	now := m.Membership()
	about := event.Subject{Type: event.Manager, Name: now.Manager}
	text := string(now.State)
	if now.Note != "" {
		text += ": " + now.Note
	}
	switch now.State {
	case api.MemberConnected:
	case api.MemberRefused:
		s.Report(event.ManagerLost, event.Condition{Subject: about, Text: text, Remedy: "make a token there (weir manager token create) and start the agent with it, or take cluster.manager out of weir.yaml"})
	default:
		s.Report(event.ManagerLost, event.Condition{Subject: about, Text: text, Remedy: "see that the manager runs (weir manager status, there) and can be reached from here"})
	}
	if end := now.CertificateEnds; !end.IsZero() && s.At.After(end) {
		s.Report(event.BadCertificate, event.Condition{Subject: event.Subject{Type: event.Certificate, Name: membership.IdentityDir(m.opts.Dir)},
			Text: "this node's certificate ended " + end.Format(time.RFC3339), Remedy: "see that the clock is right; then remove the folder and join again with a new token"})
	}
}

// Status implements api.Agent: the agent's own with the cluster that it is in.
func (b *behind) Status(ctx context.Context) (api.Status, error) {
	st, err := b.Agent.Status(ctx)
	if err == nil {
		st.Cluster = b.member.Membership()
	}
	return st, err
}
