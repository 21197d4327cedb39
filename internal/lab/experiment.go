// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"weir/internal/lab/meter"
	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
	"weir/internal/lab/topology"
	"weir/internal/lab/traffic"
)

const (
	// lead is the time from "everything is ready" to the beginning.
	lead = 100 * time.Millisecond
	// grace is how long generators may take to exchange their accounts.
	grace = 30 * time.Second
)

// experiment is one scenario under way. Everything that can be done before the
// first packet is done before it; during the phases the lab sleeps.
type experiment struct {
	s      *scenario.Scenario
	log    *slog.Logger
	net    *topology.Net
	steer  steering
	meter  *meter.Arrivals
	cpu    meter.CPU
	gen    *traffic.Generators
	flows  []scenario.Flow
	zero   time.Duration // CLOCK_MONOTONIC at the beginning
	m      report.Measurement
	before []meter.CPUSample // CPU account at the beginning of each measured window
	drops  []*uint64         // at the beginning of each phase, and at the end
}

// runExperiment is the child's part: the request's scenario, measured.
func runExperiment(ctx context.Context, ask request) (*report.Measurement, error) {
	s, err := scenario.Parse(ask.File, ask.Data)
	if err != nil {
		return nil, err
	}
	e := &experiment{s: s, flows: s.Flows(), log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if err := traffic.Require(e.flows); err != nil {
		return nil, err
	}
	if err := e.prepare(ctx, ask); err != nil {
		return nil, err
	}
	if err := e.run(ctx); err != nil {
		return nil, err
	}
	return &e.m, e.finish(ctx)
}

func (e *experiment) prepare(ctx context.Context, ask request) (err error) {
	if e.s.OVS != nil {
		e.net, err = topology.BuildSwitch(e.s.Link, len(e.s.Workloads), e.flows, filepath.Join(stateDir, "ovs"))
	} else {
		e.net, err = topology.Build(e.s.Link, len(e.s.Workloads), e.s.Taps()...)
	}
	if err != nil {
		return err
	}
	for _, f := range e.flows {
		if err := e.net.AddHost(f.Workload, f.Host); err != nil {
			return err
		}
	}
	if err := startCables(e.net.Cables); err != nil {
		return err
	}
	at := site{host: e.net.Host, link: e.s.Link, ports: e.net.Ports, how: e.s.Control}
	if e.s.OVS != nil {
		at.ovs = &port{e.s, e.net.Switch}
	}
	for _, w := range e.s.Workloads {
		at.names = append(at.names, w.Name)
		at.zones = append(at.zones, w.Zone)
	}
	for _, g := range e.s.Groups {
		at.groups = append(at.groups, g.Name)
	}
	e.m.Scheduler = ask.Scheduler
	e.steer, e.m.Backend, e.m.Notes, err = steer(ctx, at, ask.Scheduler, ask.Backend, e.s.Promises()[0], e.log)
	if err != nil {
		return err
	}
	if err := e.startMeter(); err != nil {
		return err
	}
	// The soaker is calibrated while nothing else runs: before the servers.
	if e.cpu, err = startCPU(ask.CPU); err != nil {
		return err
	}
	e.gen, err = traffic.Prepare(ctx, e.net, e.flows)
	return err
}

func (e *experiment) startMeter() (err error) {
	config := meter.Config{
		FirstAddress: binary.BigEndian.Uint32(topology.Address(0)),
		Workloads:    len(e.s.Workloads),
		Length:       e.s.Duration() + time.Minute, // preparations take some of it
		Inward:       e.s.Link.Ingress,
		Payload:      slices.ContainsFunc(e.flows, func(f scenario.Flow) bool { return f.Kind == scenario.TCP }),
	}
	if list := e.counted(); list != nil {
		config.Flows, config.Rows = list, len(e.s.Entries())
	}
	e.meter, err = meter.New(config)
	if err != nil {
		return err
	}
	receivers := []*topology.NS{e.net.Server}
	if e.s.Link.Ingress {
		receivers = e.net.Workloads
	}
	for _, ns := range receivers {
		index, err := ns.Ifindex(topology.ServerDevice) // a workload's is called so, too
		if err != nil {
			return err
		}
		if err := ns.Do(func() error { return e.meter.Attach(index) }); err != nil {
			return err
		}
	}
	return nil
}

// counted are the flows that are counted by themselves, nil if no workload has
// more than one and none is udp, whose beginning is looked for there.
func (e *experiment) counted() []meter.Flow {
	var list []meter.Flow
	several, entry := false, map[int]int{}
	for _, f := range e.flows {
		if first, ok := entry[f.Workload]; ok && first != f.Entry {
			several = true
		}
		several = several || f.Kind == scenario.UDP
		entry[f.Workload] = f.Entry
		if p := f.Packet(); f.Listen != 0 || !p.Ports {
			list = append(list, meter.Flow{Workload: f.Workload, Proto: p.Proto, Port: p.Dport, Row: f.Entry})
		}
	}
	if !several {
		return nil
	}
	return list
}

// startCPU chooses how CPU time is measured.
func startCPU(exact bool) (meter.CPU, error) {
	if !exact {
		return meter.Stat{}, nil
	}
	cmd := exec.Command("/proc/self/exe", ChildArg, partSoak)
	cmd.Stderr = os.Stderr // GODEBUG=asyncpreemptoff=1 is in the environment already
	return meter.StartSoaker(cmd)
}

func soak() error { return meter.Soak() }

// step is something to do at a time of the scenario.
type step struct {
	at    time.Duration
	order int // among those of the same instant
	do    func(since time.Duration) error
}

// steps are all that happens, in order: at the border of two phases first the
// account of the old one, then the new policy, then generators.
func (e *experiment) steps(ctx context.Context) []step {
	var list []step
	promises := e.s.Promises()
	for p, span := range e.s.Spans() {
		list = append(list,
			step{span.From, 1, func(time.Duration) error { return e.enter(ctx, p, promises[p]) }},
			step{span.Measured, 4, func(time.Duration) error { return e.sample(&e.before) }},
			step{span.To, 0, func(time.Duration) error { return e.account(p) }},
		)
	}
	for i, f := range e.flows {
		list = append(list,
			step{f.To, 2, func(time.Duration) error { e.gen.Stop(i); return nil }},
			step{f.From, 3, func(since time.Duration) error { return e.gen.Start(i, since) }},
		)
	}
	slices.SortStableFunc(list, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order))
	})
	return list
}

