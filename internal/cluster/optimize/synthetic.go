// SPDX-License-Identifier: Apache-2.0

package optimize

import "fmt"

// Synthetic returns a cluster that a seed makes: equal nodes of 16 CPUs, 64 GB, 500
// MB/s and 1 Gbit/s, which containers of random size fill to about half whatever
// their number. One in four is heavy on the network, one in four on block I/O; each
// has up to 200 MB to carry. Swarm's spread has launched them.
func Synthetic(nodes, containers int, seed uint64) *Problem {
	r := newRNG(seed)
	p := &Problem{}
	for i := range nodes {
		p.Nodes = append(p.Nodes, Node{Name: fmt.Sprintf("n%d", i), Guaranteed: 1e9,
			Capacity: Vector{CPU: 16, Memory: 64e9, BlockIO: 500e6, Transmit: 1e9, Receive: 1e9}})
	}
	size := 16 * float64(nodes) / float64(max(containers, 1)) // CPUs of the largest
	for i := range containers {
		c := Container{Name: fmt.Sprintf("c%d", i), Bytes: 1e6 + r.float()*200e6}
		c.Demand[CPU] = size * r.float()
		c.Demand[Memory] = size * 4e9 * r.float()
		switch r.below(4) {
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
