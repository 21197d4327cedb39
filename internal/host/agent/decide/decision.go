// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/workload"
	"weir/internal/host/agent/decide/gap"
	"weir/internal/host/discover"
	"weir/internal/host/discover/lookup"
)

// Decision is what follows from a world.
type Decision struct {
	// World is what was decided about. Its class numbers and grants are those that follow
	// from the decision, so that deciding again plans the same.
	World    World
	Rulings  []Ruling              // the host first, then by name
	Groups   []Ruling              // by name
	Plans    map[string]plan.State // by link
	LinkGaps map[string][]gap.Gap  // by link: what its backend does not hold of its settings
	// Until is when a period of some policy begins or ends; zero = never.
	Until time.Time
	// moments are World.Now, and one for every other set of mins and maxes that holds at some
	// time.
	moments []time.Time
}

// steered returns the workloads and groups that have a class.
func (d *Decision) steered() []*Ruling {
	return slices.DeleteFunc(d.all(), func(v *Ruling) bool { return !v.Steered })
}

// Ruling returns the ruling about the workload with a key.
func (d Decision) Ruling(key string) (Ruling, bool) { return rulingOf(d.Rulings, key) }

// Group returns the ruling about the group with a key, see plan.GroupKey.
func (d Decision) Group(key string) (Ruling, bool) { return rulingOf(d.Groups, key) }

// any returns the ruling about the workload or group with a key.
func (d Decision) any(key string) (Ruling, bool) {
	if v, ok := d.Ruling(key); ok {
		return v, true
	}
	return d.Group(key)
}

func rulingOf(list []Ruling, key string) (Ruling, bool) {
	i := slices.IndexFunc(list, func(v Ruling) bool { return v.Key == key })
	if i < 0 {
		return Ruling{}, false
	}
	return list[i], true
}

// workloads returns all workloads, the host among them.
func (d Decision) workloads() []discover.Workload {
	list := make([]discover.Workload, len(d.Rulings))
	for i, v := range d.Rulings {
		list[i] = v.Workload
	}
	return list
}

// Members returns the workloads whose policy puts them into a group.
func (d Decision) Members(name string) []Ruling {
	var members []Ruling
	for _, v := range d.Rulings {
		if v.Policy.Group == name {
			members = append(members, v)
		}
	}
	return members
}

// Refused returns the names of workloads and groups that do not have all of their policy.
func (d Decision) Refused() []string {
	var names []string
	for _, v := range slices.Concat(d.Rulings, d.Groups) {
		if v.State == workload.StateRefused {
			names = append(names, v.Name)
		}
	}
	return names
}

// NotHeld returns the names of workloads and groups that have a gap which the user has not
// accepted.
func (d Decision) NotHeld() []string {
	var names []string
	for _, v := range slices.Concat(d.Rulings, d.Groups) {
		if slices.ContainsFunc(v.Gaps, func(g gap.Gap) bool { return !g.Accepted }) {
			names = append(names, v.Name)
		}
	}
	return names
}

// Warnings returns sentences about rules that overlap, in the configuration and in the policy
// of each workload.
func (d Decision) Warnings() []string {
	list := slices.Clone(d.World.Config.Warnings)
	for _, v := range d.Rulings {
		for _, warning := range v.OwnWarnings() {
			list = append(list, v.Name+": "+warning)
		}
	}
	return list
}

// TunedOf returns what was set about the controllers of the workload with a name.
func (d Decision) TunedOf(name string) Tuned {
	for _, v := range d.Rulings {
		if v.Name == name {
			return d.World.Tuned[v.Key]
		}
	}
	return Tuned{}
}

// GroupText says what a group was promised on a link, where it has a class, and who its
// members are.
func (d Decision) GroupText(v Ruling, link plan.Link, class plan.Class) []string {
	p := v.policyOn(link)
	min, max := "no min", "no max"
	if !p.Min.None() {
		min = "a min of " + p.Min.String()
	} else if class.Min > 0 {
		min = fmt.Sprintf("no min of its own (those of its members come to %s)", class.Min)
	}
	if !p.Max.None() {
		max = "a max of " + p.Max.String()
	}
	return []string{fmt.Sprintf("Group %s has weight %d, %s and %s.", v.Name, p.Weight, min, max), membersText(v.Name, d.Members(v.Name))}
}

// membersText returns a sentence that names the members of a group.
func membersText(group string, members []Ruling) string {
	const most = 12
	var names []string
	for _, m := range members {
		names = append(names, m.Name)
	}
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d more", more))
	}
	switch len(members) {
	case 0:
		return fmt.Sprintf("It has no members; weir set NAME --group %s puts a workload into it.", group)
	case 1:
		return "Its only member is " + names[0] + "."
	}
	return fmt.Sprintf("Its members are %s and %s.", strings.Join(names[:len(names)-1], ", "), names[len(names)-1])
}

// ByKey returns the rulings about workloads and groups by their keys.
func (d Decision) ByKey() map[string]*Ruling {
	all := make(map[string]*Ruling, len(d.Rulings)+len(d.Groups))
	for _, list := range [][]Ruling{d.Rulings, d.Groups} {
		for i := range list {
			all[list[i].Key] = &list[i]
		}
	}
	return all
}

// Resolve finds the ruling about the one workload that a person means.
func (d Decision) Resolve(name string) (Ruling, error) {
	found, err := lookup.One(name, d.workloads())
	if err != nil {
		return Ruling{}, err
	}
	v, _ := d.Ruling(found.Key)
	return v, nil
}
