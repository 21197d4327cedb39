// SPDX-License-Identifier: Apache-2.0

package optimize

import "fmt"

// sample is a cluster as a seed makes it: containers of a few kinds, launched by
// Swarm's spread.
func sample(nodes, containers int, seed uint64, measure Measure) *Problem {
	r := newRNG(seed)
	p := &Problem{Measure: measure}
	for i := range nodes {
		p.Nodes = append(p.Nodes, Node{Name: fmt.Sprintf("n%d", i), Guaranteed: 1e9,
			Capacity: Vector{CPU: 16, Memory: 64e9, BlockIO: 500e6, Transmit: 1e9, Receive: 1e9}})
	}
	for i := range containers {
		c := Container{Name: fmt.Sprintf("c%d", i), Bytes: 1e6 + r.float()*200e6}
		size := 1.6 * float64(nodes) / float64(max(containers, 1)) * 10 // whole clusters are about half full
		c.Demand[CPU] = size * r.float()
		c.Demand[Memory] = size * 4e9 * r.float()
		switch r.below(4) { // one in four is heavy on something
		case 0:
			c.Demand[Transmit] = size * 100e6 * r.float()
			c.Demand[Receive] = size * 30e6 * r.float()
		case 1:
			c.Demand[BlockIO] = size * 80e6 * r.float()
		}
		p.Containers = append(p.Containers, c)
	}
	for c, n := range p.Launch(Spread, seed) {
		p.Containers[c].Node = n
	}
	return p
}
