// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"time"

	"weir/internal/agent/decide"
	"weir/internal/api"
	"weir/internal/audit"
	"weir/internal/control"
	"weir/internal/dataplane/device"
	"weir/internal/dataplane/goodput"
	"weir/internal/dataplane/pace"
	"weir/internal/plan"
	"weir/internal/policy"
	"weir/internal/refusal"
)

// Meter measures goodput; goodput.Meter is the real one.
type Meter interface {
	Watch(ports []plan.Port, ifbs []int) error
	Read() (map[plan.ClassID]goodput.Reading, error)
	Flows(class plan.ClassID) ([]goodput.Flow, error)
	Close() error
}

// regulator is what the agent needs beside each link's pacer: the meter, while there
// is a reservation. It belongs to the agent's goroutine.
type regulator struct {
	open      func() (Meter, error)
	meter     Meter // nil while no workload has a reservation, or where it cannot be opened
	complaint string
	read      map[plan.ClassID]goodput.Reading
	readAt    time.Time
}

// pacer makes a link's pacer, which looks its settings up in the world.
func (a *Agent) pacer(direction policy.Direction) *pace.Pacer {
	return pace.New(cmp.Or(direction, policy.Egress), func(workload, _ string) pace.Settings {
		for _, v := range a.decided.Verdicts {
			if v.Name == workload {
				return settingsOf(a.decided.World.Tuned[v.Key])
			}
		}
		return pace.Settings{}
	})
}

// settingsOf returns what was set about controllers in the form that a pacer takes.
func settingsOf(t decide.Tuned) pace.Settings {
	s := pace.Settings{Frozen: t.Frozen}
	if t.Gains != nil {
		s.Gains = *t.Gains
	}
	return s
}

// regulate is the control loop, once a second after the counters were read: goodput
// in, intervals out.
func (a *Agent) regulate(ctx context.Context, now time.Time) {
	if !a.watchGoodput() {
		return
	}
	for _, l := range a.links {
		if l.backend == nil || !l.pacer.Busy() || l.last.At.IsZero() {
			continue
		}
		l.pacer.Step(l.last, pace.Measured{At: a.goodput.readAt, Readings: a.goodput.read, Part: a.partOn(l)})
		l.pace(ctx, now)
	}
}

// partOn is how much of a class's goodput went over this link, nil = all: where
// several links have the direction, the meter cannot tell, but their counters can.
func (a *Agent) partOn(l *link) func(plan.ClassID) float64 {
	var same []*link
	for _, other := range a.links {
		if other.direction() == l.direction() && other.backend != nil {
			same = append(same, other)
		}
	}
	if len(same) < 2 {
		return nil
	}
	return func(class plan.ClassID) float64 {
		sum := 0.0
		for _, other := range same {
			sum += other.now.Used[class].Rate
		}
		if sum == 0 {
			return 1
		}
		return l.now.Used[class].Rate / sum
	}
}

