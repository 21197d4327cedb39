// SPDX-License-Identifier: Apache-2.0

package planning

import (
	"fmt"
	"slices"
	"time"

	"weir/internal/cluster/manager/moves"
	"weir/internal/core/wire"
)

// How long what a node says counts.
const (
	LostAfter    = 15 * time.Second // without a heartbeat a node is lost
	profileFresh = 30 * time.Second // an older one is not planned with
	HistoryLen   = 12               // profiles that demands are averaged over: a minute
)

// Node is a node as its heartbeats and profiles describe it. A nil Node is one
// of which nothing is known.
type Node struct {
	Beat    wire.Heartbeat
	Heard   time.Time
	History []wire.Profile // the newest last; older ones have only what means are made of
	Got     time.Time      // when the newest came
	Trouble string         // why nothing can be planned with what it says; "" = it can
}

// Up reports whether the node was heard of lately.
func (n *Node) Up(now time.Time) bool { return n != nil && now.Sub(n.Heard) <= LostAfter }

// usable reports whether the node can be planned with.
func (n *Node) usable(now time.Time) bool {
	return n.Up(now) && n.Trouble == "" && len(n.History) > 0 && now.Sub(n.Got) <= profileFresh
}

// Newest returns the newest profile, nil if there is none.
func (n *Node) Newest() *wire.Profile {
	if n == nil || len(n.History) == 0 {
		return nil
	}
	return &n.History[len(n.History)-1]
}

// Container returns the newest profile of a container of the node, nil if there is none.
func (n *Node) Container(name string) *wire.ContainerProfile {
	p := n.Newest()
	if p == nil {
		return nil
	}
	for _, c := range p.Containers {
		if c.Name == name {
			return &c
		}
	}
	return nil
}

// Lose takes a container that has moved away out of the newest profile.
func (n *Node) Lose(name string) {
	n.replace(func(list []wire.ContainerProfile) []wire.ContainerProfile {
		return slices.DeleteFunc(list, func(c wire.ContainerProfile) bool { return c.Name == name })
	})
}

// Gain puts a container that has moved here into the newest profile, unless it is there.
func (n *Node) Gain(container wire.ContainerProfile) {
	n.replace(func(list []wire.ContainerProfile) []wire.ContainerProfile {
		if slices.ContainsFunc(list, func(c wire.ContainerProfile) bool { return c.Name == container.Name }) {
			return list
		}
		return append(list, container)
	})
}

// replace makes a history with other containers in the newest profile: a plan may be made
// of the one before.
func (n *Node) replace(containers func([]wire.ContainerProfile) []wire.ContainerProfile) {
	if n.Newest() == nil {
		return
	}
	n.History = slices.Clone(n.History)
	newest := n.Newest()
	newest.Containers = containers(slices.Clone(newest.Containers))
}

// Unusable says why nothing can be planned with a profile, "" if it can. good says that
// the profile could be read.
func Unusable(p *wire.Profile, e wire.Envelope, good bool, now time.Time) string {
	if !good {
		err := e.Read(new(wire.Profile))
		if err == nil {
			err = wire.ErrForged
		}
		return wire.Clip("its profile was refused: "+err.Error(), moves.MaxStepError)
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

// Remember appends a profile to a history. The slice is never changed in place: a
// plan may be made of it meanwhile. Of those before the newest, only what means are
// made of is kept: a cluster of 1,000 nodes takes a tenth of the memory.
func Remember(history []wire.Profile, p wire.Profile) []wire.Profile {
	if len(history) == 0 {
		return []wire.Profile{p}
	}
	keep := history[max(0, len(history)-HistoryLen+1):]
	next := make([]wire.Profile, 0, len(keep)+1)
	next = append(next, keep...)
	next[len(next)-1] = thin(keep[len(keep)-1], p)
	return append(next, p)
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
