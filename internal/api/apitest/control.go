// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"

	"weir/internal/api"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
)

// Reserved returns a workload like Workload with a reservation that is held, all in
// Mbit/s.
func Reserved(name string, reserve uint64) api.Workload {
	w := Workload(name, 1, 0, 0, reserve*policy.FullFrame/policy.FullPayload)
	w.Policy.Reserve = mbit(reserve)
	w.Links[0].ReserveBps = reserve * 1e6
	goodput := float64(reserve) * 1e6 * 0.999
	w.Links[0].GoodputBps, w.Links[0].Control = &goodput, "settled"
	return w
}

// Control implements api.Agent: reservations are held, frozen or not.
func (f *Fake) Control(_ context.Context, name string) (api.Control, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.control(name)
}

func (f *Fake) control(name string) (api.Control, error) {
	i, err := f.find(name)
	if err != nil {
		return api.Control{}, err
	}
	w := f.workloads[i]
	c := api.Control{Name: w.Name, Loops: []api.ControlLoop{}}
	for _, l := range w.Links {
		if l.ReserveBps == 0 {
			continue
		}
		target := float64(l.ReserveBps)
		missing := target - *l.GoodputBps
		loop := api.ControlLoop{
			Device: l.Device, Direction: l.Direction, TargetBps: target, GoodputBps: l.GoodputBps, ErrorBps: &missing,
			WireBps: target * policy.FullFrame / policy.FullPayload, IntervalNs: 8e9 / (target * policy.FullFrame / policy.FullPayload), OfferedBps: target * 1.05,
			Limiter: "on", Mode: l.Control, Why: "within 0.5 % of the target", Gains: api.Gains{Kc: 0.15, Ti: 0.25},
			HistoryBps: []float64{target * 0.98, target * 1.01, *l.GoodputBps}, SentBytes: 1 << 20, ResentBytes: policy.FullPayload,
		}
		if set, ok := f.tuned[w.Name]; ok {
			loop.Frozen = set.Freeze != nil && *set.Freeze
			if loop.Frozen {
				loop.Mode, loop.Why = "frozen", "frozen by weir control --freeze"
			}
			if set.Gains != nil {
				loop.Gains = *set.Gains
			}
		}
		c.Loops = append(c.Loops, loop)
	}
	return c, nil
}

func noReservation(name string) error {
	return &refusal.Error{Kind: refusal.Conflict, Field: "reserve", Msg: name + " has no reservation in force", Remedy: "set one"}
}

// Flows implements api.Agent: one connection carries the whole reservation.
func (f *Fake) Flows(_ context.Context, name string) (api.Flows, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.control(name)
	if err != nil {
		return api.Flows{}, err
	}
	if len(c.Loops) == 0 {
		return api.Flows{}, noReservation(c.Name)
	}
	flows := api.Flows{Name: c.Name, Seconds: 1}
	for _, l := range c.Loops {
		flows.Flows = append(flows.Flows, api.Flow{Protocol: "tcp", Local: "10.0.0.2:40000", Remote: "192.0.2.1:443", Queue: l.Queue, SentBps: *l.GoodputBps})
	}
	return flows, nil
}

// SetControl implements api.Agent.
func (f *Fake) SetControl(_ context.Context, name string, change api.ControlChange, dryRun bool) (api.Control, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.control(name)
	if err != nil || dryRun {
		return c, err
	}
	if len(c.Loops) == 0 {
		return c, &refusal.Error{Kind: refusal.Conflict, Field: "reserve", Msg: c.Name + " has no reservation in force", Remedy: "set one"}
	}
	if f.tuned == nil {
		f.tuned = map[string]api.ControlChange{}
	}
	f.tuned[c.Name] = change
	return f.control(name)
}

// Tune implements api.Agent: an experiment that takes no time.
func (f *Fake) Tune(_ context.Context, name string, req api.TuneRequest) (api.TuneResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.control(name)
	if err != nil {
		return api.TuneResult{}, err
	}
	if len(c.Loops) == 0 {
		return api.TuneResult{}, noReservation(c.Name)
	}
	l := c.Loops[0]
	r := api.TuneResult{Name: c.Name, Device: l.Device, Direction: l.Direction, Method: "step", TargetBps: l.TargetBps,
		Gain: 0.956, Delay: 0.2, Lag: 0.1, Suggested: api.Gains{Kc: 0.11, Ti: 0.25}, ZieglerNichols: api.Gains{Kc: 1.05, Ti: 2.4, Td: 0.6},
		Verdict: "not stable when looked at once a second", Before: l.Gains, Applied: req.Apply}
	for i := range 13 {
		p := api.TunePoint{At: float64(i + 1), GoodputBps: 1.05 * l.TargetBps, WireBps: 1.1 * l.WireBps}
		if i > 4 {
			p.GoodputBps, p.WireBps = 0.95*l.TargetBps, l.TargetBps
		}
		r.Points = append(r.Points, p)
	}
	return r, nil
}
