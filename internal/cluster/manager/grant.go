// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"time"

	"weir/internal/cluster/wire"
	"weir/internal/refusal"
)

// A Move lets the source ask its target what it lacks. To change anything there the
// source needs a Grant, which the manager gives for one description of the container:
// its hash, its image, its parts. One grant a move; the same description again gets the
// same.

// errTurn is the answer to a source that asks for a grant before its move was ordered: the
// manager that had ordered it was restored from a snapshot of before. The source asks
// again until the move's turn has come.
var errTurn = &refusal.Error{Kind: refusal.Busy, Field: "move", Msg: "waits for its turn among the moves at once", Remedy: "ask again"}

// grant permits a node to make its target do what a manifest says.
func (m *Manager) grant(node string, f wire.Manifest, now time.Time) (wire.GrantAnswer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mv := m.moves[f.Move]
	err := mv.grantable(node, f, now)
	if errors.Is(err, errTurn) {
		m.log.Info("grant asked for a move that is waiting", "node", node, "move", f.Move, "container", f.Container)
		return wire.GrantAnswer{}, err
	}
	if err != nil {
		m.refused.Add(1)
		m.log.Warn("grant refused", "node", node, "move", f.Move, "container", f.Container, "err", err)
		return wire.GrantAnswer{}, err
	}
	if mv.Manifest == nil {
		next := *mv
		next.Manifest, next.Heard = &f, now.UTC()
		c := &change{}
		bucketMoves.Put(&c.Change, next.ID, &next)
		if err := m.write(c); err != nil {
			return wire.GrantAnswer{}, err
		}
		*mv = next
		m.log.Info("move granted", "move", mv.ID, "container", mv.Container, "id", f.ContainerID, "image", f.ImageID, "digest", f.Digest, "parts", f.Parts)
	}
	g := wire.Grant{Manifest: *mv.Manifest, From: mv.From, To: mv.To, Registry: mv.Registry, Deadline: mv.Deadline, Change: m.wanted(mv)}
	sealed, err := wire.Seal(m.members.Identity().Key, wire.Manager, wire.Orders.Of(mv.From), mv.ID+"-grant", now, g)
	return wire.GrantAnswer{Grant: sealed}, err
}

// grantable says why a move gets no grant for what its source describes.
func (mv *move) grantable(node string, f wire.Manifest, now time.Time) error {
	refuse := func(kind refusal.Kind, field, value, format string, args ...any) error {
		return &refusal.Error{Kind: kind, Field: field, Value: value, Msg: fmt.Sprintf(format, args...), Remedy: "weir moves shows what is under way; order it again: weir migrate"}
	}
	if err := f.Check(); err != nil {
		return &refusal.Error{Kind: refusal.Invalid, Field: "manifest", Value: f.Move, Msg: err.Error(), Remedy: "run the same Weir on manager and nodes"}
	}
	switch {
	case mv == nil || mv.From != node || f.Node != node:
		return refuse(refusal.Denied, "move", f.Move, "is no move from %s", node)
	case mv.State == wire.MoveWaiting:
		return errTurn
	case mv.final() || !mv.underWay():
		return refuse(refusal.Conflict, "move", f.Move, "is %s", mv.State)
	case mv.DryRun:
		return refuse(refusal.Conflict, "move", f.Move, "is a dry run")
	case mv.Container != f.Container:
		return refuse(refusal.Denied, "container", f.Container, "is not the one that is to move, %s", mv.Container)
	case mv.Manifest != nil && !mv.Manifest.Same(f):
		return refuse(refusal.Conflict, "manifest", f.Digest, "move %s was granted for another description of %s (%.12s...)", mv.ID, mv.Container, mv.Manifest.Digest)
	case mv.Manifest == nil && now.After(mv.Deadline):
		return refuse(refusal.Conflict, "move", f.Move, "was to be begun before %s", mv.Deadline.Format(time.DateTime))
	}
	return nil
}

// wanted returns the change of policy that the source of a move asked a place for, or nil
// if the move is of another container, which makes room. The lock is held.
func (m *Manager) wanted(mv *move) wire.Change {
	if p := m.places[mv.Place]; p != nil && p.owns(mv) {
		return p.Change
	}
	return nil
}

// owns reports whether a move is that of the container that a place is for, and not
// of one that makes room.
func (p *place) owns(mv *move) bool {
	return mv != nil && mv.Place == p.ID && mv.From == p.Node && mv.Container == p.Container
}

// arrived takes in that the target of a move has applied what came with its copy.
func (m *Manager) arrived(r wire.Arrived, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	mv := m.moves[r.Move]
	if mv == nil || mv.To != r.Node || mv.Manifest == nil {
		m.refused.Add(1)
		m.log.Warn("report about a move that is not known", "move", r.Move, "node", r.Node)
		return nil
	}
	if !mv.Arrived.IsZero() {
		return nil
	}
	next := *mv
	next.Arrived, next.Unmet = now.UTC(), wire.Clip(r.Error, wire.MaxText)
	c := &change{}
	bucketMoves.Put(&c.Change, next.ID, &next)
	if err := m.write(c); err != nil {
		return err
	}
	*mv = next
	if r.Error != "" {
		m.log.Warn("policy was refused", "node", r.Node, "workload", mv.Container, "move", mv.ID, "err", r.Error)
	} else {
		m.log.Info("policy is in force", "node", r.Node, "workload", mv.Container, "move", mv.ID)
	}
	m.advance(mv.Place, now)
	m.notify()
	return nil
}
