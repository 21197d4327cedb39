// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"slices"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/twolevel"
	"weir/internal/host/dataplane"
)

// Division is the contract at work on one link at one moment.
type Division struct {
	State  plan.State
	Used   map[plan.ClassID]Class // groups are in it with what their members did together
	Shares map[plan.ClassID]policy.Share
	Level  float64                  // bits per second per unit of weight, on the link
	Levels map[plan.ClassID]float64 // the same within each group
}

// Between measures what each class of a link did between two snapshots of its counters, and
// divides the link accordingly.
func Between(state plan.State, before, after dataplane.LinkCounters) Division {
	used := measure(before, after)
	addGroups(state, used)
	return divide(state, used)
}

// Rest is what a second adds in which no class did anything and no policy changed, as in the second
// before.
func Rest(at time.Time, s *Scores, w *Waits, h *History) {
	s.Rest(at)
	w.Rest()
	h.Rest()
}

// divide says how much each class should get, knowing how much each wants. Those of but are
// taken to want all that they can get.
func divide(state plan.State, used map[plan.ClassID]Class, but ...plan.ClassID) Division {
	d := Division{State: state, Used: used, Shares: map[plan.ClassID]policy.Share{}, Levels: map[plan.ClassID]float64{}}
	sharer := func(class plan.Class) policy.Sharer {
		c := policy.Sharer{Weight: class.Weight, Min: class.Min, Max: class.Ceiling(), Demand: used[class.ID].demand()}
		if slices.Contains(but, class.ID) {
			c.Demand = policy.Unlimited
		}
		return c
	}
	members := membersOf(state)
	var branches []twolevel.Branch
	var ids []plan.ClassID
	for _, class := range state.Classes {
		if class.Parent != 0 {
			continue
		}
		branch := twolevel.Branch{Sharer: sharer(class)}
		if class.Group {
			branch.Members = []policy.Sharer{}
			for _, member := range members[class.ID] {
				branch.Members = append(branch.Members, sharer(member))
			}
		}
		branches, ids = append(branches, branch), append(ids, class.ID)
	}
	result := twolevel.Divide(state.Link.Capacity, branches)
	d.Level = result.Level
	for i, id := range ids {
		d.Shares[id] = result.Shares[i]
		d.Levels[id] = result.Groups[i].Level
		for j, member := range members[id] {
			d.Shares[member.ID] = result.Groups[i].Shares[j]
		}
	}
	return d
}

// membersOf returns the classes in each group.
func membersOf(state plan.State) map[plan.ClassID][]plan.Class {
	members := map[plan.ClassID][]plan.Class{}
	for _, class := range state.Classes {
		if class.Parent != 0 {
			members[class.Parent] = append(members[class.Parent], class)
		}
	}
	return members
}

// addGroups adds to used, for each group, what its members did together.
func addGroups(state plan.State, used map[plan.ClassID]Class) {
	members := membersOf(state)
	for _, class := range state.Classes {
		if !class.Group {
			continue
		}
		var sum Class
		for _, member := range members[class.ID] {
			sum.add(used[member.ID])
		}
		// A group waits at least while one of its members does, and the others send
		// meanwhile.
		sum.Waits.Bits = sum.Rate * sum.Waits.Of
		used[class.ID] = sum
	}
}
