// SPDX-License-Identifier: Apache-2.0

package optimize

import "slices"

// DefaultAbove is the bound of LeaveCalm by which the manager plans. Where a part u of a
// resource is used at random, what wants it waits u/(1-u) times as long as it is served
// for: 2.3 times at 70 %, and ever more steeply beyond.
const DefaultAbove = 0.7

// LeaveCalm pins the containers of the nodes that are short of nothing: all use at most
// the part above of each resource whose capacity is known, and their mins fit. Moving
// from such a node costs a container seconds in which it does not run, and wins none
// anything that the profiles could show. It returns the indexes of these nodes. With 0
// every node counts as short.
func (p *Problem) LeaveCalm(above float64) (calm []int) {
	if above <= 0 {
		return nil
	}
	mins := make([]float64, len(p.Nodes))
	for i := range p.Containers {
		mins[p.Containers[i].Node] += float64(p.Containers[i].Min)
	}
	is := make([]bool, len(p.Nodes))
	for n, load := range p.loads(p.Initial()) {
		is[n] = mins[n] <= float64(p.Nodes[n].Guaranteed)
		for r, capacity := range p.Nodes[n].Capacity {
			if capacity > 0 && load[r] > above*capacity {
				is[n] = false
			}
		}
		if is[n] {
			calm = append(calm, n)
		}
	}
	p.Containers = slices.Clone(p.Containers)
	for i := range p.Containers {
		if is[p.Containers[i].Node] {
			p.Containers[i].Pinned = true
		}
	}
	return calm
}
