// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"weir/internal/agent/decide"
	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/dataplane/pace"
	"weir/internal/plan"
	"weir/internal/policy"
	"weir/internal/workload"
)

// Status implements api.Agent.
func (a *Agent) Status(ctx context.Context) (api.Status, error) {
	var s api.Status
	err := a.do(ctx, func() {
		s = api.Status{
			Version:     a.opts.Version,
			Started:     a.started.UTC(),
			Config:      a.decided.World.Config.Path,
			ConfigError: a.configError,
			Reloads:     a.reloads,
			Links:       a.linkViews(),
			Groups:      a.groupViews(),
			Sources:     a.sourceViews(),
			Refused:     a.decided.Refused(),
			NotHeld:     a.decided.NotHeld(),
			Warnings:    a.decided.Warnings(),
		}
	})
	return s, err
}

// Workloads implements api.Agent.
func (a *Agent) Workloads(ctx context.Context) ([]api.Workload, error) {
	var list []api.Workload
	err := a.do(ctx, func() { list = a.views(false) })
	return list, err
}

// Workload implements api.Agent.
func (a *Agent) Workload(ctx context.Context, name string) (api.Workload, error) {
	var w api.Workload
	var err error
	down := a.do(ctx, func() {
		var v decide.Verdict
		if v, err = a.decided.Resolve(name); err == nil {
			w = a.view(v, true)
		}
	})
	if down != nil {
		return w, down
	}
	return w, err
}

// Explain implements api.Agent.
func (a *Agent) Explain(ctx context.Context, name string) (api.Explanation, error) {
	var e api.Explanation
	var err error
	down := a.do(ctx, func() {
		v, unknown := a.decided.Resolve(name)
		if err = unknown; err != nil {
			return
		}
		e = api.Explanation{Name: v.Name, Links: []api.ExplainLink{}, Warnings: v.Warnings}
		for _, l := range a.links {
			e.Links = append(e.Links, l.explain(v))
			last := &e.Links[len(e.Links)-1]
			last.Text = append(last.Text, decide.GapSentences(a.decided.LinkGaps[l.config.Name()])...)
		}
	})
	if down != nil {
		return e, down
	}
	return e, err
}

// Classify implements api.Agent.
func (a *Agent) Classify(ctx context.Context, name string, p api.Packet) (place api.Placement, err error) {
	down := a.do(ctx, func() { place, err = a.decided.Classify(name, p) })
	return place, cmp.Or(down, err)
}

