// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"math"
	"slices"

	"weir/internal/api"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/agent/decide"
	"weir/internal/host/agent/usage"
	"weir/internal/host/dataplane/pace"
)

// direction returns the link's direction as the API has it.
func (l *link) direction() string {
	return string(cmp.Or(l.config.Direction, policy.Egress))
}

// workload returns a class's traffic over the last second.
func (l *link) workload(id plan.ClassID) api.WorkloadLink {
	view := l.now.Traffic(l.config.Plan(), id, l.classes[id])
	view.Score = l.scores.Of(id, l.classes[id])
	view.Delay = l.waits.Class(l.now.State, l.classes[id])
	for q := range view.Queues {
		view.Queues[q].Delay = l.waits.Queue(id, q)
	}
	if loop, ok := l.pacer.Loop(pace.ID{Class: id, Queue: pace.Whole}); ok {
		st := loop.Controller.State()
		view.ReserveBps, view.Control = uint64(st.Target), string(st.Mode)
		if !math.IsNaN(st.Goodput) {
			view.GoodputBps = &st.Goodput
		}
	}
	return view
}

// silent returns why the link's device sends nothing though it is there, "" if it does. The
// device's egress says it for its other directions and zones.
func (l *link) silent() string {
	if l.err != nil || l.config.Name() != l.config.Device {
		return ""
	}
	return l.down(l.config.Device)
}

// view returns the link as the API shows it.
func (l *link) view() api.LinkStatus {
	limit, reserved := l.want.Link.Admission().Limit(), l.want.Reserved()
	s := api.LinkStatus{
		Device:      l.config.Place(),
		Direction:   l.direction(),
		Backend:     "none",
		Scheduler:   l.scheduler(),
		CapacityBps: uint64(l.config.Capacity()),
		Reservable:  l.config.Reservable,
		ReservedBps: uint64(reserved),
		FreeBps:     uint64(limit - min(limit, reserved)),
		Workloads:   l.workloads(),
		Gaps:        []string{},
		Warning:     l.warning,
		SentPackets: l.last.Sent.Packets,
		SentBytes:   l.last.Sent.Bytes,
	}
	if l.backend != nil {
		s.Backend = l.backend.Name()
		s.Gaps = append(s.Gaps, l.backend.Gaps()...)
	}
	for id, used := range l.now.Used {
		if !l.classes[id].Group { // which sends what its members do
			s.RateBps += used.Rate
		}
	}
	if l.err != nil {
		s.Error = l.err.Error()
	}
	s.Down = l.silent()
	return s
}

// workloads returns the number of workloads; neither the host nor a group is one, nor a zone.
func (l *link) workloads() int {
	n := -l.config.Classes()
	for _, class := range l.want.Classes {
		if class.ID != 0 && !class.Group {
			n++
		}
	}
	return n
}

// explain returns a workload's explanation on this link, or why there is none.
func (l *link) explain(v decide.Ruling) api.ExplainLink {
	var e api.ExplainLink
	class, ok := l.now.State.Class(v.Class)
	switch {
	case l.backend == nil:
		e = l.noExplanation("The link is not steered" + reason(l.err) + ".")
	case !v.Steered:
		e = l.noExplanation(v.Name + " is not steered: " + v.Note + ". Its packets count as the host's.")
	case !ok:
		e = l.noExplanation(v.Name + " is new here; its first second is being measured.")
	default:
		e = l.now.Explain(class.ID)
		e.Text = append(e.Text, usage.WaitsText(l.waits.Class(l.now.State, class)))
	}
	e.Direction = l.direction()
	e.Text = slices.Concat(e.Text, v.TimesText(), v.Faults(l.config.Name()))
	return e
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

func (l *link) noExplanation(text string) api.ExplainLink {
	return api.ExplainLink{Device: l.config.Place(), Direction: l.direction(), Binds: "idle", Text: []string{text}, Others: []api.Other{}}
}

// explainGroup returns a group's explanation on this link, or why there is none.
func (l *link) explainGroup(v decide.Ruling, d decide.Decision) api.ExplainLink {
	class, ok := l.now.State.Class(v.Class)
	e := l.noExplanation("")
	switch {
	case l.backend == nil:
		e.Text = []string{"The link is not steered" + reason(l.err) + "."}
	case v.Missing(l.config.Name()):
		e.Text = []string{"The group has no effect on this link: its members count for themselves."}
	case !ok || !class.Group:
		e.Text = []string{"The group is new here; its first second is being measured."}
	default:
		e = l.now.ExplainGroup(class.ID)
		e.Text = append(e.Text, usage.WaitsText(l.waits.Class(l.now.State, class)))
	}
	e.Direction = l.direction()
	e.Text = slices.Concat(d.GroupText(v, l.config.Plan(), class), e.Text, v.TimesText(), v.Faults(l.config.Name()))
	return e
}
