// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"weir/internal/api"
	"weir/internal/core/control"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
	"weir/internal/host/agent/decide"
	"weir/internal/host/dataplane/goodput"
	"weir/internal/host/dataplane/pace"
)

// An experiment with a live workload: the goodput is looked at every tuneEvery, and
// the rate on the wire goes down by tuneStep for a while. Down, because up could take
// what others were promised.
const (
	tuneEvery  = 200 * time.Millisecond
	tuneBefore = 4 * time.Second
	tuneAfter  = 9 * time.Second
	tuneStep   = 0.2
	tuneRelay  = 20 // periods of the other method
	relaySwing = 0.1
)

// The methods of api.TuneRequest.
const (
	methodStep  = "step"
	methodRelay = "relay"
)

// experiment is a tuning that is going on.
type experiment struct {
	regulator *regulator
	link      *link
	loop      *pace.Loop
	began     time.Time
	wire      float64 // of the loop before it
	rate      control.Monitor
	points    []control.Point
	result    api.TuneResult
}

// Tune implements api.Agent.
func (a *Agent) Tune(ctx context.Context, name string, req api.TuneRequest) (api.TuneResult, error) {
	var e *experiment
	err := a.ask(ctx, func(now moment) error {
		v, err := now.Resolve(name)
		if err == nil {
			e, err = a.regulator.experiment(v, now.links, req, time.Now())
		}
		return err
	})
	if err != nil {
		return api.TuneResult{}, err
	}
	in := func(f func()) error { return a.do(ctx, f) }
	if e.result.Method == methodRelay {
		err = e.relay(ctx, in)
	} else {
		err = e.step(ctx, in)
	}
	// The loop gets its output back whatever happened, even if the client is gone.
	down := a.tell(context.WithoutCancel(ctx), func() { e.end() })
	if err = errors.Join(err, down); err != nil {
		return e.result, err
	}
	if req.Apply {
		gains := e.result.Suggested
		if _, err := a.SetControl(ctx, name, api.ControlChange{Gains: &gains}, false); err != nil {
			return e.result, err
		}
		e.result.Applied = true
	}
	return e.result, nil
}

// experiment finds the loop of a workload that a request means, and takes it out of the
// controller's hands.
func (r *regulator) experiment(v decide.Ruling, ls links, req api.TuneRequest, now time.Time) (*experiment, error) {
	var found []*experiment
	for _, l := range ls {
		if req.Device != "" && req.Device != l.config.Place() || string(l.direction()) != cmp.Or(req.Direction, string(policy.Egress)) {
			continue
		}
		for _, loop := range l.pacer.Loops() {
			if loop.Class == v.Class && v.Steered && loop.QueueName == req.Queue {
				found = append(found, &experiment{regulator: r, link: l, loop: loop})
			}
		}
	}
	switch {
	case len(found) == 0:
		return nil, noLoop(v.Name)
	case len(found) > 1:
		return nil, &refusal.Error{Kind: refusal.Conflict, Field: "device", Msg: v.Name + " is held on several links", Remedy: "say which one by --link"}
	}
	e := found[0]
	st := e.loop.Controller.State()
	switch {
	case e.loop.Controller.IsFrozen():
		return nil, &refusal.Error{Kind: refusal.Conflict, Field: "freeze", Msg: "the controller is frozen, or being tuned", Remedy: fmt.Sprintf("weir control %s --unfreeze, or wait for the other experiment", v.Name)}
	case math.IsNaN(st.Goodput):
		return nil, &refusal.Error{Kind: refusal.Conflict, Field: "goodput", Msg: "nothing measures the goodput of " + v.Name, Remedy: fmt.Sprintf("weir control %s says why", v.Name)}
	case !st.On:
		return nil, &refusal.Error{Kind: refusal.Conflict, Field: "demand", Msg: fmt.Sprintf("%s offers %s, less than its reservation; a step would show nothing", v.Name, policy.Approx(st.In)),
			Remedy: "tune while it sends all it can"}
	}
	e.began, e.wire = now, st.Wire
	e.loop.Controller.Freeze(true)
	e.loop.Held = true
	e.result = api.TuneResult{Name: v.Name, Device: e.link.config.Place(), Direction: string(e.link.direction()), Queue: req.Queue,
		Method: cmp.Or(req.Method, methodStep), TargetBps: st.Target, Before: api.Gains(e.loop.Controller.Gains())}
	r.log.Info("tuning begins", "workload", v.Name, "method", e.result.Method, "why", "asked by weir tune")
	return e, nil
}

