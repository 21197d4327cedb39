// SPDX-License-Identifier: Apache-2.0

package optimize

// Strategy is a strategy of Docker Swarm's: it says where a container is launched,
// given where the ones before it are.
type Strategy string

// The strategies, as the paper describes them (section I).
const (
	Spread  Strategy = "spread"  // the node with the fewest containers; by chance among equals
	BinPack Strategy = "binpack" // the node with the most containers that has room
	Random  Strategy = "random"  // any node that has room
)

// Strategies lists all strategies.
var Strategies = []Strategy{Spread, BinPack, Random}

// Launch places all containers in the order of the list, on nodes that hold none
// yet; where they are now does not count. One that fits nowhere is put where most
// room would be for anything: on the node with the fewest containers. Pinned ones
// are where they are.
func (p *Problem) Launch(by Strategy, seed uint64) Assignment {
	s := newState(p, p.Initial())
	for n := range s.nodes { // empty the cluster
		s.nodes[n].list, s.nodes[n].min = s.nodes[n].list[:0], 0
		s.nodes[n].load = Vector{}
	}
	clear(s.held)
	rng := newRNG(seed)
	for i := range p.Containers {
		if p.Containers[i].Pinned {
			s.launch(i, p.Containers[i].Node)
		}
	}
	for i := range p.Containers {
		if p.Containers[i].Pinned {
			continue
		}
		to := s.pick(i, by, rng, true)
		if to < 0 {
			to = s.pick(i, Spread, rng, false)
		}
		s.launch(i, to)
	}
	return s.at
}

func (s *state) launch(c, n int) {
	s.enter(c, n)
	for r, v := range s.p.Containers[c].Demand {
		s.nodes[n].load[r] += v
	}
}

// pick chooses a node for c by a strategy, by chance among equals; -1 if none has
// room, and that counts.
func (s *state) pick(c int, by Strategy, rng *rng, room bool) int {
	best, most, equals := -1, 0, 0
	for n := range s.nodes {
		if room && !s.fits(c, n, -1) {
			continue
		}
		value := 0
		switch by {
		case Spread:
			value = -len(s.nodes[n].list)
		case BinPack:
			value = len(s.nodes[n].list)
		}
		switch {
		case best < 0 || value > most:
			best, most, equals = n, value, 1
		case value == most:
			if equals++; rng.below(equals) == 0 {
				best = n
			}
		}
	}
	return best
}

// Relaunch returns the plan by which the containers would be where a strategy had
// launched them: what the baselines look like as an algorithm.
func Relaunch(p *Problem, by Strategy, seed uint64) Plan {
	return p.Plan(p.Launch(by, seed))
}
