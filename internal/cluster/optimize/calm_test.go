// SPDX-License-Identifier: Apache-2.0

package optimize

import (
	"slices"
	"testing"
)

// A node that is short of nothing keeps its containers; what one above the bound has too
// much of goes to it all the same.
func TestLeaveCalm(t *testing.T) {
	for _, tt := range []struct {
		name  string
		p     *Problem
		edit  func(*Problem)
		above float64
		calm  []int
		moves int
	}{
		{"half of the CPUs on one node", cluster(2, "0:1", "0:1"), nil, DefaultAbove, []int{0, 1}, 0},
		{"the same without a bound", cluster(2, "0:1", "0:1"), nil, 0, nil, 1},
		{"at the bound", cluster(2, "0:1.4", "0:1.4"), nil, DefaultAbove, []int{0, 1}, 0},
		{"above it", cluster(2, "0:1.5", "0:1.5"), nil, DefaultAbove, []int{1}, 1},
		{"the others stay", cluster(3, "0:1.5", "0:1.5", "1:1", "1:1"), nil, DefaultAbove, []int{1, 2}, 1},
		{"memory counts", cluster(2, "0:0", "0:0"), func(p *Problem) {
			p.Containers[0].Demand[Memory], p.Containers[1].Demand[Memory] = 3e9, 3e9
		}, DefaultAbove, []int{1}, 1},
		{"what has no known capacity does not", cluster(2, "0:0", "0:0"), func(p *Problem) {
			p.Containers[0].Demand[BlockIO], p.Containers[1].Demand[BlockIO] = 90e6, 90e6
		}, DefaultAbove, []int{0, 1}, 0},
		{"mins beyond what a node can hold", cluster(2, "0:1", "0:1"), func(p *Problem) {
			p.Nodes[0].Guaranteed, p.Nodes[1].Guaranteed = 10e6, 10e6
			p.Containers[0].Min, p.Containers[1].Min = 8e6, 8e6
		}, DefaultAbove, []int{1}, 1},
	} {
		if tt.edit != nil {
			tt.edit(tt.p)
		}
		were := slices.Clone(tt.p.Containers)
		given := tt.p.Containers
		if calm := tt.p.LeaveCalm(tt.above); !slices.Equal(calm, tt.calm) {
			t.Errorf("%s: calm %v, want %v", tt.name, calm, tt.calm)
		}
		for i := range given {
			if given[i].Pinned != were[i].Pinned {
				t.Errorf("%s: the caller's containers have changed", tt.name)
			}
		}
		for name, plan := range map[string]Plan{"local": Local(tt.p, Options{Alpha: DefaultAlpha}), "genetic": Genetic(tt.p, GeneticOptions{Options: Options{Alpha: DefaultAlpha}, Seeded: true})} {
			if len(plan.Moves) != tt.moves {
				t.Errorf("%s: %s moves %+v, want %d", tt.name, name, plan.Moves, tt.moves)
			}
		}
	}
}