// end gives the loop back.
func (e *experiment) end() {
	e.loop.Controller.SetOutput(e.wire)
	e.loop.Controller.Freeze(false)
	e.loop.Held = false
	if e.link.backend != nil {
		e.link.pace(context.Background(), time.Now())
	}
}

// look waits until an instant of the experiment and notes the goodput since the last
// look; then the output becomes wire. in runs a function in the agent's goroutine.
func (e *experiment) look(ctx context.Context, in func(func()) error, at time.Duration, wire float64) (rate float64, err error) {
	timer := time.NewTimer(time.Until(e.began.Add(at)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	down := in(func() {
		if e.regulator.meter == nil || e.link.backend == nil {
			err = &refusal.Error{Kind: refusal.Conflict, Field: "goodput", Msg: "the workload or its link went away meanwhile", Remedy: "try again when it is back"}
			return
		}
		all, failed := e.regulator.meter.Read()
		if err = failed; err != nil {
			return
		}
		now := time.Now()
		rate = e.rate.Take(now, e.delivered(all[e.loop.Class]))
		if !math.IsNaN(rate) {
			point := control.Point{At: now.Sub(e.began).Seconds(), Goodput: rate}
			e.points = append(e.points, point)
			e.result.Points = append(e.result.Points, api.TunePoint{At: point.At, GoodputBps: rate, WireBps: e.loop.Controller.State().Wire})
		}
		e.loop.Controller.SetOutput(wire)
		e.link.pace(ctx, now)
	})
	return rate, errors.Join(err, down)
}

// delivered returns the payload counter that the loop controls.
func (e *experiment) delivered(r goodput.Reading) uint64 {
	c := r.Counts
	if e.loop.Queue != pace.Whole {
		c = r.Queues[e.loop.Queue]
	}
	if e.link.config.Direction == policy.Ingress {
		return c.Came()
	}
	return c.Delivered()
}

// step runs the first method of Ziegler and Nichols.
func (e *experiment) step(ctx context.Context, in func(func()) error) error {
	// The output never goes below what the payload itself takes, so the way down begins
	// above.
	high := e.wire * (1 + tuneStep/2)
	low := e.wire * (1 - tuneStep/2)
	for at := time.Duration(0); at <= tuneBefore+tuneAfter; at += tuneEvery {
		wire := high
		if at >= tuneBefore {
			wire = low
		}
		if _, err := e.look(ctx, in, at, wire); err != nil {
			return err
		}
	}
	plant, err := control.FitStep(e.points, tuneBefore.Seconds(), high, e.lowest(low))
	if err != nil {
		return e.unclear(err)
	}
	e.result.Gain, e.result.Delay, e.result.Lag = plant.Gain, plant.Delay, plant.Lag
	e.conclude(plant.Suggest(), plant.ZieglerNichols())
	return nil
}

// lowest returns what the output really was, given its bounds.
func (e *experiment) lowest(wire float64) float64 {
	return slices.MinFunc(append(e.result.Points, api.TunePoint{WireBps: math.Inf(1)}), func(a, b api.TunePoint) int {
		return cmp.Compare(a.WireBps, b.WireBps)
	}).WireBps
}

func (e *experiment) unclear(err error) error {
	return &refusal.Error{Kind: refusal.Conflict, Field: "goodput", Msg: err.Error(),
		Remedy: "tune while the workload sends all it can and nothing else changes"}
}

// relay runs the second method, which switches between two rates.
func (e *experiment) relay(ctx context.Context, in func(func()) error) error {
	r := control.Relay{Target: e.result.TargetBps, Center: e.wire, Swing: relaySwing * e.wire / 2}
	wire := e.wire
	for i := range tuneRelay {
		rate, err := e.look(ctx, in, time.Duration(i)*time.Second, wire)
		if err != nil {
			return err
		}
		if !math.IsNaN(rate) {
			wire = r.Step(rate)
		}
	}
	u, err := r.Ultimate()
	if err != nil {
		return e.unclear(err)
	}
	e.result.UltimateGain, e.result.UltimatePeriod = u.Gain, u.Period
	zn := u.ZieglerNichols()
	e.conclude(control.Plant{Gain: 4 / (math.Pi * u.Gain), Delay: max(0, u.Period/2-control.Period)}.Suggest(), zn)
	return nil
}

func (e *experiment) conclude(suggested, zieglerNichols control.Gains) {
	e.result.Suggested, e.result.ZieglerNichols = api.Gains(suggested), api.Gains(zieglerNichols)
	e.result.Verdict = "stable"
	if err := zieglerNichols.CheckStable(); err != nil {
		e.result.Verdict = "not stable when looked at once a second"
	} else if w := zieglerNichols.Warning(); w != "" {
		e.result.Verdict = w
	}
}
