// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/cluster/wire"
)

// refusalKept is how long the manager plans no move of a container to a node that
// refused it. The settings of a node are read at the start of its agent, which ends it
// sooner; its engine's settings may change unseen.
const refusalKept = time.Hour

// rejection says why a target refused a move, and of which container: it counts for this
// container on this start of the target's agent.
type rejection struct {
	Code   string    `json:"code"`
	ID     string    `json:"id"`     // of the container
	Target time.Time `json:"target"` // when the target's agent began
}

// refusalOf returns the part of a report to remember, nil if it is no refusal. The
// lock is held.
func (m *Manager) refusalOf(mv *move, r wire.MoveReport) *rejection {
	c, to := m.profileOf(mv.From, mv.Container), m.nodes[mv.To]
	if r.State != wire.MoveRefused || r.Code == "" || c == nil || to == nil {
		return nil
	}
	return &rejection{Code: wire.Clip(r.Code, maxStepName), ID: c.ID, Target: to.beat.Started}
}

// barRefused keeps a plan from the moves that a target has refused lately. The lock
// is held.
func (m *Manager) barRefused(p *problem, now time.Time) {
	for _, mv := range m.moves {
		if mv.Refusal == nil || now.Sub(mv.Ended) > refusalKept {
			continue
		}
		from, to := p.node(mv.From), p.node(mv.To)
		if from < 0 || to < 0 || !m.nodes[mv.To].beat.Started.Equal(mv.Refusal.Target) {
			continue
		}
		c := p.find(from, mv.Container)
		if c < 0 || p.containers[c].ID != mv.Refusal.ID || slices.Contains(p.Containers[c].Barred, to) {
			continue
		}
		p.Containers[c].Barred = append(p.Containers[c].Barred, to)
		p.refusals = append(p.refusals, fmt.Sprintf("%s does not accept %s of %s: %s", mv.To, mv.Container, mv.From, wire.Clip(mv.Error, maxStepError)))
	}
	slices.Sort(p.refusals)
}

// namedAtMost bounds how many nodes a line about refusals names.
const namedAtMost = 5

// notAccepted says what nodes do not accept, a line each.
func (p *problem) notAccepted() []string {
	list := []string{}
	for n := range p.Nodes {
		node := &p.Nodes[n]
		if node.Accepts == nil {
			continue
		}
		var from []string
		for other := range p.Nodes {
			if other != n && !node.Accepts[other] {
				from = append(from, p.Nodes[other].Name)
			}
		}
		more := ""
		if len(from) > namedAtMost {
			more = fmt.Sprintf(" and %d others", len(from)-namedAtMost)
			from = from[:namedAtMost]
		}
		if len(from) > 0 {
			list = append(list, fmt.Sprintf("%s does not accept containers of %s%s (cluster.accept_from)", node.Name, strings.Join(from, ", "), more))
		}
	}
	return append(list, p.refusals...)
}
