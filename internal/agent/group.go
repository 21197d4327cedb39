// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"slices"

	"weir/internal/agent/decide"
	"weir/internal/api"
)

// Groups implements api.Agent.
func (a *Agent) Groups(ctx context.Context) ([]api.Group, error) {
	var list []api.Group
	err := a.do(ctx, func() { list = a.groupViews() })
	return list, err
}

// Group implements api.Agent.
func (a *Agent) Group(ctx context.Context, name string) (api.Group, error) {
	var g api.Group
	err := a.withGroup(ctx, name, func(v decide.Verdict) { g = a.groupView(v, a.decided) })
	return g, err
}

// withGroup has f run in the agent's goroutine with the group of that name.
func (a *Agent) withGroup(ctx context.Context, name string, f func(decide.Verdict)) error {
	var err error
	down := a.do(ctx, func() {
		var v decide.Verdict
		if v, err = a.decided.ResolveGroup(name); err == nil {
			f(v)
		}
	})
	return cmp.Or(down, err)
}

// ExplainGroup implements api.Agent.
func (a *Agent) ExplainGroup(ctx context.Context, name string) (api.Explanation, error) {
	var e api.Explanation
	err := a.withGroup(ctx, name, func(v decide.Verdict) {
		e = api.Explanation{Name: "group " + v.Name, Links: []api.ExplainLink{}}
		for _, l := range a.links {
			e.Links = append(e.Links, l.explainGroup(v, a.decided))
		}
	})
	return e, err
}

// explainGroup is the group's explanation on this link, or why there is none.
func (l *link) explainGroup(v decide.Verdict, d decide.Decision) api.ExplainLink {
	class, ok := l.now.State.Class(v.Class)
	e := l.noExplanation("")
	switch {
	case l.backend == nil:
		e.Text = []string{"The link is not steered" + because(l.err) + "."}
	case v.Missing(l.config.Name()):
		e.Text = []string{"The group has no effect on this link: its members count for themselves."}
	case !ok || !class.Group:
		e.Text = []string{"The group is new here; its first second is being measured."}
	default:
		e = l.now.ExplainGroup(class.ID)
	}
	e.Direction = l.direction()
	e.Text = slices.Concat(d.GroupText(v, l.config.Plan(), class), e.Text, v.Faults(l.config.Name()))
	return e
}

func (a *Agent) groupViews() []api.Group {
	list := make([]api.Group, len(a.decided.Groups))
	for i, v := range a.decided.Groups {
		list[i] = a.groupView(v, a.decided)
	}
	return list
}

// groupView is a group as the API shows it.
func (a *Agent) groupView(v decide.Verdict, d decide.Decision) api.Group {
	g := api.Group{
		Name: v.Name, Class: uint16(v.Class), State: v.State, Note: v.Note, Origin: v.Origin, NotHeld: decide.GapViews(v.Gaps),
		Policy: api.GroupPolicy{Policy: v.Policy}, Members: []string{}, Links: []api.WorkloadLink{},
	}
	g.State, g.Note = a.standing(v)
	for _, member := range d.Members(v.Name) {
		g.Members = append(g.Members, member.Name)
	}
	for _, l := range a.links {
		if l.classes[v.Class].Group {
			g.Links = append(g.Links, l.workload(v.Class))
		}
	}
	return g
}
