// SPDX-License-Identifier: Apache-2.0

package ceiling

import (
	"slices"

	"weir/internal/core/policy"
)

// Unreserved returns a policy with its ceilings and without what it sets aside: its mins and
// reservations, in zones, queues, at times and in the other direction too. A workload that has
// ended keeps no rate from others. A reservation without a max stays as one: it is a ceiling, too.
//
//	min 20mbit max 50mbit    max 50mbit
//	reserve 10mbit           max 10mbit
func Unreserved(p policy.Policy) policy.Policy {
	if p.Max.None() {
		p.Max = p.Reserve
	}
	p.Min, p.Reserve = policy.Amount{}, policy.Amount{}
	p.Queues, p.Zones, p.When = slices.Clone(p.Queues), slices.Clone(p.Zones), slices.Clone(p.When)
	for i := range p.Queues {
		p.Queues[i].Reserve = policy.Amount{}
	}
	for i := range p.Zones {
		p.Zones[i].Min = policy.Amount{}
	}
	for i, s := range p.When {
		p.When[i].To = s.To.Without("min").Without("reserve")
	}
	p.When = slices.DeleteFunc(p.When, func(s policy.Scheduled) bool { return s.To.Empty() })
	if p.Ingress != nil {
		p.Ingress = new(Unreserved(*p.Ingress))
	}
	return p
}
