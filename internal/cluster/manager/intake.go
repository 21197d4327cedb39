// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"time"

	"weir/internal/cluster/bus"
	"weir/internal/cluster/manager/moves"
	"weir/internal/cluster/manager/planning"
	"weir/internal/core/wire"
)

// The handlers take the messages of nodes. They return an error only if the message
// has to come again: a message that is forged or cannot be read never gets better.

// open checks an envelope: who sent it, and that it was him.
func (m *Manager) open(in bus.Delivery) (e wire.Envelope, node string, ok bool) {
	_, node, ok = in.Subject.Split()
	if !ok {
		m.refuse(in, "", fmt.Errorf("no subject of a node"))
		return e, "", false
	}
	e, err := wire.Open(in.Data)
	if err != nil {
		m.refuse(in, "", err)
		return e, node, false
	}
	key := m.members.Key(node)
	switch {
	case key == nil:
		err = fmt.Errorf("%w: %s is no member of this cluster", wire.ErrForged, node)
	case e.From != node:
		err = fmt.Errorf("%w: %.80s speaks for %s", wire.ErrForged, e.From, node)
	default:
		err = e.Verify(key, in.Subject)
	}
	if topic, _, _ := in.Subject.Split(); err == nil {
		err = m.admitMessage(node, topic, time.Now())
	}
	if err != nil {
		m.refuse(in, e.From, err)
		return e, node, false
	}
	return e, node, true
}

func (m *Manager) refuse(in bus.Delivery, from string, err error) {
	m.refused.Add(1)
	m.log.Warn("message refused", "subject", in.Subject, "from", wire.Clip(from, wire.MaxName), "err", wire.Clip(err.Error(), wire.MaxText))
}

// read decodes a message and checks that it speaks of its sender.
func (m *Manager) read(in bus.Delivery, e wire.Envelope, msg wire.Message, of func() string) bool {
	err := e.Read(msg)
	if err == nil && of() != e.From {
		err = fmt.Errorf("%w: a %s of %s by %s", wire.ErrForged, e.Kind, of(), e.From)
	}
	if err != nil {
		m.refuse(in, e.From, err)
		return false
	}
	return true
}

// at returns the manager's record of a node, and makes it if there is none. The
// lock is held.
func (m *Manager) at(name string) *planning.Node {
	n := m.nodes[name]
	if n == nil {
		n = &planning.Node{}
		m.nodes[name] = n
	}
	return n
}

func (m *Manager) onHeartbeat(_ context.Context, in bus.Delivery) error {
	e, name, ok := m.open(in)
	if !ok {
		return nil
	}
	var h wire.Heartbeat
	if !m.read(in, e, &h, func() string { return h.Node }) {
		return nil
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.at(name)
	if h.Started.Equal(n.Beat.Started) && h.Seq <= n.Beat.Seq || h.Started.Before(n.Beat.Started) {
		return nil // old, or here already
	}
	if now.Sub(e.At) > planning.LostAfter { // from before it or the bus was away; there are newer ones
		return nil
	}
	if n.Heard.IsZero() || now.Sub(n.Heard) > planning.LostAfter {
		m.log.Info("node is there", "node", name, "weir", h.Weir, "address", h.Address)
	}
	n.Beat, n.Heard = h, now
	return nil
}

func (m *Manager) onProfile(_ context.Context, in bus.Delivery) error {
	e, name, ok := m.open(in)
	if !ok {
		return nil
	}
	var p wire.Profile
	good := m.read(in, e, &p, func() string { return p.Node })
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.at(name)
	if n.Trouble = planning.Unusable(&p, e, good, now); n.Trouble != "" {
		return nil
	}
	if len(n.History) > 0 && !p.Time.After(n.History[len(n.History)-1].Time) {
		return nil
	}
	n.History, n.Got = planning.Remember(n.History, p), now
	return nil
}

// profileOf returns the newest profile of a container on a node, nil if there is none. The
// lock is held.
func (m *Manager) profileOf(node, container string) *wire.ContainerProfile {
	return m.nodes[node].Container(container)
}

// relocate takes the profile of a container that has moved from the source's
// containers to the target's, so that no plan has to wait for the next profiles of
// the two nodes. The lock is held.
func (m *Manager) relocate(mv *moves.Move) {
	m.nodes[mv.From].Lose(mv.Container)
	if mv.Profile != nil {
		m.nodes[mv.To].Gain(*mv.Profile)
	}
}

func (m *Manager) onReport(_ context.Context, in bus.Delivery) error {
	e, name, ok := m.open(in)
	if !ok {
		return nil
	}
	switch e.Kind {
	case wire.MoveReport{}.Kind():
		var r wire.MoveReport
		if m.read(in, e, &r, func() string { return r.Node }) {
			return m.reported(r, time.Now())
		}
	case wire.Arrived{}.Kind():
		var r wire.Arrived
		if m.read(in, e, &r, func() string { return r.Node }) {
			return m.arrived(r, time.Now())
		}
	case wire.ApplyReport{}.Kind():
		var r wire.ApplyReport
		if m.read(in, e, &r, func() string { return r.Node }) {
			return m.applied(r, time.Now())
		}
	case wire.PlaceRequest{}.Kind():
		var r wire.PlaceRequest
		if m.read(in, e, &r, func() string { return r.Node }) {
			_, err := m.seek(r, time.Now())
			if err != nil {
				m.log.Warn("no place for what a node refused", "node", name, "container", r.Container, "err", err)
			}
		}
	default:
		m.refuse(in, e.From, fmt.Errorf("a %.40q is no report", e.Kind))
	}
	return nil
}
