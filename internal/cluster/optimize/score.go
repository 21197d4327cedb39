// SPDX-License-Identifier: Apache-2.0

package optimize

// Fitness says how good a placement is.
type Fitness struct {
	// S is the stability metric by the problem's measure.
	S float64
	// Variance has the part of each resource in S.
	Variance Vector
	// Peak is each resource's highest utilisation of a node, as a part of its
	// capacity, whatever the measure.
	Peak Vector
	// Moves is the paper's d^MIG (equation 4): how many containers are not where
	// they are now. Bytes is what has to travel for that.
	Moves int
	Bytes float64
	// Cost is the cost of the moves, as a part of the cost of moving every container.
	Cost float64
}

// assumed is the least capacity that a node is taken to have where none is known: a
// nearly idle resource shall not count as much as a nearly full one.
var assumed = Vector{BlockIO: 100e6, Transmit: 1e9, Receive: 1e9}

// units returns one unit of demand as a part of each node's capacity.
func (p *Problem) units() []Vector {
	unknown := assumed // or the largest load of now
	for _, load := range p.loads(p.Initial()) {
		for r, v := range load {
			unknown[r] = max(unknown[r], v)
		}
	}
	list := make([]Vector, len(p.Nodes))
	for i := range p.Nodes {
		for r, capacity := range p.Nodes[i].Capacity {
			if capacity == 0 {
				capacity = unknown[r]
			}
			list[i][r] = 1 / capacity
		}
	}
	return list
}

// loads returns the demands on each node, added up.
func (p *Problem) loads(at Assignment) []Vector {
	list := make([]Vector, len(p.Nodes))
	for c, n := range at {
		for r, v := range p.Containers[c].Demand {
			list[n][r] += v
		}
	}
	return list
}

// Score computes everything from scratch; the searches do not use it.
func (p *Problem) Score(at Assignment) Fitness {
	units, loads := p.units(), p.loads(at)
	counts := make([]int, len(p.Nodes))
	for _, n := range at {
		counts[n]++
	}
	var s Fitness
	x := make([]Vector, len(p.Nodes))
	for n := range loads {
		for r := range loads[n] {
			x[n][r] = loads[n][r] * units[n][r]
			s.Peak[r] = max(s.Peak[r], x[n][r])
			if p.Measure == MeasureMean && counts[n] > 0 {
				x[n][r] /= float64(counts[n])
			}
		}
	}
	s.Variance = variance(x)
	for _, v := range s.Variance {
		s.S += v
	}
	var moved, all float64
	cost := p.cost()
	for i := range p.Containers {
		c := &p.Containers[i]
		all += cost.Seconds(c)
		if at[i] != c.Node {
			s.Moves++
			s.Bytes += c.Bytes
			moved += cost.Seconds(c)
		}
	}
	if all > 0 {
		s.Cost = moved / all
	}
	return s
}

// cost returns the problem's cost; all moves cost the same if it has none.
func (p *Problem) cost() MoveCost {
	if p.Cost == (MoveCost{}) {
		return MoveCost{FixedSeconds: 1}
	}
	return p.Cost
}

// variance computes equation 3 for each resource, with the mean over the nodes
// where the paper prints a sum, divided by the number of nodes.
func variance(x []Vector) (v Vector) {
	if len(x) == 0 {
		return v
	}
	var mean Vector
	for n := range x {
		for r := range mean {
			mean[r] += x[n][r]
		}
	}
	for r := range mean {
		mean[r] /= float64(len(x))
	}
	for n := range x {
		for r := range mean {
			d := x[n][r] - mean[r]
			v[r] += d * d
		}
	}
	for r := range v {
		v[r] /= float64(len(x))
	}
	return v
}