// watchGoodput has the meter count where somebody asks, and reads it. It says whether
// any link has a reservation.
func (a *Agent) watchGoodput() bool {
	ports, ifbs := a.watched()
	g := &a.goodput
	if len(ports) == 0 {
		if g.meter != nil {
			if err := g.meter.Close(); err != nil {
				a.log.Warn("closing the goodput meter", "err", err)
			}
		}
		g.meter, g.read = nil, nil
		return slices.ContainsFunc(a.links, func(l *link) bool { return l.pacer.Busy() })
	}
	g.read = nil
	var err error
	if g.meter == nil && g.open != nil {
		g.meter, err = g.open()
	}
	if g.meter != nil {
		err = g.meter.Watch(ports, ifbs)
		g.readAt = time.Now()
		read, failed := g.meter.Read()
		g.read, err = read, errors.Join(err, failed)
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != g.complaint && text != "" {
		a.log.Warn("goodput is not measured everywhere; intervals stay what headers alone demand", "err", err)
	}
	g.complaint = text
	return true
}

// watched are the ports of the workloads with a reservation, and the devices by which
// steered ingress comes.
func (a *Agent) watched() (ports []plan.Port, ifbs []int) {
	classes := map[plan.ClassID]bool{}
	for _, l := range a.links {
		for _, class := range l.pacer.Watched() {
			classes[class] = true
		}
	}
	if len(classes) == 0 {
		return nil, nil
	}
	seen := map[plan.Port]bool{}
	for _, l := range a.links {
		for _, p := range l.want.Ports {
			if classes[p.Class] && !seen[p.Place()] {
				seen[p.Place()] = true
				ports = append(ports, p)
			}
		}
		if l.config.Direction == policy.Ingress && l.backend != nil {
			if ifb, err := net.InterfaceByName(device.IFBName(l.config.Device)); err == nil {
				ifbs = append(ifbs, ifb.Index)
			}
		}
	}
	return ports, ifbs
}

// pace puts the controllers' intervals into force.
func (l *link) pace(ctx context.Context, now time.Time) {
	paced := l.pacer.Paced(l.want)
	if l.dirty {
		l.want = paced // the next Set takes them along
		return
	}
	if err := l.backend.Pace(ctx, paced); err != nil {
		l.failed(fmt.Errorf("link %s: pace: %w", l.config.Name(), err), now)
		return
	}
	l.want, l.inForce = paced, paced
	for _, class := range paced.Classes {
		l.classes[class.ID] = class
	}
}

// Control implements api.Agent.
func (a *Agent) Control(ctx context.Context, name string) (api.Control, error) {
	var c api.Control
	var err error
	if down := a.do(ctx, func() { c, err = a.controlView(name) }); down != nil {
		return c, down
	}
	return c, err
}

func (a *Agent) controlView(name string) (api.Control, error) {
	v, err := a.decided.Resolve(name)
	if err != nil {
		return api.Control{}, err
	}
	c := api.Control{Name: v.Name, Loops: []api.ControlLoop{}}
	for _, l := range a.links {
		for _, loop := range l.pacer.Loops() {
			if loop.Class == v.Class && v.Steered {
				c.Loops = append(c.Loops, a.loopView(l, loop))
			}
		}
	}
	return c, nil
}

// noLoop says that there is nothing to control.
func (a *Agent) noLoop(name string) error {
	return &refusal.Error{Kind: refusal.Conflict, Field: "reserve", Msg: name + " has no reservation in force",
		Remedy: fmt.Sprintf("set one, such as weir set %s --reserve 10mbit; weir get %s shows whether it was refused", name, name)}
}

func (a *Agent) loopView(l *link, loop *pace.Loop) api.ControlLoop {
	st := loop.Controller.State()
	view := api.ControlLoop{
		Device: l.config.Device, Direction: string(l.direction()), Queue: loop.QueueName,
		TargetBps: st.Target, WireBps: st.Wire, OfferedBps: st.In,
		IntervalNs: plan.IntervalOf(policy.Rate(math.Round(st.Wire))).Nanoseconds(),
		Limiter:    "off", Mode: string(st.Mode), Why: st.Why(),
		Frozen: loop.Controller.IsFrozen(), Gains: api.Gains(loop.Controller.Gains()),
		Warning: loop.Controller.Gains().Warning(), HistoryBps: loop.Monitor.History(),
	}
	if view.HistoryBps == nil {
		view.HistoryBps = []float64{}
	}
	if st.On {
		view.Limiter = "on"
	}
	if st.Mode == control.Unmeasured && a.goodput.complaint != "" {
		view.Why += " (" + a.goodput.complaint + ")"
	}
	if !math.IsNaN(st.Goodput) {
		view.GoodputBps, view.ErrorBps = &st.Goodput, &st.Error
	}
	if r, ok := a.goodput.read[loop.Class]; ok {
		counts := r.Counts
		if loop.Queue != pace.Whole {
			counts = r.Queues[loop.Queue]
		}
		view.SentBytes, view.ResentBytes = counts.Sent+counts.Datagrams, counts.Again
		if l.config.Direction == policy.Ingress {
			view.SentBytes, view.ResentBytes = counts.Received+counts.DatagramsReceived, counts.ReceivedAgain
		}
	}
	return view
}

// SetControl implements api.Agent.
func (a *Agent) SetControl(ctx context.Context, name string, change api.ControlChange, dryRun bool) (api.Control, error) {
	var c api.Control
	var err error
	if down := a.do(ctx, func() { c, err = a.setControl(ctx, name, change, dryRun) }); down != nil {
		return c, down
	}
	return c, err
}

func (a *Agent) setControl(ctx context.Context, name string, change api.ControlChange, dryRun bool) (api.Control, error) {
	if change.Empty() {
		return api.Control{}, &refusal.Error{Kind: refusal.Invalid, Field: "body", Msg: "nothing to change", Remedy: "give freeze, gains or default_gains"}
	}
	if change.Gains != nil {
		g := control.Gains(*change.Gains)
		err := g.CheckStable()
		if change.Force {
			err = g.Check()
		}
		if err != nil {
			return api.Control{}, api.Mistake(err)
		}
	}
	now, err := a.controlView(name)
	if err != nil {
		return api.Control{}, err
	}
	if len(now.Loops) == 0 {
		return api.Control{}, a.noLoop(now.Name)
	}
	if dryRun {
		return now, nil
	}
	v, _ := a.decided.Resolve(name)
	next := a.decided.World.Clone()
	before := next.Tuned[v.Key]
	set := before
	if change.Freeze != nil {
		set.Frozen = *change.Freeze
	}
	if change.DefaultGains {
		set.Gains = nil
	}
	if change.Gains != nil {
		set.Gains = new(control.Gains(*change.Gains))
	}
	next.Tuned[v.Key] = set
	if set == (decide.Tuned{}) {
		delete(next.Tuned, v.Key)
	}
	if err := a.store.save(a.keep(next)); err != nil {
		return api.Control{}, fmt.Errorf("change not made: %w", err)
	}
	a.decided.World = next
	audit.Note(ctx, v.Name, before, set)
	gains := control.Default
	if set.Gains != nil {
		gains = *set.Gains
	}
	a.log.Info("controllers changed", "workload", v.Name, "frozen", set.Frozen, "gains", gains.String(), "why", "asked by weir control")
	for _, l := range a.links {
		l.pacer.Follow(l.want)
	}
	return a.controlView(name)
}
