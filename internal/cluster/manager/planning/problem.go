// SPDX-License-Identifier: Apache-2.0

package planning

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/cluster/manager/moves"
	"weir/internal/cluster/optimize"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// Problem is the cluster as the optimizer sees it, with the names that it does not need.
type Problem struct {
	*optimize.Problem
	Unknown []string // nodes of which nothing is known now
	Calm    int      // how many nodes a solution has left alone: they are short of nothing

	containers []wire.ContainerProfile // as in Problem.Containers
	held       map[int]Stay            // containers that stay, and why
	refusals   []string                // containers that nodes have refused lately
}

// Cluster is what a Problem is made of.
type Cluster struct {
	Names []string // of the members, in order
	Nodes map[string]*Node
	Moves map[string]*moves.Move
}

// Node returns the index of a node, -1 if it is not in the problem.
func (p *Problem) Node(name string) int {
	return slices.IndexFunc(p.Nodes, func(n optimize.Node) bool { return n.Name == name })
}

// find returns the index of a container on a node, -1 if it is not there.
func (p *Problem) find(node int, name string) int {
	for i := range p.Containers {
		if p.Containers[i].Node == node && (p.Containers[i].Name == name || p.containers[i].ID == name) {
			return i
		}
	}
	return -1
}

// Held says why a container stays where it is, or where it will be; ok is false if it need
// not.
func (p *Problem) Held(container int) (s Stay, ok bool) {
	s, ok = p.held[container]
	return s, ok
}

// Problem returns the optimizer's problem for the cluster of now. A cooldown > 0 pins the
// containers that moved that lately. Nothing in the result changes with the cluster.
func (cl Cluster) Problem(now time.Time, cooldown time.Duration) *Problem {
	p := &Problem{held: map[int]Stay{}}
	var histories [][]wire.Profile
	for _, name := range cl.Names {
		if n := cl.Nodes[name]; n.usable(now) {
			histories = append(histories, n.History)
		} else {
			p.Unknown = append(p.Unknown, name)
		}
	}
	p.Problem, p.containers = optimize.FromProfiles(histories)
	cannot := map[int]bool{}
	for i := range p.Nodes {
		beat := &cl.Nodes[p.Nodes[i].Name].Beat
		if len(beat.Engines) > 0 {
			p.Nodes[i].Engine = beat.Engines[0].Name
		}
		cannot[i] = beat.CRIU == ""
		if beat.Draining || cannot[i] {
			p.Nodes[i].Closed = true
		}
	}
	cl.barRefused(p, now)
	moving := cl.moving(now, cooldown)
	for i := range p.Containers {
		c := &p.Containers[i]
		c.Engine = p.containers[i].Engine
		name := p.Nodes[c.Node].Name + "/" + c.Name
		switch {
		case cannot[c.Node]:
			c.Pinned = true
			p.held[i] = Stay{Unable, "node " + p.Nodes[c.Node].Name + " cannot checkpoint containers"}
		case c.Pinned:
			p.held[i] = Stay{Pinned, "label " + wire.PinnedLabel}
		}
		mv, ok := moving[name]
		if !ok {
			continue
		}
		c.Pinned = true
		p.held[i] = mv.Stay
		if to := p.Node(mv.to); to >= 0 { // as if it were there already
			c.Node = to
		}
	}
	return p
}

// Cause is a reason that keeps a container where it is, or where it will be.
type Cause int

// The causes.
const (
	Unable Cause = iota // its node cannot checkpoint containers
	Pinned              // its label
	Moving              // a move of it is under way
	Lately              // a move of it has ended a short time ago
)

// Stay says why a container stays, for the manager and for people.
type Stay struct {
	Cause Cause
	Why   string
}

// on is a container that stays on a node because of a move.
type on struct {
	to string
	Stay
}

// moving are containers, as NODE/NAME, that are on their way, or that were lately.
func (cl Cluster) moving(now time.Time, cooldown time.Duration) map[string]on {
	list := map[string]on{}
	for _, mv := range cl.Moves {
		switch {
		case mv.DryRun:
		case !mv.State.Final():
			list[mv.From+"/"+mv.Container] = on{mv.To, Stay{Moving, fmt.Sprintf("is moving to %s (%s)", mv.To, mv.ID)}}
		case now.Sub(mv.Ended) < cooldown && mv.State == wire.MoveDone:
			list[mv.To+"/"+mv.Container] = on{mv.To, Stay{Lately, fmt.Sprintf("moved %s ago", now.Sub(mv.Ended).Round(time.Second))}}
		case now.Sub(mv.Ended) < cooldown:
			// One that could not be moved will not be tried again at once.
			list[mv.From+"/"+mv.Container] = on{mv.From, Stay{Lately, fmt.Sprintf("could not be moved %s ago", now.Sub(mv.Ended).Round(time.Second))}}
		}
	}
	return list
}

// Lacking says in words what a node is short of.
func (p *Problem) Lacking(l optimize.Lack) string {
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
		parts = append(parts, "lacks "+Megabytes(l.Memory)+" of memory")
	}
	if l.Group != "" {
		parts = append(parts, "has one of "+l.Group+" already")
	}
	return name + " " + strings.Join(parts, ", ")
}

// KindOf returns the kind of refusal that a lack is.
func KindOf(l optimize.Lack) refusal.Kind {
	if l.Bandwidth > 0 || l.CPU > 0 || l.Memory > 0 {
		return refusal.NoRoom
	}
	return refusal.Conflict
}

// Megabytes returns an amount of memory as people write it.
func Megabytes(bytes float64) string {
	if bytes >= 1e9 {
		return fmt.Sprintf("%.1f GB", bytes/1e9)
	}
	return fmt.Sprintf("%.0f MB", max(1, bytes/1e6))
}
