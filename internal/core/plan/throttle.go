// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"weir/internal/core/policy"
)

// Throttle returns a link's state with a lower max for some of its classes, because of quotas.
// A min above it is lowered to it, and those of a group's members in proportion. Others'
// mins, and what is admitted, stay: the promise is back when the period of the quota ends.
func Throttle(s State, most map[ClassID]policy.Rate) State {
	if len(most) == 0 {
		return s
	}
	s.Classes = slices.Clone(s.Classes)
	for i := range s.Classes {
		c := &s.Classes[i]
		limit, ok := most[c.ID]
		if !ok || c.Max != 0 && c.Max <= limit {
			continue
		}
		if c.Group && c.Min > limit {
			lowerMembers(s.Classes, c.ID, limit)
		}
		c.Max, c.Min = limit, min(c.Min, limit)
	}
	return s
}

// lowerMembers lowers the mins of a group's members so that they fit into a limit.
func lowerMembers(classes []Class, group ClassID, limit policy.Rate) {
	var sum policy.Rate
	for _, c := range classes {
		if c.Parent == group {
			sum += c.Min
		}
	}
	for i := range classes {
		if c := &classes[i]; c.Parent == group && sum > limit {
			c.Min = policy.Rate(float64(c.Min) * float64(limit) / float64(sum))
		}
	}
}

// Loses reports whether going from one state to the next takes counters of classes away.
func Loses(from, to State) bool {
	return from.Link != to.Link || slices.ContainsFunc(from.Classes, func(c Class) bool {
		_, stays := to.Class(c.ID)
		return !stays
	})
}
