// SPDX-License-Identifier: Apache-2.0

package optimize

import (
	"weir/internal/core/policy"
	"weir/internal/core/wire"
)

// FromProfiles makes a problem of what the nodes have said: for each node some
// profiles, the newest last. A node is what its newest profile says, and so are its
// containers; what a container demands of CPU, block I/O and network is its mean
// over the profiles in which it is, weighted by their intervals, so that a plan does
// not follow every spike. Memory is that of the newest: it is there or not.
//
// The result's containers are in the order of the nodes and of their newest
// profiles, as the second result has them. A min that was refused on a node counts
// as none (Place is for those). A demand for CPU is no more than the node has, which
// rounding of short intervals may say.
func FromProfiles(histories [][]wire.Profile) (*Problem, []wire.ContainerProfile) {
	p := &Problem{Cost: DefaultCost}
	var list []wire.ContainerProfile
	for _, history := range histories {
		if len(history) == 0 {
			continue
		}
		newest := &history[len(history)-1]
		n := len(p.Nodes)
		p.Nodes = append(p.Nodes, nodeOf(newest))
		used := means(history)
		for _, c := range newest.Containers {
			container := Container{Name: c.Name, Node: n, Min: policy.Rate(c.Policy.MinBps), Demand: used[c.ID],
				Pinned: c.Labels[wire.PinnedLabel] == "true", Group: c.Labels[wire.ApartLabel],
				Bytes: float64(c.Usage.MemoryAnonymousBytes + c.ChangedBytes)}
			container.Demand[CPU] = min(container.Demand[CPU], p.Nodes[n].Capacity[CPU])
			container.Demand[Memory] = float64(c.Usage.MemoryBytes)
			p.Containers = append(p.Containers, container)
			list = append(list, c)
		}
	}
	accepts(p, histories)
	return p, list
}

// accepts takes in from which nodes each node says that it takes containers.
func accepts(p *Problem, histories [][]wire.Profile) {
	index := make(map[string]int, len(p.Nodes))
	for n := range p.Nodes {
		index[p.Nodes[n].Name] = n
	}
	for _, history := range histories {
		if len(history) == 0 || history[len(history)-1].AcceptFrom == nil {
			continue
		}
		newest := &history[len(history)-1]
		from := map[int]bool{}
		for _, name := range *newest.AcceptFrom {
			if n, known := index[name]; known {
				from[n] = true
			}
		}
		p.Nodes[index[newest.Node]].Accepts = from
	}
}

func nodeOf(p *wire.Profile) Node {
	k := &p.Capacity
	return Node{
		Name: p.Node,
		Capacity: Vector{CPU: k.CPUCores, Memory: float64(k.MemoryBytes), BlockIO: k.BlockIOBytesPerSecond,
			Transmit: float64(k.NetworkTransmitBps), Receive: float64(k.NetworkReceiveBps)},
		Guaranteed: policy.Rate(k.GuaranteedBps - min(k.GuaranteedElsewhereBps, k.GuaranteedBps)),
	}
}

// means returns the rates of a node's containers, by id.
func means(history []wire.Profile) map[string]Vector {
	sums, seconds := map[string]Vector{}, map[string]float64{}
	for i := range history {
		interval := history[i].IntervalSeconds
		for _, c := range history[i].Containers {
			sum, u := sums[c.ID], &c.Usage
			for r, rate := range rates(u) {
				sum[r] += rate * interval
			}
			sums[c.ID] = sum
			seconds[c.ID] += interval
		}
	}
	for id, sum := range sums {
		for r := range sum {
			if seconds[id] > 0 {
				sum[r] /= seconds[id]
			}
		}
		sums[id] = sum
	}
	return sums
}

func rates(u *wire.Usage) Vector {
	return Vector{CPU: u.CPUCores, BlockIO: u.BlockReadBytesPerSec + u.BlockWriteBytesPerSec,
		Transmit: u.NetworkTransmitBps, Receive: u.NetworkReceiveBps}
}
