// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"weir/internal/cluster/manager/moves"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// What a member may fill, and how fast. A message beyond a rate is dropped and counted
// as refused: heartbeats and profiles are followed by newer ones, reports and requests
// are asked for, or sent, again.
//
// With these limits what one member says of itself takes at most about 10 MB of the
// manager's memory and 10 MB of its database (TestHostileMember). The moves that have
// ended take at most 25 MB of each in all: keepEnded of them with moves.MaxSteps steps.
const (
	messagesPerSecond = 20.0 // of one node on one topic
	messageBurst      = 500  // after a time out of reach
	placesPerSecond   = 0.25 // requests for a place of one node: each costs a plan
	placeBurst        = 30
	placesOpen        = 8    // of one node, moving or applying
	keepPlaces        = 1000 // that have ended, of all nodes
	applyLife         = 24 * time.Hour
	maxQueued         = 2000 // orders that the bus has not taken, beyond which no reminders are added
)

// bucket is a token bucket. The zero value is full.
type bucket struct {
	used float64
	at   time.Time
}

// take takes one token, if there is one.
func (b *bucket) take(now time.Time, perSecond, burst float64) bool {
	b.used = max(0, b.used-max(0, now.Sub(b.at).Seconds())*perSecond)
	b.at = now
	if b.used+1 > burst {
		return false
	}
	b.used++
	return true
}

// flow are the buckets of a node. They outlive its removal, which is no way to get new
// ones, until it is forgotten with the process.
type flow struct {
	topics map[wire.Topic]*bucket
	places bucket
}

// flow of a node. The lock is held.
func (m *Manager) flow(node string) *flow {
	if m.flows == nil {
		m.flows = map[string]*flow{}
	}
	f := m.flows[node]
	if f == nil {
		f = &flow{topics: map[wire.Topic]*bucket{}}
		m.flows[node] = f
	}
	return f
}

// admitMessage says whether a member may send one more message on a topic now.
func (m *Manager) admitMessage(node string, t wire.Topic, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.flow(node)
	if f.topics[t] == nil {
		f.topics[t] = &bucket{}
	}
	if !f.topics[t].take(now, messagesPerSecond, messageBurst) {
		return fmt.Errorf("node %s sends more than %g messages a second on %s, after %d at once; see the log of its agent, or remove it: weir manager remove %s",
			node, messagesPerSecond, t.Of(node), messageBurst, node)
	}
	return nil
}

// admitPlace says whether a member may ask for one more place now. The lock is held.
func (m *Manager) admitPlace(node string, now time.Time) error {
	tooMany := func(msg string) error {
		return &refusal.Error{Kind: refusal.TooMany, Field: "node", Value: node, Msg: msg, Remedy: "try again in a minute"}
	}
	if !m.flow(node).places.take(now, placesPerSecond, placeBurst) {
		return tooMany(fmt.Sprintf("asks for more places than one every %g s", 1/placesPerSecond))
	}
	open := 0
	for _, p := range m.places {
		if p.Node == node && !p.Final() {
			open++
		}
	}
	if open >= placesOpen {
		return tooMany(fmt.Sprintf("has %d requests for a place that are being dealt with", open))
	}
	return nil
}

// forget removes places that have ended, beyond the newest, and policies that their node
// did not apply in time. The lock is held.
func (m *Manager) forget(now time.Time) {
	c := &change{}
	for id, a := range m.applies {
		if now.Sub(moves.Later(a.Created, m.started)) < applyLife {
			continue
		}
		m.log.Warn("policy was not applied in time", "node", a.Node, "workload", a.Workload)
		bucketApplies.Delete(&c.Transaction, id)
		delete(m.applies, id)
		if p := m.places[a.Place]; p != nil && !p.Final() {
			p.Close("node "+a.Node+" has not applied it in time", now)
			bucketPlaces.Put(&c.Transaction, p.ID, p)
		}
	}
	var ended []*moves.RefusedMin
	for _, p := range m.places {
		if p.Final() {
			ended = append(ended, p)
		}
	}
	if len(ended) > keepPlaces+keepPlaces/10 {
		slices.SortFunc(ended, func(a, b *moves.RefusedMin) int { return cmp.Or(a.Ended.Compare(b.Ended), cmp.Compare(a.ID, b.ID)) })
		for _, p := range ended[:len(ended)-keepPlaces] {
			bucketPlaces.Delete(&c.Transaction, p.ID)
			delete(m.places, p.ID)
		}
	}
	_ = m.write(c)
}
