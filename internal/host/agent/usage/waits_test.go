// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"testing"

	"weir/internal/api"
	"weir/internal/core/delay"
	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
)

// TestWaits: quantiles are of the last 10 to 20 seconds, sums of all time; groups are their present
// members; a histogram that begins anew takes nothing back, and what is not measured is absent.
func TestWaits(t *testing.T) {
	state := plan.State{Classes: []plan.Class{{ID: 1, Queues: []plan.Queue{{}, {}}}, {ID: 2, Parent: 9}, {ID: 3, Parent: 9}, {ID: 9, Group: true}, {ID: 4}}}
	var w Waits
	counts := map[waiting]*delay.Histogram{}
	second := func(packets map[waiting]int, bin int) {
		for at, n := range packets {
			h := delay.Histogram{}
			if was := counts[at]; was != nil {
				h = *was
			}
			h[bin] += uint64(n)
			counts[at] = &h
		}
		used := map[plan.ClassID]Class{}
		for _, class := range state.Classes {
			u := Class{Counters: dataplane.Counters{Delays: counts[waiting{class.ID, wholeClass}]}}
			for q := range class.Queues {
				u.Inside = append(u.Inside, Queue{QueueCounters: dataplane.QueueCounters{Delays: counts[waiting{class.ID, q}]}})
			}
			used[class.ID] = u
		}
		w.Add(state, used)
	}
	all := map[waiting]int{{1, wholeClass}: 10, {1, 0}: 4, {1, 1}: 6, {2, wholeClass}: 1, {3, wholeClass}: 3}
	expect := func(when string, d *api.Delay, packets, total uint64, most float64) {
		t.Helper()
		if d == nil || d.Packets != packets || d.Total.Count() != total || d.MostMs != most {
			t.Errorf("%s: %+v; want %d packets, %d in all, at most %v ms", when, d, packets, total, most)
		}
	}
	msOf := func(bin int) float64 {
		_, to := delay.Bounds(bin)
		return float64(to) / 1e6
	}
	class := func(id plan.ClassID) *api.Delay {
		c, _ := state.Class(id)
		return w.Class(state, c)
	}
	second(all, 100)
	expect("the first second, of unknown age", class(1), 0, 10, 0)
	for range 9 {
		second(all, 100)
	}
	expect("ten seconds", class(1), 90, 100, msOf(100))
	expect("a queue", w.Queue(1, 1), 54, 60, msOf(100))
	expect("a group", class(9), 36, 40, msOf(100))
	if d := class(4); d != nil || d.Text() != "not measured there" || WaitsText(d) != "How long its packets wait is not measured there." {
		t.Errorf("not measured: %+v", d)
	}
	for range 21 {
		second(all, 50)
	}
	expect("the long ones are forgotten", class(1), 100, 310, msOf(50))
	counts[waiting{1, wholeClass}] = &delay.Histogram{50: 2} // the class was made anew
	second(nil, 0)
	expect("made anew", class(1), 102, 312, msOf(50))
	state.Classes[1].Parent = 0 // 2 leaves the group
	expect("a member left", class(9), 30, 93, msOf(50))
	for range 30 {
		second(nil, 0)
	}
	expect("quiet", class(1), 0, 312, 0)
	if text := WaitsText(class(1)); text != "None of its packets has left in the last seconds, so none has waited." {
		t.Error(text)
	}
	state.Classes = state.Classes[1:]
	second(nil, 0)
	if d := w.Queue(1, 1); d != nil {
		t.Errorf("of a class that is gone: %+v", d)
	}
}
