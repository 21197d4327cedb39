// SPDX-License-Identifier: Apache-2.0

// Package twolevel divides a link with groups: package policy's formula at both levels.
package twolevel

import (
	"math"

	"weir/internal/core/policy"
)

// Branch is one part of a link with groups: a workload on its own, or a group
// of workloads.
type Branch struct {
	policy.Sharer // of the workload, or of the group, whose Demand is not looked at
	// Members are the group's workloads; nil for a workload on its own.
	Members []policy.Sharer
}

// Division holds the share of each branch of a link with groups, and of each member.
type Division struct {
	policy.Division                   // of the link among the branches
	Groups          []policy.Division // within each branch, in the same order; the zero value for a workload on its own
}

// Divide applies the contract at both levels. policy.Divide divides the link among groups
// and the workloads without one, and then each group's part among its members. A
// group's demand is the sum of its members' demands, none of them above its max.
//
// Example, 100 Mbit/s: group a (weight 1) of two workloads with weights 1 and 3,
// and workload b (weight 1): a gets 50, its members 12.5 and 37.5, and b gets 50.
//
// Admission sees to it that the members' mins fit into their group's min, so that
// they hold whatever the others do. Within a group shares are exact to half a bit
// per second.
func Divide(capacity policy.Rate, branches []Branch) Division {
	sharers := make([]policy.Sharer, len(branches))
	for i, b := range branches {
		sharers[i] = b.Sharer
		if b.Members != nil {
			sharers[i].Demand = together(b.Members)
		}
	}
	t := Division{Division: policy.Divide(capacity, sharers), Groups: make([]policy.Division, len(branches))}
	for i, b := range branches {
		if b.Members != nil {
			t.Groups[i] = policy.Divide(policy.Rate(math.Round(t.Shares[i].Bps)), b.Members)
		}
	}
	return t
}

// together returns the sum of the sharers' demands, each at most the sharer's max.
func together(sharers []policy.Sharer) policy.Rate {
	floors := make([]policy.Floor, len(sharers))
	for i, c := range sharers {
		floors[i].Min = c.Demand
		if c.Max != 0 {
			floors[i].Min = min(c.Demand, c.Max)
		}
	}
	return policy.Sum(floors)
}
