// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/cluster/optimize"
	"weir/internal/cluster/wire"
	"weir/internal/refusal"
)

// problem is the cluster as the optimizer sees it, with the names that it does not need.
type problem struct {
	*optimize.Problem
	containers []wire.ContainerProfile // as in Problem.Containers
	held       map[int]stay            // containers that stay, and why
	unknown    []string                // nodes of which nothing is known now
	refusals   []string                // containers that nodes have refused lately
}

// node returns the index of a node, -1 if it is not in the problem.
func (p *problem) node(name string) int {
	return slices.IndexFunc(p.Nodes, func(n optimize.Node) bool { return n.Name == name })
}

// find returns the index of a container on a node, -1 if it is not there.
func (p *problem) find(node int, name string) int {
	for i := range p.Containers {
		if p.Containers[i].Node == node && (p.Containers[i].Name == name || p.containers[i].ID == name) {
			return i
		}
	}
	return -1
}

// problem returns the optimizer's problem for the cluster of now. A cooldown > 0 pins the
// containers that moved that lately. The lock is held; the result may be used without it.
func (m *Manager) problem(now time.Time, cooldown time.Duration) *problem {
	p := &problem{held: map[int]stay{}}
	var histories [][]wire.Profile
	closed := map[string]bool{}
	for _, name := range m.members.Names() {
		n := m.nodes[name]
		if n == nil || n.trouble != "" || len(n.history) == 0 || now.Sub(n.got) > profileFresh || now.Sub(n.heard) > lostAfter {
			p.unknown = append(p.unknown, name)
			continue
		}
		histories = append(histories, n.history)
		closed[name] = n.beat.Draining || n.beat.CRIU == ""
	}
	p.Problem, p.containers = optimize.FromProfiles(histories)
	cannot := map[int]bool{}
	for i := range p.Nodes {
		if engines := m.nodes[p.Nodes[i].Name].beat.Engines; len(engines) > 0 {
			p.Nodes[i].Engine = engines[0].Name
		}
		if closed[p.Nodes[i].Name] {
			p.Nodes[i].Closed = true
			if m.nodes[p.Nodes[i].Name].beat.CRIU == "" {
				cannot[i] = true
			}
		}
	}
	m.barRefused(p, now)
	moving := m.moving(now, cooldown)
	for i := range p.Containers {
		c := &p.Containers[i]
		c.Engine = p.containers[i].Engine
		name := p.Nodes[c.Node].Name + "/" + c.Name
		switch {
		case cannot[c.Node]:
			c.Pinned = true
			p.held[i] = stay{unable, "node " + p.Nodes[c.Node].Name + " cannot checkpoint containers"}
		case c.Pinned:
			p.held[i] = stay{pinned, "label " + wire.PinnedLabel}
		}
		mv, ok := moving[name]
		if !ok {
			continue
		}
		c.Pinned = true
		p.held[i] = mv.stay
		if to := p.node(mv.to); to >= 0 { // as if it were there already
			c.Node = to
		}
	}
	return p
}

// cause is a reason that keeps a container where it is, or where it will be.
type cause int

const (
	unable cause = iota // its node cannot checkpoint containers
	pinned              // its label
	moving              // a move of it is under way
	lately              // a move of it has ended a short time ago
)

// stay says why a container stays, for the manager and for people.
type stay struct {
	cause cause
	why   string
}

// on is a container that stays on a node because of a move.
type on struct {
	to string
	stay
}

// moving are containers, as NODE/NAME, that are on their way, or that were lately.
func (m *Manager) moving(now time.Time, cooldown time.Duration) map[string]on {
	list := map[string]on{}
	for _, mv := range m.moves {
		switch {
		case mv.DryRun:
		case !mv.final():
			list[mv.From+"/"+mv.Container] = on{mv.To, stay{moving, fmt.Sprintf("is moving to %s (%s)", mv.To, mv.ID)}}
		case now.Sub(mv.Ended) < cooldown && mv.State == wire.MoveDone:
			list[mv.To+"/"+mv.Container] = on{mv.To, stay{lately, fmt.Sprintf("moved %s ago", now.Sub(mv.Ended).Round(time.Second))}}
		case now.Sub(mv.Ended) < cooldown:
			// One that could not be moved will not be tried again at once.
			list[mv.From+"/"+mv.Container] = on{mv.From, stay{lately, fmt.Sprintf("could not be moved %s ago", now.Sub(mv.Ended).Round(time.Second))}}
		}
	}
	return list
}

// lacking says in words what a node is short of.
func (p *problem) lacking(l optimize.Lack) string {
	name := p.Nodes[l.Node].Name
	var parts []string
	if l.Closed {
		parts = append(parts, "takes no containers")
	}
	if l.Engine != "" {
		parts = append(parts, "runs another engine ("+string(l.Engine)+")")
	}
	if l.Source != "" {
		parts = append(parts, "does not accept containers of "+l.Source+" (cluster.accept_from)")
	}
	if l.Barred {
		parts = append(parts, "has refused it lately (weir plan says why)")
	}
	if l.Bandwidth > 0 {
		parts = append(parts, "lacks "+l.Bandwidth.String()+" of guaranteed bandwidth")
	}
	if l.CPU > 0 {
		parts = append(parts, fmt.Sprintf("lacks %.2f CPUs", l.CPU))
	}
	if l.Memory > 0 {
		parts = append(parts, "lacks "+megabytes(l.Memory)+" of memory")
	}
	if l.Group != "" {
		parts = append(parts, "has one of "+l.Group+" already")
	}
	return name + " " + strings.Join(parts, ", ")
}

// kindOf returns the kind of refusal that a lack is.
func kindOf(l optimize.Lack) refusal.Kind {
	if l.Bandwidth > 0 || l.CPU > 0 || l.Memory > 0 {
		return refusal.NoRoom
	}
	return refusal.Conflict
}

func megabytes(bytes float64) string {
	if bytes >= 1e9 {
		return fmt.Sprintf("%.1f GB", bytes/1e9)
	}
	return fmt.Sprintf("%.0f MB", max(1, bytes/1e6))
}
