// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	"weir/internal/cluster/bus"
	"weir/internal/cluster/wire"
)

// The handlers take the messages of nodes. They return an error only if the message
// has to come again: a message that is forged or cannot be read never gets better.

// open checks an envelope: who sent it, and that it was him.
func (m *Manager) open(in bus.Message) (e wire.Envelope, node string, ok bool) {
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
		err = fmt.Errorf("%w: %s speaks for %s", wire.ErrForged, e.From, node)
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

func (m *Manager) refuse(in bus.Message, from string, err error) {
	m.refused.Add(1)
	m.log.Warn("message refused", "subject", in.Subject, "from", from, "err", err)
}

// read decodes a message and checks that it speaks of its sender.
func (m *Manager) read(in bus.Message, e wire.Envelope, msg wire.Message, of func() string) bool {
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
func (m *Manager) at(name string) *node {
	n := m.nodes[name]
	if n == nil {
		n = &node{}
		m.nodes[name] = n
	}
	return n
}

func (m *Manager) onHeartbeat(_ context.Context, in bus.Message) error {
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
	if h.Started.Equal(n.beat.Started) && h.Seq <= n.beat.Seq || h.Started.Before(n.beat.Started) {
		return nil // old, or here already
	}
	if now.Sub(e.At) > lostAfter { // from before it or the bus was away; there are newer ones
		return nil
	}
	if n.heard.IsZero() || now.Sub(n.heard) > lostAfter {
		m.log.Info("node is there", "node", name, "weir", h.Weir, "address", h.Address)
	}
	n.beat, n.heard = h, now
	return nil
}

func (m *Manager) onProfile(_ context.Context, in bus.Message) error {
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
	if n.trouble = unusable(&p, e, good, now); n.trouble != "" {
		return nil
	}
	if len(n.history) > 0 && !p.Time.After(n.history[len(n.history)-1].Time) {
		return nil
	}
	n.history, n.got = remember(n.history, p), now
	return nil
}

// unusable says why nothing can be planned with a profile, "" if it can. good says that
// the profile could be read.
func unusable(p *wire.Profile, e wire.Envelope, good bool, now time.Time) string {
	if !good {
		err := e.Read(new(wire.Profile))
		if err == nil {
			err = wire.ErrForged
		}
		return wire.Clip("its profile was refused: "+err.Error(), maxStepError)
	}
	switch ahead := p.Time.Sub(now); {
	case ahead > wire.Skew:
		return fmt.Sprintf("its clock is %v ahead of the manager's", ahead.Round(time.Second))
	case p.Capacity.CPUCores == 0:
		return "its profile says that it has no CPU"
	case p.Capacity.MemoryBytes == 0:
		return "its profile says that it has no memory"
	}
	return ""
}

// remember appends a profile to a history. The slice is never changed in place: a
// plan may be made of it meanwhile. Of those before the newest, only what means are
// made of is kept: a cluster of 1,000 nodes takes a tenth of the memory.
func remember(history []wire.Profile, p wire.Profile) []wire.Profile {
	if len(history) == 0 {
		return []wire.Profile{p}
	}
	keep := history[max(0, len(history)-historyLen+1):]
	next := make([]wire.Profile, 0, len(keep)+1)
	next = append(next, keep...)
	next[len(next)-1] = thin(keep[len(keep)-1], p)
	return append(next, p)
}

// profileOf returns the newest profile of a container on a node, nil if there is
// none. The lock is held.
func (m *Manager) profileOf(node, container string) *wire.ContainerProfile {
	n := m.nodes[node]
	if n == nil || len(n.history) == 0 {
		return nil
	}
	for _, c := range n.history[len(n.history)-1].Containers {
		if c.Name == container {
			return &c
		}
	}
	return nil
}

// relocate takes the profile of a container that has moved from the source's
// containers to the target's, so that no plan has to wait for the next profiles of
// the two nodes. The lock is held.
func (m *Manager) relocate(mv *move) {
	replace := func(node string, containers func([]wire.ContainerProfile) []wire.ContainerProfile) {
		if n := m.nodes[node]; n != nil && len(n.history) > 0 {
			next := slices.Clone(n.history)
			newest := &next[len(next)-1]
			newest.Containers = containers(slices.Clone(newest.Containers))
			n.history = next
		}
	}
	it := func(c wire.ContainerProfile) bool { return c.Name == mv.Container }
	replace(mv.From, func(list []wire.ContainerProfile) []wire.ContainerProfile { return slices.DeleteFunc(list, it) })
	replace(mv.To, func(list []wire.ContainerProfile) []wire.ContainerProfile {
		if mv.profile == nil || slices.ContainsFunc(list, it) {
			return list
		}
		return append(list, *mv.profile)
	})
}

// thin returns an old profile with only the usage of containers, and only of
// containers that newest has too.
func thin(old, newest wire.Profile) wire.Profile {
	ids := make(map[string]string, len(newest.Containers)) // one string for all profiles
	for _, c := range newest.Containers {
		ids[c.ID] = c.ID
	}
	t := wire.Profile{Node: newest.Node, Time: old.Time, IntervalSeconds: old.IntervalSeconds}
	for _, c := range old.Containers {
		if id, ok := ids[c.ID]; ok { // else it is gone, and no plan needs it
			u := c.Usage
			u.Pressure, u.LLCMissesPerSec = nil, nil
			t.Containers = append(t.Containers, wire.ContainerProfile{ID: id, Usage: u})
		}
	}
	t.Containers = slices.Clip(t.Containers)
	return t
}

func (m *Manager) onReport(_ context.Context, in bus.Message) error {
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
		m.refuse(in, e.From, fmt.Errorf("a %s is no report", e.Kind))
	}
	return nil
}
