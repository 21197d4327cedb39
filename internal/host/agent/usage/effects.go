// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"math"
	"slices"

	"weir/internal/api"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
)

// Effects returns the classes of a link that get less or more once after is in force instead
// of before, those that lose most first. used is what they did over the last second.
//
// Example, 100 Mbit/s, a and b want all they can get, weight 1 each: a min of 80 for a has
// the effects b 50 -> 20 and a 50 -> 80 Mbit/s.
func Effects(before, after plan.State, used map[plan.ClassID]Class) []api.Effect {
	nowBefore, nowAfter := divide(before, used), divide(after, used)
	busyBefore, busyAfter := divide(before, busy(before)), divide(after, busy(after))
	var effects []api.Effect
	for _, class := range union(before, after) {
		e := api.Effect{
			Name: class.Name, Group: class.Group,
			Device: after.Link.Place(), Direction: string(cmp.Or(after.Link.Direction, policy.Egress)),
			NowBeforeBps: nowBefore.Shares[class.ID].Bps, NowAfterBps: nowAfter.Shares[class.ID].Bps,
			BusyBeforeBps: busyBefore.Shares[class.ID].Bps, BusyAfterBps: busyAfter.Shares[class.ID].Bps,
		}
		if math.Abs(gain(e)) >= 1 || math.Abs(e.NowAfterBps-e.NowBeforeBps) >= 1 {
			effects = append(effects, e)
		}
	}
	slices.SortStableFunc(effects, func(a, b api.Effect) int { return cmp.Compare(gain(a), gain(b)) })
	return effects
}

// gain returns how much more of a busy link an effect gives, in bits per second.
func gain(e api.Effect) float64 { return e.BusyAfterBps - e.BusyBeforeBps }

// busy returns what the classes of a link did if all of them want all that they can get.
func busy(state plan.State) map[plan.ClassID]Class {
	used := make(map[plan.ClassID]Class, len(state.Classes))
	for _, class := range state.Classes {
		used[class.ID] = Class{Hungry: true}
	}
	return used
}

// union returns the classes that are in one of two states, as the later one has them.
func union(before, after plan.State) []plan.Class {
	all := slices.Clone(after.Classes)
	known := make(map[plan.ClassID]bool, len(all))
	for _, class := range all {
		known[class.ID] = true
	}
	for _, class := range before.Classes {
		if !known[class.ID] {
			all = append(all, class)
		}
	}
	return all
}
