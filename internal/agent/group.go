// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/api"
	"weir/internal/closest"
	"weir/internal/discover"
	"weir/internal/invalid"
	"weir/internal/plan"
	"weir/internal/policy"
	"weir/internal/refusal"
)

// groupNames are the groups of the configuration and those made at run time, in
// order.
func (w world) groupNames() []string {
	names := slices.Collect(maps.Keys(w.groups))
	for _, g := range w.config.Groups {
		names = append(names, g.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// configured is what the configuration says of a group.
func (w world) configured(name string) (policy.Change, bool) {
	for _, g := range w.config.Groups {
		if g.Name == name {
			return g.Layer, true
		}
	}
	return policy.Change{}, false
}

// judgeGroup gives a group its policy.
func judgeGroup(w world, name string, number map[string]plan.ClassID) verdict {
	key := plan.GroupKey(name)
	v := verdict{
		Workload: discover.Workload{Key: key, Name: name, Kind: kindGroup},
		steered:  true, class: number[key], refusals: map[string][]error{}, abilities: w.abilities,
	}
	configured, _ := w.configured(name)
	v.policy, v.origin = merge(stratum{originConfig, configured}, stratum{originSet, w.groups[name]})
	maps.DeleteFunc(v.origin, func(field, _ string) bool { return !slices.Contains(policy.FieldNames(policy.OnGroup), field) })
	return v
}

// members are the workloads that are to be in a group.
func (d decision) members(name string) []verdict {
	var members []verdict
	for _, v := range d.verdicts {
		if v.policy.Group == name {
			members = append(members, v)
		}
	}
	return members
}

// Groups implements api.Agent.
func (a *Agent) Groups(ctx context.Context) ([]api.Group, error) {
	var list []api.Group
	err := a.do(ctx, func() { list = a.groupViews() })
	return list, err
}

// Group implements api.Agent.
func (a *Agent) Group(ctx context.Context, name string) (api.Group, error) {
	var g api.Group
	err := a.withGroup(ctx, name, func(v verdict) { g = a.groupView(v, a.decided) })
	return g, err
}

// withGroup has f run in the agent's goroutine with the group of that name.
func (a *Agent) withGroup(ctx context.Context, name string, f func(verdict)) error {
	var err error
	down := a.do(ctx, func() {
		v, ok := a.decided.group(plan.GroupKey(name))
		if !ok {
			err = unknownGroup(name, a.world.groupNames())
			return
		}
		f(v)
	})
	return cmp.Or(down, err)
}

// ExplainGroup implements api.Agent.
func (a *Agent) ExplainGroup(ctx context.Context, name string) (api.Explanation, error) {
	var e api.Explanation
	err := a.withGroup(ctx, name, func(v verdict) {
		e = api.Explanation{Name: "group " + v.Name, Links: []api.ExplainLink{}}
		for _, l := range a.links {
			e.Links = append(e.Links, l.explainGroup(v, a.decided.members(v.Name)))
		}
	})
	return e, err
}

// explainGroup is the group's explanation on this link, or why there is none.
func (l *link) explainGroup(v verdict, members []verdict) api.ExplainLink {
	class, ok := l.now.state.Class(v.class)
	e := l.noExplanation("")
	switch {
	case l.backend == nil:
		e.Text = []string{"The link is not steered" + because(l.err) + "."}
	case v.missing(l.config.Name()):
		e.Text = []string{"The group has no effect on this link: its members count for themselves."}
	case !ok || !class.Group:
		e.Text = []string{"The group is new here; its first second is being measured."}
	default:
		e = explain(l.now, class.ID)
		for i, text := range e.Text {
			e.Text[i] = upper(text) // it begins with the word group
		}
		e.Members = l.now.within(class.ID).others(class.ID)
	}
	e.Direction = l.direction()
	e.Text = slices.Concat([]string{v.groupText(l.config.Plan(), class), membersText(v.Name, members)}, e.Text, v.faults(l.config.Name()))
	return e
}

// missing reports whether the group has no class on a link.
func (v verdict) missing(link string) bool {
	return v.abilities[link].NoGroups || v.groupRefused(link)
}

// groupText says what the group was promised.
func (v verdict) groupText(link plan.Link, class plan.Class) string {
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
	return fmt.Sprintf("Group %s has weight %d, %s and %s.", v.Name, p.Weight, min, max)
}

// membersText names the members of a group.
func membersText(group string, members []verdict) string {
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

func (a *Agent) groupViews() []api.Group {
	list := make([]api.Group, len(a.decided.groups))
	for i, v := range a.decided.groups {
		list[i] = a.groupView(v, a.decided)
	}
	return list
}

// groupView is a group as the API shows it.
func (a *Agent) groupView(v verdict, d decision) api.Group {
	g := api.Group{
		Name: v.Name, Class: uint16(v.class), State: v.state, Note: v.note, Origin: v.origin, NotHeld: gapViews(v.gaps),
		Policy: api.GroupPolicy{Policy: v.policy}, Members: []string{}, Links: []api.WorkloadLink{},
	}
	g.State, g.Note = a.standing(v)
	for _, member := range d.members(v.Name) {
		g.Members = append(g.Members, member.Name)
	}
	for _, l := range a.links {
		if l.classes[v.class].Group {
			g.Links = append(g.Links, l.workload(v.class))
		}
	}
	return g
}

// SetGroup implements api.Agent.
func (a *Agent) SetGroup(ctx context.Context, name string, change api.GroupChange, dryRun bool) (api.ChangeResult, error) {
	var result api.ChangeResult
	var err error
	if down := a.do(ctx, func() { result, err = a.setGroup(ctx, name, change, dryRun) }); down != nil {
		return api.ChangeResult{}, down
	}
	return result, err
}

func (a *Agent) setGroup(ctx context.Context, name string, change api.GroupChange, dryRun bool) (api.ChangeResult, error) {
	if err := policy.CheckGroupName(name); err != nil {
		return api.ChangeResult{}, api.Mistake(err)
	}
	if err := change.Readable(); err != nil {
		return api.ChangeResult{}, api.Mistake(err)
	}
	if _, exists := a.decided.group(plan.GroupKey(name)); exists && change.Empty() {
		return api.ChangeResult{}, &refusal.Error{Kind: refusal.Invalid, Field: "body", Msg: "nothing to change",
			Remedy: "give at least one of " + strings.Join(policy.FieldNames(policy.OnGroup), ", ") + " and reset"}
	}
	next := a.world.clone()
	kept := next.groups[name]
	if change.Reset {
		kept = policy.Change{}
	}
	next.groups[name] = kept.Over(change.Only(policy.FieldNames(policy.OnGroup)...))
	if _, configured := next.configured(name); configured && next.groups[name].Empty() {
		delete(next.groups, name)
	}
	next.accept(plan.GroupKey(name), map[string]string{"group": name}, change.AcceptGaps, change.Reset)
	return a.trySetting(ctx, a.world.groups[name], next.groups[name], trial{world: next, attached: a.attached, key: plan.GroupKey(name),
		given: change.Texts(), why: "asked by weir group set", dryRun: dryRun})
}

// holdsMembers refuses a min or a max of a group that would take its members'
// mins away.
func holdsMembers(before, after decision, group verdict, t trial) error {
	for _, device := range slices.Sorted(maps.Keys(after.plans)) {
		var floors []policy.Floor
		for _, class := range before.plans[device].Classes {
			if class.Parent == group.class && class.Parent != 0 {
				floors = append(floors, policy.Floor{Name: class.Name, Min: class.Min})
			}
		}
		link := after.plans[device].Link
		asked := group.promised(link)
		for _, bound := range []struct {
			field string
			err   error
		}{
			{"min", policy.GroupMin(asked.Min.Of(link.Capacity), floors)},
			{"max", policy.GroupMax(asked.Max.Of(link.Capacity), floors)},
		} {
			var mistake *invalid.Error
			if errors.As(bound.err, &mistake) {
				value, asked := t.given[bound.field]
				if !asked {
					value = mistake.Value
				}
				e := api.Mistake(mistake)
				e.Kind, e.Field, e.Value = refusal.Conflict, bound.field, value
				e.Msg += " on link " + device
				return e
			}
		}
	}
	return nil
}

// DeleteGroup implements api.Agent.
func (a *Agent) DeleteGroup(ctx context.Context, name string, dryRun bool) (api.ChangeResult, error) {
	var result api.ChangeResult
	var err error
	if down := a.do(ctx, func() { result, err = a.deleteGroup(ctx, name, dryRun) }); down != nil {
		return api.ChangeResult{}, down
	}
	return result, err
}

func (a *Agent) deleteGroup(ctx context.Context, name string, dryRun bool) (api.ChangeResult, error) {
	if _, exists := a.decided.group(plan.GroupKey(name)); !exists {
		return api.ChangeResult{}, unknownGroup(name, a.world.groupNames())
	}
	refuse := func(msg, remedy string) (api.ChangeResult, error) {
		return api.ChangeResult{}, &refusal.Error{Kind: refusal.Conflict, Field: "group", Value: name, Msg: msg, Remedy: remedy}
	}
	if _, configured := a.world.configured(name); configured {
		return refuse(name+" is in the configuration", "take it out of groups: in "+a.world.config.Path)
	}
	if members := a.decided.members(name); len(members) > 0 {
		var names []string
		for _, m := range members {
			names = append(names, m.Name)
		}
		return refuse("still in it: "+strings.Join(names, ", "),
			fmt.Sprintf("take each out first: weir set %s --group none", names[0]))
	}
	next := a.world.clone()
	delete(next.groups, name)
	delete(next.accepted, plan.GroupKey(name))
	return a.try(ctx, trial{world: next, attached: a.attached, key: plan.GroupKey(name),
		why: "asked by weir group delete", dryRun: dryRun})
}

func unknownGroup(name string, known []string) error {
	e := &refusal.Error{Kind: refusal.Unknown, Field: "group", Value: name,
		Msg: fmt.Sprintf("no group is called %q", name), Remedy: "weir group list shows those that there are"}
	if near := closest.Words(name, known, 3); len(near) > 0 {
		e.Remedy = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return e
}
