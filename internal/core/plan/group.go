// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"weir/internal/core/invalid"
	"weir/internal/core/policy"
	"weir/internal/core/policy/admission"
	"weir/internal/core/policy/discipline"
)

// group is a group of workloads while a State is being built.
type group struct {
	workload Workload
	placed   bool           // its turn has come
	waiting  []Workload     // members whose turn came before
	missing  error          // why it has no class
	class    Class          // if missing is nil
	own      bool           // class.Min is the group's own, admitted by the link
	held     []policy.Floor // the members' mins
}

// addGroups notes the groups, and places those without a min of their own, since
// they have nothing to wait for.
func (b *builder) addGroups(workloads []Workload) {
	for _, w := range workloads {
		if w.Group {
			b.groups[w.Name] = &group{workload: w}
		}
	}
	for _, w := range workloads {
		if w.Group && w.Policy.Min.None() {
			b.place(b.groups[w.Name])
		}
	}
}

// groupOf returns the group that the workload is in, nil if it is in none. One that it
// cannot be in is refused.
func (b *builder) groupOf(w Workload) *group {
	name := w.Policy.Group
	if name == "" {
		return nil
	}
	g := b.groups[name]
	if g == nil {
		b.refuse(w, fmt.Errorf("%s: %w", w.Name, &invalid.Error{Field: "group", Value: name, Msg: "no such group",
			Remedy: fmt.Sprintf("make it by weir group set %s, or under groups: in weir.yaml", name)}))
		return nil
	}
	if g.missing != nil {
		b.refuse(w, fmt.Errorf("%s: %w", w.Name, g.missing))
		return nil
	}
	return g
}

// place gives the group its class and, if it asks for a min, its part of the link;
// then it is the turn of the members that wait.
func (b *builder) place(g *group) {
	if g.placed {
		return
	}
	g.placed = true
	b.addGroup(g)
	for _, w := range g.waiting {
		b.add(w)
	}
}

func (b *builder) addGroup(g *group) {
	w, link := g.workload, b.state.Link
	if link.Scheduler != SchedulerFair {
		g.missing = &invalid.Error{Field: "group", Value: w.Name,
			Msg:    fmt.Sprintf("scheduler %s of link %s has no groups, each workload counts for itself", link.Scheduler, link.Device),
			Remedy: "set the link's scheduler to " + SchedulerFair}
		b.refuse(w, fmt.Errorf("%s: %w", w.Name, g.missing))
		return
	}
	w.Policy = policy.Policy{Weight: w.Policy.Weight, Min: w.Policy.Min, Max: w.Policy.Max, Burst: w.Policy.Burst}
	id, ok := b.number(w, "its members count for themselves; stop workloads")
	if !ok {
		g.missing = &invalid.Error{Field: "group", Value: w.Name, Msg: "has no class number", Remedy: "stop workloads"}
		return
	}
	p, sharer := b.sharer(w)
	g.class = Class{ID: id, Name: w.Name, Weight: sharer.Weight, Max: sharer.Max, Burst: b.burst(w, p), Discipline: discipline.SFQ, Group: true}
	ask := policy.Floor{Name: "group " + w.Name, Min: sharer.Min}
	if err := link.Admission().Admit(ask, b.floors); err != nil {
		b.refuse(w, err)
		return
	}
	if ask.Min != 0 {
		g.class.Min, g.own = ask.Min, true
		b.floors = append(b.floors, ask)
	}
}

// admit checks that there is room for a workload's min: in its group, and on the
// link unless the group has reserved it there.
func (b *builder) admit(ask policy.Floor, g *group) error {
	if g != nil {
		room := admission.Bound{Capacity: g.class.Max, Group: g.class.Name, Bound: "max"}
		if g.own {
			room.Capacity, room.Bound = g.class.Min, "min"
		}
		if room.Capacity != 0 {
			if err := room.Admit(ask, g.held); err != nil {
				return err
			}
		}
		if g.own {
			return nil
		}
	}
	return b.state.Link.Admission().Admit(ask, b.floors)
}

// hold notes an admitted min.
func (b *builder) hold(floor policy.Floor, g *group) {
	if g != nil {
		g.held = append(g.held, floor)
	}
	if g == nil || !g.own {
		b.floors = append(b.floors, floor)
	}
}

// finishGroups puts the groups into the State, each with the rate that it reserves.
func (b *builder) finishGroups() {
	for _, g := range b.groups {
		if g.missing != nil {
			continue
		}
		if !g.own {
			g.class.Min = policy.Sum(g.held)
		}
		b.state.Classes = append(b.state.Classes, g.class)
	}
}