func (e *experiment) run(ctx context.Context) error {
	steps := e.steps(ctx)
	e.m.Phases = make([]report.Account, len(e.s.Phases))
	// The lab's own heap is small; a collection during the phases would only be
	// noise on a single CPU.
	runtime.GC()
	e.zero = e.meter.Align(meter.Now() + lead)
	e.gen.Begin(time.Now().Add(e.zero - meter.Now()))
	for _, st := range steps {
		if err := e.sleepUntil(ctx, st.at); err != nil {
			return err
		}
		if err := st.do(e.since()); err != nil {
			return err
		}
	}
	return nil
}

// since is the time since the scenario began.
func (e *experiment) since() time.Duration { return meter.Now() - e.zero }

func (e *experiment) sleepUntil(ctx context.Context, at time.Duration) error {
	wait := time.NewTimer(at - e.since())
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter begins a phase.
func (e *experiment) enter(ctx context.Context, p int, now scenario.Promises) error {
	n, err := e.steer.Drops()
	if err != nil {
		return err
	}
	e.drops = append(e.drops, n)
	if p == 0 {
		return nil // in force since the preparations
	}
	began := meter.Now()
	if err := e.steer.Apply(ctx, now); err != nil {
		return fmt.Errorf("phase %d: %w", p+1, err)
	}
	e.m.Phases[p].Applied = meter.Now() - began
	return nil
}

func (e *experiment) sample(list *[]meter.CPUSample) error {
	s, err := e.cpu.Sample()
	*list = append(*list, s)
	return err
}

// account closes a phase.
func (e *experiment) account(p int) error {
	now, err := e.cpu.Sample()
	if err != nil {
		return err
	}
	busy := meter.Busy(e.before[p], now)
	a := &e.m.Phases[p]
	a.CPU, a.CPUExact, a.CPUs = &busy, e.cpu.Exact(), runtime.NumCPU()
	n, err := e.steer.Drops()
	if err != nil {
		return err
	}
	if from := e.drops[p]; from != nil && n != nil {
		lost := *n - *from
		a.Drops = &lost
	}
	return nil
}

// finish collects what was measured.
func (e *experiment) finish(ctx context.Context) (err error) {
	e.cpu.Close()
	e.m.Reports = e.gen.Collect(grace)
	if e.m.Timeline, err = e.meter.Read(e.zero); err != nil {
		return err
	}
	e.m.Timeline.Cut(int(e.s.Duration() / scenario.Bucket)) // what came after the last phase
	e.meter.Close()
	return e.steer.Close(ctx)
}
