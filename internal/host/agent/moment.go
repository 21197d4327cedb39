// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/api"
	"weir/internal/core/event"
	"weir/internal/core/workload"
	"weir/internal/host/agent/decide"
	"weir/internal/host/agent/decide/ceiling"
	"weir/internal/host/agent/decide/gap"
	"weir/internal/host/agent/ledger"
	"weir/internal/host/agent/past"
)

// moment holds the decision and the measurements of one instant. It knows what the API shows
// of both.
type moment struct {
	decide.Decision
	links links
}

// sample returns everything that changes from second to second.
func (m moment) sample(seen event.Sight, history bool) api.Sample {
	return api.Sample{At: seen.At.UTC(), Problems: event.Problems(seen), Links: m.linkViews(), Workloads: m.workloads(history), Groups: m.groups()}
}

// show puts the workload or group with a key into the answer to a change.
func (m moment) show(result *api.ChangeResult, key string) {
	if v, ok := m.Ruling(key); ok {
		result.Workload = new(m.workload(v, false))
	}
	if v, ok := m.Group(key); ok {
		result.Group = new(m.group(v))
	}
}

func (m moment) workloads(history bool) []api.Workload {
	list := make([]api.Workload, len(m.Rulings))
	for i, v := range m.Rulings {
		list[i] = m.workload(v, history)
	}
	return list
}

// workload returns a workload as the API shows it.
func (m moment) workload(v decide.Ruling, history bool) api.Workload {
	w := api.Workload{
		Name: v.Name, Key: v.Key, ID: v.ID, Kind: v.Kind,
		Class: uint16(v.Class), State: v.State, Note: v.Note, Warnings: v.Warnings,
		Origin: v.Origin, Devices: []string{}, Links: []api.WorkloadLink{},
		Policy: api.PolicyOf(v.Policy), NotHeld: gap.Views(v.Gaps), Asked: v.AsksView(), Cut: ceiling.Views(v.Cuts),
	}
	w.State, w.Note = m.standing(v)
	w.Until = v.UntilView()
	w.Quota = m.quota(v)
	w.Note = ledger.Noted(w.Note, w.Quota)
	for _, d := range v.Devices {
		w.Devices = append(w.Devices, d.Name)
	}
	w.Cgroups, w.NotSteered = v.Cgroups, past.Views(v.Past)
	if !v.Steered {
		return w
	}
	for _, l := range m.links {
		view := l.workload(v.Class)
		if v.Kind == workload.KindHost && m.World.PortAt(l.config.Device) != nil {
			view.Discipline = string(l.classes[v.Class].Discipline)
		}
		if history {
			view.HistoryBps = l.history.Of(v.Class)
		}
		w.Links = append(w.Links, view)
	}
	return w
}

func (m moment) groups() []api.Group {
	list := make([]api.Group, len(m.Groups))
	for i, v := range m.Groups {
		list[i] = m.group(v)
	}
	return list
}

// group returns a group as the API shows it.
func (m moment) group(v decide.Ruling) api.Group {
	g := api.Group{
		Name: v.Name, Class: uint16(v.Class), State: v.State, Note: v.Note, Origin: v.Origin, NotHeld: gap.Views(v.Gaps), Asked: v.AsksView(), Cut: ceiling.Views(v.Cuts),
		Policy: api.GroupPolicy{Policy: v.Policy}, Members: []string{}, Links: []api.WorkloadLink{},
	}
	g.State, g.Note = m.standing(v)
	g.Until = v.UntilView()
	g.Quota = m.quota(v)
	g.Note = ledger.Noted(g.Note, g.Quota)
	for _, member := range m.Members(v.Name) {
		g.Members = append(g.Members, member.Name)
	}
	for _, l := range m.links {
		if l.classes[v.Class].Group {
			g.Links = append(g.Links, l.workload(v.Class))
		}
	}
	return g
}

// quota returns how far a workload or group has come with its quota, nil if it has none.
func (m moment) quota(v decide.Ruling) *api.QuotaStanding {
	if s, ok := m.World.Quotas[v.Key]; ok && v.Policy.Quota != nil {
		return ledger.View(s)
	}
	return nil
}

// standing returns the state and the note of a workload or group, with the links that are
// not steered now.
func (m moment) standing(v decide.Ruling) (state, note string) {
	state, note = v.State, v.Note
	if !v.Steered {
		return state, note
	}
	for _, l := range slices.Backward(m.links) {
		if l.err == nil {
			continue
		}
		lost := fmt.Sprintf("link %s is not steered%s", l.config.Name(), reason(l.err))
		note = strings.TrimSuffix(lost+"; "+note, "; ")
		if state == workload.StateActive {
			state = workload.StateNotHeld
		}
	}
	return state, note
}

func (m moment) linkViews() []api.LinkStatus {
	list := make([]api.LinkStatus, len(m.links))
	for i, l := range m.links {
		list[i] = l.view()
		list[i].NotHeld = gap.Views(m.LinkGaps[l.config.Name()])
		list[i].AllocatedBps = uint64(m.Allocated(l.config.Name()))
	}
	return list
}

// explain says why a workload has the rate it has, on each link.
func (m moment) explain(v decide.Ruling) api.Explanation {
	e := api.Explanation{Name: v.Name, Links: []api.ExplainLink{}, Warnings: v.Warnings}
	for _, l := range m.links {
		on := l.explain(v)
		on.Text = append(append(on.Text, ledger.Texts(m.quota(v))...), gap.Sentences(m.LinkGaps[l.config.Name()])...)
		e.Links = append(e.Links, on)
	}
	return e
}

// explainGroup says the same of a group.
func (m moment) explainGroup(v decide.Ruling) api.Explanation {
	e := api.Explanation{Name: "group " + v.Name, Links: []api.ExplainLink{}}
	for _, l := range m.links {
		on := l.explainGroup(v, m.Decision)
		on.Text = append(on.Text, ledger.Texts(m.quota(v))...)
		e.Links = append(e.Links, on)
	}
	return e
}
