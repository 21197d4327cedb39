// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"time"

	"weir/internal/cluster/manager/moves"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// A Move lets the source ask its target what it lacks. To change anything there the
// source needs a Grant, which the manager gives for one description of the container:
// its hash, its image, its parts. One grant a move; the same description again gets the
// same.

// grant permits a node to make its target do what a manifest says.
func (m *Manager) grant(node string, f wire.Manifest, now time.Time) (wire.GrantAnswer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mv := m.moves[f.Move]
	err := moves.Grantable(mv, node, f, now)
	if refusal.Is(err, refusal.Busy) {
		m.log.Info("grant asked for a move that is waiting", "node", node, "move", f.Move, "container", f.Container)
		return wire.GrantAnswer{}, err
	}
	if err != nil {
		m.sayRefused("grant refused", node, err.Error(), "move", short(f.Move), "container", short(f.Container))
		return wire.GrantAnswer{}, err
	}
	if mv.Manifest == nil {
		next := *mv
		next.Manifest, next.Heard = &f, now.UTC()
		if err := m.keep(&change{}, mv, next); err != nil {
			return wire.GrantAnswer{}, err
		}
		m.log.Info("move granted", "move", mv.ID, "container", mv.Container, "id", f.ContainerID, "image", f.ImageID, "digest", f.Digest, "parts", f.Parts)
	}
	g := wire.Grant{Manifest: *mv.Manifest, From: mv.From, To: mv.To, Registry: mv.Registry, Deadline: mv.Deadline, Change: m.wanted(mv)}
	sealed, err := wire.Seal(m.members.Identity().Key, wire.Manager, wire.Orders.Of(mv.From), mv.ID+"-grant", now, g)
	return wire.GrantAnswer{Grant: sealed}, err
}

// sayRefused counts a request of a member that is refused, and writes one line for many of a
// member.
func (m *Manager) sayRefused(what, node, why string, about ...any) {
	m.refused.Add(1)
	if omitted, due := m.lines.Due(node+" "+what, time.Now()); due {
		m.log.Warn(what, append(about, "node", node, "err", short(why), "omitted", omitted)...)
	}
}

// wanted returns the change of policy that the source of a move asked a place for, or nil
// if the move is of another container, which makes room. The lock is held.
func (m *Manager) wanted(mv *moves.Move) wire.ChangeJSON {
	if p := m.places[mv.Place]; p != nil && p.Owns(mv) {
		return p.Change
	}
	return nil
}

// arrived takes in that the target of a move has applied what came with its copy.
func (m *Manager) arrived(r wire.Arrived, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	mv := m.moves[r.Move]
	if mv == nil || mv.To != r.Node || mv.Manifest == nil {
		m.sayRefused("report about a move that is not known", r.Node, "", "move", short(r.Move))
		return nil
	}
	if !mv.Arrived.IsZero() {
		return nil
	}
	next := *mv
	next.Arrived, next.Unmet = now.UTC(), wire.Clip(r.Error, wire.MaxText)
	if err := m.keep(&change{}, mv, next); err != nil {
		return err
	}
	if r.Error != "" {
		m.log.Warn("policy was refused", "node", r.Node, "workload", mv.Container, "move", mv.ID, "err", r.Error)
	} else {
		m.log.Info("policy is in force", "node", r.Node, "workload", mv.Container, "move", mv.ID)
	}
	m.advance(mv.Place, now)
	m.notify()
	return nil
}
