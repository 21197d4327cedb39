// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"weir/internal/api"
	"weir/internal/core/control"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
	"weir/internal/host/agent/decide"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/goodput"
	"weir/internal/host/dataplane/pace"
)

// Meter measures goodput; goodput.Meter is the real one.
type Meter interface {
	Watch(ports []plan.Port, ifbs []int) error
	Read() (map[plan.ClassID]goodput.Reading, error)
	Flows(class plan.ClassID) ([]goodput.Flow, error)
	Close() error
}

// regulator runs the controllers of reservations: it has the meter, while there is a
// reservation, and each link has a pacer. It belongs to the agent's goroutine.
type regulator struct {
	log       *slog.Logger
	open      func() (Meter, error)
	meter     Meter // nil while no workload has a reservation, or where it cannot be opened
	complaint string
	read      map[plan.ClassID]goodput.Reading
	readAt    time.Time
}

// settingsOf returns what was set about controllers in the form that a pacer takes.
func settingsOf(t decide.Tuned) pace.Options {
	s := pace.Options{Frozen: t.Frozen}
	if t.Gains != nil {
		s.Gains = *t.Gains
	}
	return s
}

// step is the control loop, once a second after the counters were read: goodput in,
// intervals out.
func (r *regulator) step(ctx context.Context, now time.Time, ls links) {
	if !r.watch(ls) {
		return
	}
	for _, l := range ls {
		if l.backend == nil || !l.pacer.Busy() || l.last.At.IsZero() {
			continue
		}
		l.pacer.Step(l.last, pace.Measured{At: r.readAt, Readings: r.read, Part: ls.partOn(l)})
		l.pace(ctx, now)
	}
}

// partOn returns which part of a class's goodput went over a link, nil = all: where several
// links have the direction, the meter cannot tell, but their counters can.
func (ls links) partOn(l *link) func(plan.ClassID) float64 {
	var same links
	for _, other := range ls {
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

// watch has the meter count where a link has a reservation, and reads it. It reports whether
// any link has one.
func (r *regulator) watch(ls links) bool {
	ports, ifbs := ls.watched()
	if len(ports) == 0 {
		r.close()
		return slices.ContainsFunc(ls, func(l *link) bool { return l.pacer.Busy() })
	}
	r.read = nil
	var err error
	if r.meter == nil && r.open != nil {
		r.meter, err = r.open()
	}
	if r.meter != nil {
		err = r.meter.Watch(ports, ifbs)
		r.readAt = time.Now()
		read, failed := r.meter.Read()
		r.read, err = read, errors.Join(err, failed)
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != r.complaint && text != "" {
		r.log.Warn("goodput is not measured everywhere; intervals stay what headers alone demand", "err", err)
	}
	r.complaint = text
	return true
}

// close ends the measurement.
func (r *regulator) close() {
	if r.meter != nil {
		if err := r.meter.Close(); err != nil {
			r.log.Warn("closing the goodput meter", "err", err)
		}
	}
	r.meter, r.read = nil, nil
}

// watched returns the ports of the workloads with a reservation, and the devices by which
// steered ingress comes.
func (ls links) watched() (ports []plan.Port, ifbs []int) {
	classes := map[plan.ClassID]bool{}
	for _, l := range ls {
		for _, class := range l.pacer.Watched() {
			classes[class] = true
		}
	}
	if len(classes) == 0 {
		return nil, nil
	}
	seen := map[plan.Port]bool{}
	for _, l := range ls {
		for _, p := range l.want.Ports {
			if classes[p.Class] && !seen[p.Place()] {
				seen[p.Place()] = true
				ports = append(ports, p)
			}
		}
		if l.config.Direction == policy.Ingress && l.backend != nil {
			if ifb, err := (device.IFB{Link: l.config.Device, Zone: l.config.Zone, Ingress: true}).CameBy(); err == nil {
				ifbs = append(ifbs, ifb)
			}
		}
	}
	return ports, ifbs
}

// pace puts the controllers' intervals into force.
func (l *link) pace(ctx context.Context, now time.Time) {
	paced := l.pacer.Paced(l.want)
	if l.dirty {
		l.want, l.resting = paced, false // the next Set takes them along
		return
	}
	if err := l.backend.Pace(ctx, paced); err != nil {
		l.failed(fmt.Errorf("link %s: pace: %w", l.config.Name(), err), now)
		return
	}
	l.want, l.inForce, l.resting = paced, paced, false
	for _, class := range paced.Classes {
		l.classes[class.ID] = class
	}
}

// view returns the controllers of a workload as the API shows them.
func (r *regulator) view(v decide.Ruling, ls links) api.Control {
	c := api.Control{Name: v.Name, Loops: []api.ControlLoop{}}
	for _, l := range ls {
		for _, loop := range l.pacer.Loops() {
			if loop.Class == v.Class && v.Steered {
				c.Loops = append(c.Loops, r.loop(l, loop))
			}
		}
	}
	return c
}

// noLoop returns the refusal of a request about the controllers of a workload without any.
func noLoop(name string) error {
	return &refusal.Error{Kind: refusal.Conflict, Field: "reserve", Msg: name + " has no reservation in force",
		Remedy: fmt.Sprintf("set one, such as weir set %s --reserve 10mbit; weir get %s shows whether it was refused", name, name)}
}

// loop returns one controller of a link as the API shows it.
func (r *regulator) loop(l *link, loop *pace.Loop) api.ControlLoop {
	st := loop.Controller.State()
	view := api.ControlLoop{
		Device: l.config.Place(), Direction: string(l.direction()), Queue: loop.QueueName,
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
	if st.Mode == control.Unmeasured && r.complaint != "" {
		view.Why += " (" + r.complaint + ")"
	}
	if !math.IsNaN(st.Goodput) {
		view.GoodputBps, view.ErrorBps = &st.Goodput, &st.Error
	}
	if reading, ok := r.read[loop.Class]; ok {
		counts := reading.Counts
		if loop.Queue != pace.Whole {
			counts = reading.Queues[loop.Queue]
		}
		view.SentBytes, view.ResentBytes = counts.Sent+counts.Datagrams, counts.Again
		if l.config.Direction == policy.Ingress {
			view.SentBytes, view.ResentBytes = counts.Received+counts.DatagramsReceived, counts.ReceivedAgain
		}
	}
	return view
}
