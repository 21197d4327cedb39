// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/node/membership"
	"weir/internal/cluster/pki"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// Member is a machine that is to be a node: it joins when the manager can be reached,
// and takes part from then on.
type Member struct {
	opts Options
	node atomic.Pointer[Node]
}

// firstTry is how long an agent waits for the manager at its start; after that,
// joining goes on in the background.
const firstTry = 5 * time.Second

// NewMember makes one. Under a name that it has joined by before, it keeps that.
func NewMember(o Options) (*Member, error) {
	id, err := pki.LoadIdentity(membership.IdentityDir(o.Dir))
	switch {
	case err == nil:
		o.Name = id.Name()
	case !errors.Is(err, pki.ErrNone):
		return nil, err
	}
	o.standing = &standing{state: api.MemberJoining, since: time.Now().UTC()}
	return &Member{opts: o}, nil
}

// Name returns the node's name in the cluster.
func (m *Member) Name() string { return m.opts.Name }

// Equip says what makes profiles and what migrates; before Join.
func (m *Member) Equip(profile func(context.Context) (wire.Profile, error), engine *migrate.Local) {
	m.opts.Profile, m.opts.Engine = profile, engine
}

// Join tries to join. The error is a *refusal.Error that waiting would not cure, such
// as a token that has expired; a manager that is away, or fails, is none: Run tries again.
func (m *Member) Join(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, firstTry)
	defer cancel()
	err := m.enter(ctx)
	if membership.Lasting(err) {
		return err
	}
	if err != nil {
		m.opts.standing.set(api.MemberJoining, err.Error())
		m.opts.Log.Warn("cluster not joined yet, trying again", "err", err)
	}
	return nil
}

func (m *Member) enter(ctx context.Context) error {
	id, err := membership.Enroll(ctx, m.opts.membership(m.opts.Log))
	if err != nil {
		return err
	}
	n, err := New(m.opts, id)
	if err == nil {
		err = n.Listen()
	}
	if err == nil {
		m.node.Store(n)
	}
	return err
}

// Run joins, if that has not been done, and takes part until ctx ends.
func (m *Member) Run(ctx context.Context) {
	for pauses := bus.Pauses(); m.node.Load() == nil; {
		if !pauses.Wait(ctx) {
			return
		}
		err := m.enter(ctx)
		if membership.Lasting(err) {
			m.opts.standing.failed(err)
			m.opts.Log.Error("this machine cannot join the cluster", "manager", m.opts.Manager, "err", err)
			return
		}
	}
	if err := m.node.Load().Run(ctx); err != nil {
		m.opts.Log.Error("this machine takes no part in the cluster any more", "err", err)
	}
}

// WithManager is Node.WithManager as soon as there is a node.
func (m *Member) WithManager(a api.Agent) api.Agent { return &behind{a, m} }

type behind struct {
	api.Agent
	member *Member
}

// Set implements api.Agent.
func (b *behind) Set(ctx context.Context, name string, change api.PolicyChange, dryRun bool) (api.ChangeResult, error) {
	if n := b.member.node.Load(); n != nil {
		return n.WithManager(b.Agent).Set(ctx, name, change, dryRun)
	}
	result, err := b.Agent.Set(ctx, name, change, dryRun)
	if wantsPlace(err, change, dryRun) {
		err = refusal.Of(err).With("no other node was asked for: this one has not joined its cluster yet")
	}
	return result, err
}