// explain is the workload's explanation on this link, or why there is none.
func (l *link) explain(v decide.Verdict) api.ExplainLink {
	var e api.ExplainLink
	class, ok := l.now.State.Class(v.Class)
	switch {
	case l.backend == nil:
		e = l.noExplanation("The link is not steered" + because(l.err) + ".")
	case !v.Steered:
		e = l.noExplanation(v.Name + " is not steered: " + v.Note + ". Its packets count as the host's.")
	case !ok:
		e = l.noExplanation(v.Name + " is new here; its first second is being measured.")
	default:
		e = l.now.Explain(class.ID)
	}
	e.Direction = l.direction()
	e.Text = append(e.Text, v.Faults(l.config.Name())...)
	return e
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

func (l *link) noExplanation(text string) api.ExplainLink {
	return api.ExplainLink{Device: l.config.Device, Direction: l.direction(), Binds: "idle", Text: []string{text}, Others: []api.Other{}}
}

func (a *Agent) views(history bool) []api.Workload {
	list := make([]api.Workload, len(a.decided.Verdicts))
	for i, v := range a.decided.Verdicts {
		list[i] = a.view(v, history)
	}
	return list
}

// view is a workload as the API shows it.
func (a *Agent) view(v decide.Verdict, history bool) api.Workload {
	w := api.Workload{
		Name: v.Name, Key: v.Key, ID: v.ID, Kind: v.Kind,
		Class: uint16(v.Class), State: v.State, Note: v.Note, Warnings: v.Warnings,
		Origin: v.Origin, Devices: []string{}, Links: []api.WorkloadLink{},
		Policy: api.PolicyOf(v.Policy), NotHeld: decide.GapViews(v.Gaps),
	}
	w.State, w.Note = a.standing(v)
	for _, d := range v.Devices {
		w.Devices = append(w.Devices, d.Name)
	}
	w.Cgroups = v.Cgroups
	if !v.Steered {
		return w
	}
	for _, l := range a.links {
		view := l.workload(v.Class)
		if v.Kind == workload.KindHost && a.decided.World.PortAt(l.config.Device) != nil {
			view.Discipline = string(l.classes[v.Class].Discipline)
		}
		if history {
			view.HistoryBps = l.history.Of(v.Class)
		}
		w.Links = append(w.Links, view)
	}
	return w
}

// standing is the state and the note of a workload or group, with the links that are
// not steered now.
func (a *Agent) standing(v decide.Verdict) (state, note string) {
	state, note = v.State, v.Note
	if !v.Steered {
		return state, note
	}
	for _, l := range slices.Backward(a.links) {
		if l.err == nil {
			continue
		}
		lost := fmt.Sprintf("link %s is not steered%s", l.config.Name(), because(l.err))
		note = strings.TrimSuffix(lost+"; "+note, "; ")
		if state == workload.StateActive {
			state = workload.StateNotHeld
		}
	}
	return state, note
}

// direction is the link's, as the API has it.
func (l *link) direction() string {
	return string(cmp.Or(l.config.Direction, policy.Egress))
}

// workload is a class's traffic over the last second.
func (l *link) workload(id plan.ClassID) api.WorkloadLink {
	view := l.now.Traffic(l.config.Plan(), id, l.classes[id])
	if loop, ok := l.pacer.Loop(pace.ID{Class: id, Queue: pace.Whole}); ok {
		st := loop.Controller.State()
		view.ReserveBps, view.Control = uint64(st.Target), string(st.Mode)
		if !math.IsNaN(st.Goodput) {
			view.GoodputBps = &st.Goodput
		}
	}
	return view
}

func (a *Agent) linkViews() []api.LinkStatus {
	list := make([]api.LinkStatus, len(a.links))
	for i, l := range a.links {
		list[i] = l.view()
		list[i].NotHeld = decide.GapViews(a.decided.LinkGaps[l.config.Name()])
	}
	return list
}

// view is the link as the API shows it.
func (l *link) view() api.LinkStatus {
	limit, reserved := l.want.Link.Admission().Limit(), l.want.Reserved()
	s := api.LinkStatus{
		Device:      l.config.Device,
		Direction:   l.direction(),
		Backend:     "none",
		Scheduler:   l.scheduler(),
		CapacityBps: uint64(l.config.Capacity()),
		Reservable:  l.config.Reservable,
		ReservedBps: uint64(reserved),
		FreeBps:     uint64(limit - min(limit, reserved)),
		Workloads:   l.workloads(),
		Gaps:        []string{},
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
	return s
}

// workloads counts them; neither the host nor a group is one.
func (l *link) workloads() int {
	n := 0
	for _, class := range l.want.Classes {
		if class.ID != 0 && !class.Group {
			n++
		}
	}
	return n
}

func (a *Agent) sourceViews() []api.Source {
	list := []api.Source{}
	for _, s := range a.sources {
		list = append(list, s.view())
	}
	if a.opts.PortsStatus != nil {
		state, note := a.opts.PortsStatus()
		list = append(list, api.Source{Name: "ovsdb", State: state, Note: note})
	}
	if !a.decided.World.Config.Docker.Enabled {
		list = append(list, api.Source{Name: "docker", State: "off", Note: "docker.enabled is false"})
	}
	return list
}

func (s *source) view() api.Source {
	view := api.Source{Name: s.Name(), State: "ok"}
	if own, ok := s.Source.(interface{ Status() (state, note string) }); ok {
		view.State, view.Note = own.Status()
	}
	if s.err != nil {
		view.State, view.Note = "unavailable", s.err.Error()
	}
	return view
}

// queue is how many samples a slow reader may lag behind.
const queue = 4

// Subscribe implements api.Agent. The first sample comes at once and carries
// the last minute's rates.
func (a *Agent) Subscribe(ctx context.Context) <-chan api.Sample {
	reader := make(chan api.Sample, queue)
	joined := a.do(ctx, func() {
		reader <- a.sample(time.Now(), true)
		a.readers[reader] = true
	})
	if joined != nil {
		close(reader)
		return reader
	}
	context.AfterFunc(ctx, func() {
		// Where the agent has ended, it has closed the channel itself.
		_ = a.tell(context.WithoutCancel(ctx), func() {
			delete(a.readers, reader)
			close(reader)
		})
	})
	return reader
}

func (a *Agent) sample(now time.Time, history bool) api.Sample {
	return api.Sample{At: now.UTC(), Links: a.linkViews(), Workloads: a.views(history), Groups: a.groupViews()}
}

// publish gives every reader the present sample; who is too slow loses the
// oldest that he has not read.
func (a *Agent) publish(now time.Time) {
	if len(a.readers) == 0 {
		return
	}
	sample := a.sample(now, false)
	for reader := range a.readers {
		select {
		case reader <- sample:
			continue
		default:
		}
		select {
		case <-reader:
		default: // read in between
		}
		reader <- sample // there is room: nobody else sends
	}
}

// Config is the configuration that the agent began with: where its socket is,
// and its metrics.
func (a *Agent) Config() config.Config { return a.opts.Config }
