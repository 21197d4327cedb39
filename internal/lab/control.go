// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weir/internal/core/control"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/goodput"
	"weir/internal/host/dataplane/pace"
	"weir/internal/lab/scenario"
)

// regulator holds the reservations of a link as the agent does: once a second goodput
// in, intervals out.
type regulator struct {
	backend dataplane.Backend
	ingress bool
	log     *slog.Logger

	mu    sync.Mutex
	pacer *pace.Pacer
	meter *goodput.Meter
	want  plan.State
	err   error
	done  chan struct{}
	stop  context.CancelFunc
}

// newRegulator begins to regulate; nothing happens before follow.
func newRegulator(backend dataplane.Backend, direction policy.Direction, how scenario.Control, log *slog.Logger) *regulator {
	settings := pace.Options{Gains: how.Gains, Open: how.Open, Cold: how.Cold, Summed: how.Summed}
	r := &regulator{backend: backend, ingress: direction == policy.Ingress, log: log, done: make(chan struct{}),
		pacer: pace.New(direction, func(string, string) pace.Options { return settings })}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go r.run(ctx)
	return r
}

// set puts a plan into force, with the intervals of now, and has the goodput of those
// with a reservation measured.
func (r *regulator) set(ctx context.Context, want plan.State) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pacer.Follow(want)
	r.want = r.pacer.Paced(want)
	if err := r.backend.Set(ctx, r.want); err != nil || !r.pacer.Busy() {
		return err
	}
	if r.meter == nil {
		meter, err := goodput.New(plan.Carrier{})
		if err != nil {
			return fmt.Errorf("the lab measures goodput: %w", err)
		}
		r.meter = meter
	}
	var ifbs []int
	if r.ingress { // the IFB is there since Set
		ifb, err := device.IFB{Link: want.Link.Device, Ingress: true}.CameBy()
		if err != nil {
			return err
		}
		ifbs = append(ifbs, ifb)
	}
	watched := map[plan.ClassID]bool{}
	for _, class := range r.pacer.Watched() {
		watched[class] = true
	}
	var ports []plan.Port
	for _, p := range want.Ports {
		if watched[p.Class] {
			ports = append(ports, p)
		}
	}
	return r.meter.Watch(ports, ifbs)
}

func (r *regulator) run(ctx context.Context) {
	defer close(r.done)
	second := time.NewTicker(time.Duration(control.Period * float64(time.Second)))
	defer second.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-second.C:
			r.mu.Lock()
			if err := r.step(ctx); err != nil && r.err == nil {
				r.err = err
			}
			r.mu.Unlock()
		}
	}
}

func (r *regulator) step(ctx context.Context) error {
	if !r.pacer.Busy() {
		return nil
	}
	snap, err := r.backend.Counters()
	if err != nil {
		return err
	}
	now := time.Now()
	readings, err := r.meter.Read()
	if err != nil {
		return err
	}
	r.pacer.Step(snap, pace.Measured{At: now, Readings: readings})
	for _, l := range r.pacer.Loops() {
		st := l.Controller.State()
		r.log.Debug("control", "workload", l.Name, "queue", l.QueueName, "goodput", st.Goodput, "wire", st.Wire, "in", st.In, "mode", st.Mode)
	}
	r.want = r.pacer.Paced(r.want)
	return r.backend.Pace(ctx, r.want)
}

// close ends it; the intervals stay.
func (r *regulator) close() error {
	r.stop()
	<-r.done
	if r.meter != nil {
		return errors.Join(r.err, r.meter.Close())
	}
	return r.err
}
