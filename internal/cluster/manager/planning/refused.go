// SPDX-License-Identifier: Apache-2.0

package planning

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/cluster/manager/moves"
	"weir/internal/core/wire"
)

// refusalKept is how long the manager plans no move of a container to a node that
// refused it. The settings of a node are read at the start of its agent, which ends it
// sooner; its engine's settings may change unseen.
const refusalKept = time.Hour

// barRefused keeps a plan from the moves that a target has refused lately.
func (cl Cluster) barRefused(p *Problem, now time.Time) {
	for _, mv := range cl.Moves {
		if mv.Refusal == nil || now.Sub(mv.Ended) > refusalKept {
			continue
		}
		from, to := p.Node(mv.From), p.Node(mv.To)
		if from < 0 || to < 0 || !cl.Nodes[mv.To].Beat.Started.Equal(mv.Refusal.Target) {
			continue
		}
		c := p.find(from, mv.Container)
		if c < 0 || p.containers[c].ID != mv.Refusal.ID || slices.Contains(p.Containers[c].Barred, to) {
			continue
		}
		p.Containers[c].Barred = append(p.Containers[c].Barred, to)
		p.refusals = append(p.refusals, fmt.Sprintf("%s does not accept %s of %s: %s", mv.To, mv.Container, mv.From, wire.Clip(mv.Error, moves.MaxStepError)))
	}
	slices.Sort(p.refusals)
}

// namedAtMost bounds how many nodes a line about refusals names.
const namedAtMost = 5

// Refusals says what nodes do not accept, a line each.
func (p *Problem) Refusals() []string {
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
