// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
	"weir/internal/lab/meter"
	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
	"weir/internal/lab/topology"
	"weir/internal/lab/traffic"
)

// timingLink is the link's capacity: far more than the schedule needs.
const timingLink policy.Rate = 100e6

// runTiming is the child's part: a workload sends all its packets at once, and the
// scheduler lets them go by its schedule.
func runTiming(ctx context.Context, ask request) (*report.TimingResult, error) {
	s, err := scenario.Parse(ask.File, ask.Data)
	if err != nil {
		return nil, err
	}
	spec := s.Timing
	net, err := topology.Build(scenario.Link{Bandwidth: timingLink, MTU: scenario.DefaultMTU}, 1)
	if err != nil {
		return nil, err
	}
	result := &report.TimingResult{Name: s.Name, IntervalNs: float64(spec.Size) * 8e9 / float64(spec.Rate)}
	for _, scheduler := range spec.Schedulers {
		for _, busy := range []bool{false, true} {
			stamps, err := timed(ctx, net, spec, scheduler, ask.Backend, busy)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			row := report.TimingOf(stamps, result.IntervalNs)
			if err != nil {
				row = report.TimingRow{Problem: err.Error()}
			}
			row.Scheduler, row.Busy = scheduler, busy
			result.Rows = append(result.Rows, row)
		}
	}
	return result, nil
}

// timed measures one scheduler: when each packet was due, and when it arrived.
func timed(ctx context.Context, net *topology.Net, spec *scenario.Timing, scheduler, backend string, busy bool) (stamps []meter.Stamp, err error) {
	stop, err := pacer(ctx, net, spec, scheduler, backend)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	index, err := net.Server.Ifindex(topology.ServerDevice)
	if err != nil {
		return nil, err
	}
	shaped, err := net.Host.Ifindex(topology.Uplink)
	if err != nil {
		return nil, err
	}
	var watch meter.Programs
	defer watch.Close()
	var read func() ([]meter.Stamp, error)
	if err := net.Server.Do(func() error {
		read, err = watch.Stamp(index, shaped, spec.Packets)
		return err
	}); err != nil {
		return nil, err
	}
	if busy {
		defer soakCPUs()()
	}
	sender := traffic.NewSender(spec.Size)
	defer sender.Close()
	if err := sender.Add(net.Workloads[0], 0, []int{costPort}); err != nil {
		return nil, err
	}
	if _, err := sender.Send(spec.Packets); err != nil {
		return nil, err
	}
	whole := time.Duration(float64(spec.Packets*spec.Size) * 8e9 / float64(spec.Rate))
	select {
	case <-time.After(whole + whole/10 + 300*time.Millisecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return read()
}

// soakCPUs keeps every CPU busy with a program of its own until the function that it
// returns is called.
func soakCPUs() (stop func()) {
	var programs []*exec.Cmd
	for range runtime.NumCPU() {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if cmd.Start() == nil {
			programs = append(programs, cmd)
		}
	}
	return func() {
		for _, cmd := range programs {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
}

// pacer puts a scheduler on the uplink that sends the workload's packets at the rate.
func pacer(ctx context.Context, net *topology.Net, spec *scenario.Timing, scheduler, backend string) (stop func() error, err error) {
	tc := map[string]string{
		// With its default quantum of two frames fq lets packets go in pairs.
		"fq":  fmt.Sprintf("fq limit 10000 flow_limit 5000 quantum %[2]d initial_quantum %[2]d maxrate %[1]dbit", spec.Rate, spec.Size),
		"tbf": fmt.Sprintf("tbf rate %dbit burst %d limit %d", spec.Rate, spec.Size+100, 5000*spec.Size),
	}[scheduler]
	if tc != "" {
		if err := net.Host.Tc("qdisc add dev " + topology.Uplink + " root " + tc + "\n"); err != nil {
			return nil, err
		}
		return func() error { return net.Host.Tc("qdisc del dev " + topology.Uplink + " root\n") }, nil
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	b, _, _, err := site{}.newBackends(backend, log)
	if err != nil {
		return nil, err
	}
	stop = func() error { return errors.Join(b.Cleanup(ctx), b.Close()) }
	port := net.Ports[0]
	state := plan.State{
		Link: plan.Link{Device: topology.Uplink, Capacity: timingLink, Reserve: 1, Scheduler: scheduler},
		Classes: []plan.Class{{Name: "host", Weight: 1, Discipline: discipline.SFQ},
			{ID: 1, Name: "paced", Weight: 1, Min: spec.Rate, Interval: plan.IntervalOf(spec.Rate), Discipline: discipline.FIFO,
				Limit: plan.Limit{Packets: 4096, Bytes: 16 << 20}}},
		Ports: []plan.Port{{Device: port.Device, Ifindex: port.Ifindex, Class: 1}},
	}
	if err := b.Set(ctx, state); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

func (o *Options) timing(ctx context.Context, l loaded) (exit int, err error) {
	var r report.TimingResult
	if err := inSandbox(ctx, partTiming, request{File: l.File, Data: l.data, Backend: o.Backend}, &r, o.Stderr); err != nil {
		return ExitBroken, err
	}
	show := report.TimingTable
	if o.JSON {
		show = report.TimingJSON
	}
	if err := show(o.Stdout, &r); err != nil {
		return ExitBroken, err
	}
	return o.judge(l, report.JudgeBars(l.Scenario, l.Timing.Schedulers, r.Figures()), r.Problems())
}
