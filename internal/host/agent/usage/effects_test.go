// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"testing"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
)

// TestEffects: a min that one workload gets is what the others lose, now and on a busy link;
// a workload that wants little loses nothing now.
func TestEffects(t *testing.T) {
	state := func(min uint64) plan.State {
		return plan.State{Link: plan.Link{Device: "eth0", Capacity: 100e6}, Classes: []plan.Class{
			{ID: 1, Name: "a", Weight: 1, Min: policy.Rate(min)}, {ID: 2, Name: "b", Weight: 1}, {ID: 3, Name: "idle", Weight: 2},
		}}
	}
	used := map[plan.ClassID]Class{1: {Hungry: true}, 2: {Hungry: true}, 3: {Rate: 10e6}}
	got := Effects(state(0), state(80e6), used)
	if len(got) != 3 {
		t.Fatalf("%d effects: %+v", len(got), got)
	}
	for i, want := range []struct {
		name      string
		now, then [2]float64 // before and after
	}{
		{"idle", [2]float64{10e6, 10e6}, [2]float64{50e6, 40e6 / 3}},
		{"b", [2]float64{45e6, 10e6}, [2]float64{25e6, 20e6 / 3}},
		{"a", [2]float64{45e6, 80e6}, [2]float64{25e6, 80e6}},
	} {
		e := got[i]
		if e.Name != want.name || !near(e.NowBeforeBps, want.now[0]) || !near(e.NowAfterBps, want.now[1]) ||
			!near(e.BusyBeforeBps, want.then[0]) || !near(e.BusyAfterBps, want.then[1]) {
			t.Errorf("effect %d is %+v, want %+v", i, e, want)
		}
	}
	if same := Effects(state(10e6), state(10e6), used); len(same) != 0 {
		t.Errorf("no change has the effects %+v", same)
	}
}

func near(a, b float64) bool { return a-b < 1 && b-a < 1 }
