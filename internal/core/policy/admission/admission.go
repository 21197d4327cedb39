// SPDX-License-Identifier: Apache-2.0

// Package admission decides whether a link, or a group, has room for a min. It is pure.
//
//	err := admission.Bound{Capacity: 100e6}.Admit(policy.Floor{Name: "web", Min: 30e6}, held)
//
// The error is a *Refused, with all the numbers and what would help.
package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/core/invalid"
	"weir/internal/core/policy"
	"weir/internal/core/policy/times"
)

// Bound is what the mins on a link, or in a group, may take together. The sum of
// the mins on a link never exceeds Capacity times Reservable; that of a group's
// members never exceeds the group's min, or its max if it has no min.
type Bound struct {
	Capacity   policy.Rate // of the link; or the group's min or max
	Reservable float64     // share of the capacity that mins may take, 0 < Reservable <= 1; 0 counts as 1
	Group      string      // name of the group, "" for a link
	Bound      string      // what of the group Capacity is: "min" or "max"
}

// Limit returns the rate that all mins together may take, in bits per second.
func (a Bound) Limit() policy.Rate {
	if a.Reservable <= 0 || a.Reservable >= 1 {
		return a.Capacity
	}
	return policy.Amount{Percent: 100 * a.Reservable}.Of(a.Capacity)
}

// Admit checks that ask fits beside the mins that are held already. held must not
// contain the workload's own former min. The error is a *Refused.
func (a Bound) Admit(ask policy.Floor, held []policy.Floor) error {
	reserved := policy.Sum(held)
	free := a.Limit() - min(a.Limit(), reserved)
	if ask.Min <= free { // a min of 0 is always held
		return nil
	}
	return &Refused{
		Name: ask.Name, Asked: ask.Min, Reserved: reserved, Free: free,
		Capacity: a.Capacity, Limit: a.Limit(), Holders: holders(held),
		Group: a.Group, Bound: a.Bound,
	}
}

// holders returns the floors with a min above 0, the largest first.
func holders(held []policy.Floor) []policy.Floor {
	list := slices.DeleteFunc(slices.Clone(held), func(f policy.Floor) bool { return f.Min == 0 })
	slices.SortStableFunc(list, func(x, y policy.Floor) int {
		return cmp.Or(cmp.Compare(y.Min, x.Min), cmp.Compare(x.Name, y.Name))
	})
	return list
}

// AdmitAll checks that the mins fit together, the earlier ones first. The
// error is the *Refused of the first that does not.
func (a Bound) AdmitAll(floors []policy.Floor) error {
	for i, f := range floors {
		if err := a.Admit(f, floors[:i]); err != nil {
			return err
		}
	}
	return nil
}

// Refused is a min that a link or a group has no room for. All rates are in bits
// per second.
type Refused struct {
	Name     string         // of the workload that asked
	Asked    policy.Rate    // the min
	Reserved policy.Rate    // what the mins of others take
	Free     policy.Rate    // left for mins
	Capacity policy.Rate    // of the link, or the group's bound
	Limit    policy.Rate    // what all mins together may take
	Holders  []policy.Floor // the workloads with mins, the largest first
	Group    string         // the group that has no room, "" if it is the link
	Bound    string         // what of the group does not hold it: "min" or "max"
	// Goodput is the reservation that Asked is the wire rate of, 0 if it is a min;
	// Overhead is the number of bytes that the link adds to each of its packets.
	Goodput  policy.Rate
	Overhead int
	From     time.Time // when there will be no room; zero = now
}

// Error returns one line with all the numbers and the remedies.
func (r *Refused) Error() string {
	return fmt.Sprintf("%s of %s: %s; %s", r.Field(), r.Name, r.Reason(), r.Remedy())
}

// Field returns the name of the policy's field that there is no room for: "min" or "reserve".
func (r *Refused) Field() string {
	if r.Goodput != 0 {
		return "reserve"
	}
	return "min"
}

// Reason returns the refusal in numbers.
func (r *Refused) Reason() string {
	of := r.Capacity.String()
	switch {
	case r.Group != "":
		of = fmt.Sprintf("the %s of group %s, %s", r.Bound, r.Group, r.Capacity)
	case r.Limit < r.Capacity:
		of = fmt.Sprintf("the %s that mins may take of %s", r.Limit, r.Capacity)
	}
	asked := r.Asked.String()
	if r.Goodput != 0 {
		asked = fmt.Sprintf("%s (%s of payload)", policy.Approx(float64(r.Asked)), r.Goodput)
	}
	text := fmt.Sprintf("asked %s, reserved %s of %s, free %s", asked, r.Reserved, of, r.Free)
	if !r.From.IsZero() {
		text += " on " + times.Text(r.From)
	}
	return text
}

// Remedy returns the ways to make the min fit, the nearest at hand first.
func (r *Refused) Remedy() string {
	var ways []string
	most := r.Free
	if r.Goodput != 0 {
		most = policy.GoodputOf(r.Free, r.Overhead)
	}
	if most >= policy.MinRate {
		ways = append(ways, fmt.Sprintf("ask for %s or less", most.Compact()))
	} else {
		ways = append(ways, "do without a "+r.Field())
	}
	if len(r.Holders) > 0 {
		ways = append(ways, fmt.Sprintf("lower the min of %s", r.holders()))
	}
	if r.Group != "" {
		ways = append(ways, fmt.Sprintf("raise the %s of group %s", r.Bound, r.Group))
	}
	if r.Limit < r.Capacity && r.Asked <= r.Capacity-min(r.Capacity, r.Reserved) {
		ways = append(ways, "raise the link's reservable")
	}
	if n := len(ways); n > 1 {
		ways[n-1] = "or " + ways[n-1]
	}
	return strings.Join(ways, ", ")
}

// holders names the workloads with the largest mins, three at most, and counts the rest.
func (r *Refused) holders() string {
	const most = 3
	var names []string
	for _, f := range r.Holders[:min(most, len(r.Holders))] {
		names = append(names, fmt.Sprintf("%s (%s)", f.Name, f.Min))
	}
	if rest := len(r.Holders) - most; rest > 0 {
		names = append(names, fmt.Sprintf("%d more", rest))
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// GroupMin checks that a group may have this min beside its members' mins: 0,
// which reserves for each member by itself, or at least their sum. The error is
// an *invalid.Error for the field "min".
func GroupMin(ask policy.Rate, members []policy.Floor) error {
	if ask == 0 {
		return nil
	}
	return holds("min", ask, members, "do without a min of the group's own")
}

// GroupMax checks that a group may have this max beside its members' mins: 0, for
// none, or at least their sum. The error is an *invalid.Error for the field "max".
func GroupMax(ask policy.Rate, members []policy.Floor) error {
	if ask == 0 {
		return nil
	}
	return holds("max", ask, members, "")
}

func holds(field string, ask policy.Rate, members []policy.Floor, way string) error {
	sum := policy.Sum(members)
	if ask >= sum {
		return nil
	}
	refused := Refused{Holders: holders(members)}
	remedy := fmt.Sprintf("write %s or more", sum.Compact())
	if way != "" {
		remedy += ", " + way
	}
	return &invalid.Error{
		Field: field, Value: ask.Compact(),
		Msg:    fmt.Sprintf("the mins of its members add up to %s, %s more", sum, sum-ask),
		Remedy: remedy + ", or lower the min of " + refused.holders(),
	}
}
