// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"

	"github.com/goccy/go-yaml/ast"

	"weir/internal/core/invalid"
	"weir/internal/core/policy"
	"weir/internal/core/policy/admission"
	"weir/internal/core/policy/twolevel"
	"weir/internal/lab/zones"
)

// Group is a group of workloads; of its policy, weight, min and max count.
type Group struct {
	Name   string
	Policy Policy
}

// Promises are the policies that are in force at one time.
type Promises struct {
	Workloads []Policy // in the order of Scenario.Workloads
	Groups    []Policy // in the order of Scenario.Groups
}

// Promises are the policies in each phase.
func (s *Scenario) Promises() []Promises {
	var now Promises
	for _, w := range s.Workloads {
		now.Workloads = append(now.Workloads, w.Policy)
	}
	for _, g := range s.Groups {
		now.Groups = append(now.Groups, g.Policy)
	}
	var list []Promises
	for _, p := range s.Phases {
		now = Promises{slices.Clone(now.Workloads), slices.Clone(now.Groups)}
		for _, c := range p.Set {
			c.apply(&now.Workloads[c.Workload])
		}
		for _, c := range p.SetGroups {
			c.apply(&now.Groups[c.Workload])
		}
		list = append(list, now)
	}
	return list
}

// Policies are each workload's policy in each phase: [phase][workload].
func (s *Scenario) Policies() [][]Policy {
	var list [][]Policy
	for _, p := range s.Promises() {
		list = append(list, p.Workloads)
	}
	return list
}

// GroupIndex finds a group by its name, -1 if there is none.
func (s *Scenario) GroupIndex(name string) int {
	return slices.IndexFunc(s.Groups, func(g Group) bool { return g.Name == name })
}

// divide is what the contract gives each workload, at both levels where there
// are groups.
func (s *Scenario) divide(now Promises, demand []policy.Rate) []float64 {
	if len(s.Link.Zones) > 0 {
		return zones.Divide(s.Link.Capacity(), s.Link.Zones, s.Link.Ingress, len(demand), func(w int) (string, policy.Sharer) { return s.Workloads[w].Zone, s.sharer(now.Workloads[w], demand[w]) })
	}
	branches := make([]twolevel.Branch, len(s.Groups))
	for g, p := range now.Groups {
		branches[g] = twolevel.Branch{Sharer: policy.Sharer{Weight: p.Weight, Min: p.Min, Max: p.Max}, Members: []policy.Sharer{}}
	}
	type place struct{ branch, member int }
	places := make([]place, len(now.Workloads))
	for w, p := range now.Workloads {
		sharer := s.sharer(p, demand[w])
		g := s.GroupIndex(p.Group)
		if g < 0 {
			places[w] = place{len(branches), -1}
			branches = append(branches, twolevel.Branch{Sharer: sharer})
			continue
		}
		places[w] = place{g, len(branches[g].Members)}
		branches[g].Members = append(branches[g].Members, sharer)
	}
	for g := range now.Groups {
		// Without a min of its own it reserves what its members do together.
		if branches[g].Min == 0 {
			branches[g].Min = policy.Sum(floors(now, s.Groups[g].Name, s))
		}
	}
	tree := twolevel.Divide(s.Link.Capacity(), branches)
	shares := make([]float64, len(places))
	for w, at := range places {
		if at.member < 0 {
			shares[w] = tree.Shares[at.branch].Bps
		} else {
			shares[w] = tree.Groups[at.branch].Shares[at.member].Bps
		}
	}
	return shares
}

// floors are the mins of a group's members, or with "" of the workloads without
// a group.
func floors(now Promises, group string, s *Scenario) []policy.Floor {
	var list []policy.Floor
	for w, p := range now.Workloads {
		if p.Group == group && p.Min > 0 {
			list = append(list, policy.Floor{Name: s.Workloads[w].Name, Min: p.Min})
		}
	}
	return list
}

// groups reads the groups of the top level.
func (r *reader) groups(n ast.Node, s *Scenario) {
	list, ok := r.entries(n, "groups", "a mapping of names, such as {tenant-b: {max: 40mbit}}")
	if !ok {
		return
	}
	for _, e := range list {
		name, path := keyText(e.Key), join("groups", keyText(e.Key))
		if err := policy.CheckGroupName(name); err != nil {
			r.refuse(e.Key, path, invalid.InField("", err))
			continue
		}
		g := Group{Name: name, Policy: Policy{Weight: DefaultWeight}}
		if _, ok := e.Value.(*ast.NullNode); !ok {
			var c WorkloadChange
			r.fields(e.Value, path, "a mapping such as {weight: 2, max: 40mbit}", r.rateFields(&c, s))
			c.apply(&g.Policy)
		}
		s.Groups = append(s.Groups, g)
	}
}

// groupChanges reads what a phase changes of groups.
func (r *reader) groupChanges(n ast.Node, path string, s *Scenario) []WorkloadChange {
	list, ok := r.entries(n, path, "a mapping such as {tenant-b: {max: 40mbit}}")
	if !ok {
		return nil
	}
	var changes []WorkloadChange
	for _, e := range list {
		name := keyText(e.Key)
		c := WorkloadChange{Workload: s.GroupIndex(name)}
		if c.Workload < 0 {
			r.unknown(e.Key, path, "group", name, groupNames(s))
			continue
		}
		r.fields(e.Value, join(path, name), "a mapping such as {max: 40mbit}", r.rateFields(&c, s))
		changes = append(changes, c)
	}
	return changes
}

func groupNames(s *Scenario) []string {
	var list []string
	for _, g := range s.Groups {
		list = append(list, g.Name)
	}
	return list
}

// checkGroups looks for what one phase promises groups and their members that
// does not go together.
func (r *reader) checkGroups(s *Scenario, now Promises, at ast.Node, path string) {
	groups := "groups"
	if path != "workloads" {
		groups = path + ".groups"
	}
	for w, p := range now.Workloads {
		if p.Group == "" || s.GroupIndex(p.Group) >= 0 {
			continue
		}
		here := path + "." + s.Workloads[w].Name + ".group"
		if len(s.Groups) == 0 {
			r.fail(at, here, p.Group, "there is no such group; write groups: {%s: {weight: 1}} at the top level", p.Group)
		} else {
			r.unknown(at, here, "group", p.Group, groupNames(s))
		}
	}
	for g, p := range now.Groups {
		name := s.Groups[g].Name
		if p.Max != 0 && p.Min > p.Max {
			r.fail(at, groups+"."+name, "", "min %s is above max %s; lower min or raise max", p.Min, p.Max)
			continue
		}
		members := floors(now, name, s)
		for _, err := range []error{admission.GroupMin(p.Min, members), admission.GroupMax(p.Max, members)} {
			if err != nil {
				r.refuse(at, groups+"."+name, err)
			}
		}
	}
}
