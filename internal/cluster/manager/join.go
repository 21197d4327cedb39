// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"time"

	"weir/internal/api"
	"weir/internal/core/wire"
)

// trustInterval is between two looks at the manager's own certificate and at how far a
// rotation of the authority is.
const trustInterval = time.Minute

// NewToken implements api.Manager.
func (m *Manager) NewToken(_ context.Context, req api.TokenRequest) (api.Token, error) {
	return m.members.NewToken(req)
}

// Tokens implements api.Manager.
func (m *Manager) Tokens(context.Context) ([]api.Token, error) { return m.members.Tokens(), nil }

// RevokeToken implements api.Manager.
func (m *Manager) RevokeToken(_ context.Context, id string) (api.Token, error) {
	return m.members.RevokeToken(id)
}

// RotateAuthority implements api.Manager.
func (m *Manager) RotateAuthority(context.Context) (api.Authority, error) { return m.members.Rotate() }

// MemberList returns the list of members for a node that has the one of sequence have.
func (m *Manager) MemberList(have uint64) (wire.MembersAnswer, error) { return m.members.List(have) }

// join makes a node a member.
func (m *Manager) join(ctx context.Context, req wire.JoinRequest) (wire.JoinAnswer, error) {
	answer, err := m.members.Join(req)
	if err != nil {
		return answer, err
	}
	if err := m.bus.Admit(ctx, req.Node); err != nil {
		return wire.JoinAnswer{}, fmt.Errorf("the bus does not take node %s: %w", req.Node, err)
	}
	answer.Info = m.info()
	return answer, nil
}

// renew signs a new certificate for a member.
func (m *Manager) renew(req wire.SealedRenewRequest) (wire.JoinAnswer, error) {
	answer, err := m.members.Renew(req)
	if err != nil {
		return answer, err
	}
	answer.Info = m.info()
	return answer, nil
}

// info returns what the manager tells its members.
func (m *Manager) info() wire.Info {
	return wire.Info{Manager: m.members.Identity().Bundle(), Bus: m.opts.Bus.String(), BusPort: m.busPort, Registry: m.opts.Registry}
}

// RemoveNode implements api.Manager. Nothing keeps a node in the cluster: its moves end
// with it.
func (m *Manager) RemoveNode(ctx context.Context, name string) (api.Node, error) {
	view, err := m.drop(name)
	if err != nil {
		return view, err
	}
	if cut := m.serving.CloseUnless(m.members.Has); cut > 0 {
		m.log.Info("requests of a removed node are cut off", "node", name, "connections", cut)
	}
	if err := m.bus.Remove(ctx, name); err != nil {
		return view, fmt.Errorf("node %s is no member any more, but the bus keeps something of it: %w", name, err)
	}
	return view, nil
}

func (m *Manager) drop(name string) (api.Node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.members.Has(name) {
		return api.Node{}, m.unknownNode("name", name)
	}
	now := time.Now()
	view := m.nodeView(name, now)
	if err := m.members.Remove(name); err != nil {
		return view, err
	}
	delete(m.nodes, name)
	m.log.Info("node removed", "node", name)
	m.dismiss(name, now)
	return view, nil
}

// keepTrust renews the manager's certificate in time and ends rotations, until ctx ends.
func (m *Manager) keepTrust(ctx context.Context) {
	for {
		begun, rotating := m.members.Rotating()
		m.members.Maintain(rotating && m.movesSince(begun))
		select {
		case <-ctx.Done():
			return
		case <-m.clock.After(trustInterval):
		}
	}
}

// movesSince reports whether a move that was made before a time is not over: its order
// was signed by the manager's former key.
func (m *Manager) movesSince(t time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, mv := range m.moves {
		if !mv.State.Final() && mv.Created.Before(t) {
			return true
		}
	}
	return false
}
