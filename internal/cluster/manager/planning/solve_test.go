// SPDX-License-Identifier: Apache-2.0

package planning

import (
	"testing"

	"weir/internal/cluster/optimize"
)

// TestGeneticBeginsAtRandom: genetic is the paper's, whose first generation is random, and
// genetic-seeded begins at the present placement. Where moves cost everything and S nothing, only
// the second finds that nothing has to move.
func TestGeneticBeginsAtRandom(t *testing.T) {
	moves := map[string]int{}
	for _, algorithm := range []string{Genetic, GeneticSeeded} {
		s, err := Automatic{}.Settings(Request{Algorithm: algorithm})
		if err != nil {
			t.Fatal(err)
		}
		p := &Problem{Problem: optimize.Synthetic(100, 400, 1)}
		s.Alpha = 0
		plan, err := p.Solve(s)
		if err != nil {
			t.Fatal(err)
		}
		moves[algorithm] = len(plan.Moves)
	}
	if moves[Genetic] == 0 || moves[GeneticSeeded] != 0 {
		t.Errorf("moves %v, want some by genetic and none by genetic-seeded", moves)
	}
	if _, err := (Automatic{}).Settings(Request{Algorithm: "ant colony"}); err == nil {
		t.Error("an algorithm that is not known was taken")
	}
}
