// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"weir/internal/core/policy"
	"weir/internal/lab/meter"
	"weir/internal/lab/peers"
	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
	"weir/internal/lab/topology"
	"weir/internal/lab/traffic"
)

const (
	// costWorkloads have namespaces and marking programs of their own: the case
	// that is like a real host.
	costWorkloads = 5
	// costPort is the UDP port of class 1, and of the first queue inside a class.
	costPort = 20000
	// costQueues are in each workload where disciplines are compared.
	costQueues = 4
	// costRate is so high that nothing is ever held back.
	costRate policy.Rate = 10e9
	// costRounds are run of each measurement; the fastest counts.
	costRounds = 3
	// costQuiet is how long the bench waits before it measures anything. The kernel frees a
	// scheduler that is gone, and maps of megabytes with it, on the CPU that sends: once a
	// base that was measured meanwhile had 520 instructions a packet too many.
	costQuiet = 500 * time.Millisecond
	// costProfiles are taken to see which functions packets pass, each of half as many
	// packets as a measurement has, with periods that are not in step with them.
	costProfiles   = 41
	costPeriod     = 20_011 * time.Nanosecond
	costPeriodStep = 263 * time.Nanosecond
)

// bench measures what a packet costs: send() in a workload's namespace, veth,
// marking program, bridge, scheduler, veth, and there a program that drops it.
// All of that is one call chain on one CPU, so that the time of the sending loop
// is the time of the packets. In virtual time a nanosecond is an instruction.
type bench struct {
	spec   *scenario.CostRun
	net    *topology.Net
	spread int // index of the namespace that stands for any number of workloads
	sunk   func() (uint64, error)
	sinks  meter.Programs
	log    *slog.Logger
	ask    request
	rows   []report.CostRow
}

// runCost is the child's part.
func runCost(ctx context.Context, ask request) (*report.CostResult, error) {
	s, err := scenario.Parse(ask.File, ask.Data)
	if err != nil {
		return nil, err
	}
	debug.SetGCPercent(-1)
	b := &bench{spec: s.Cost, spread: costWorkloads, ask: ask,
		log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if b.net, err = topology.Build(b.link(costRate), costWorkloads+1); err != nil {
		return nil, err
	}
	defer b.sinks.Close()
	if err := b.drain(); err != nil {
		return nil, err
	}
	if err := b.warmUp(ctx); err != nil {
		return nil, err
	}
	result := &report.CostResult{Name: s.Name, Packets: s.Cost.Packets, Size: s.Cost.Size}
	result.Stopped = b.all(ctx, b.parts())
	result.Rows = b.rows
	return result, ctx.Err()
}

func (b *bench) link(rate policy.Rate) scenario.Link {
	return scenario.Link{Bandwidth: rate, MTU: scenario.DefaultMTU}
}

// drain puts the program that counts and drops to where packets arrive.
func (b *bench) drain() error {
	index, err := b.net.Server.Ifindex(topology.ServerDevice)
	if err != nil {
		return err
	}
	return b.net.Server.Do(func() error {
		b.sunk, err = b.sinks.Sink(index)
		return err
	})
}

// costPart is a part of a cost measurement, with the cases that it has rows of.
type costPart struct {
	run   func(context.Context) error
	cases []string
}

func (b *bench) parts() []costPart {
	return []costPart{
		{b.five, []string{scenario.CostVeths}},
		{b.inside, []string{scenario.CostInside}},
		{b.growth, []string{scenario.CostAll, scenario.CostOne}},
		{b.throttled, []string{scenario.CostFull, scenario.CostThrottled}},
	}
}

// all runs every case that the file asks for. It returns why it ended early, "" if it did
// not; the rows up to then stay.
func (b *bench) all(ctx context.Context, parts []costPart) (stopped string) {
	for _, part := range parts {
		if !slices.ContainsFunc(part.cases, b.wants) {
			continue
		}
		if err := part.run(ctx); err != nil {
			return fmt.Sprintf("what was left of case %s, and the cases after it: %v", strings.Join(part.cases, ", "), err)
		}
	}
	return ""
}

// wants says whether the file asks for a case.
func (b *bench) wants(name string) bool { return slices.Contains(b.spec.Cases, name) }

// warmUp sends until the time per packet stays the same: the kernel's
// allocators and the CPU's (or the emulator's) caches fill, and what a fresh
// boot still does in the background ends. In a machine in virtual time the first seconds
// cost up to 50 instructions a packet more, and later ones differ by one.
func (b *bench) warmUp(ctx context.Context) error {
	const longest, steady, enough = 20 * time.Second, 0.0002, 5
	last, same := 0.0, 0
	for begin := time.Now(); time.Since(begin) < longest; {
		ns, _, err := b.time(ctx, b.veths)
		if err != nil {
			return err
		}
		if same++; math.Abs(ns-last) > steady*ns {
			same = 0
		}
		if last = ns; same == enough {
			return nil
		}
	}
	return nil // a noisy machine; the rows show it
}

// way makes the sender of a case.
type way func() (*traffic.Sender, error)

// veths sends from five workloads, each to one port.
func (b *bench) veths() (*traffic.Sender, error) { return b.fromFive(b.spec.Size, b.ports(0, 1)) }

// flows sends from five workloads, each to costQueues ports.
func (b *bench) flows() (*traffic.Sender, error) {
	return b.fromFive(b.spec.Size, b.ports(0, costQueues))
}

func (b *bench) fromFive(frame int, ports []int) (*traffic.Sender, error) {
	s := traffic.NewSender(frame)
	for w := range costWorkloads {
		if err := s.Add(b.net.Workloads[w], w, ports); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (b *bench) spreadTo(ports []int) way {
	return func() (*traffic.Sender, error) { return b.sender(b.spec.Size, ports) }
}

// sender of frames from the namespace that stands for any number of workloads.
func (b *bench) sender(frame int, ports []int) (*traffic.Sender, error) {
	s := traffic.NewSender(frame)
	return s, s.Add(b.net.Workloads[b.spread], b.spread, ports)
}

// calm lets end what earlier measurements have left behind, in this process and in the kernel.
func (b *bench) calm() {
	runtime.GC() // it is off while something is measured, and a thousand classes leave much behind
	time.Sleep(costQuiet)
}

// base is the time without scheduler and without marking.
func (b *bench) base(ctx context.Context, send way) (float64, error) {
	b.calm()
	ns, _, err := b.time(ctx, send)
	return ns, err
}

// variant is one measurement of a contender.
type variant struct {
	contender
	rate  policy.Rate     // of the link; costRate = never holds back
	ports []topology.Port // nil: the spreading program marks
	// profile is what is sent once more to see which functions the packets pass; nil = nothing.
	profile way
}

// timing is a way to take the time per packet, and the share that arrived, with
// a scheduler at work.
type timing func(steering) (ns, delivered float64, err error)

// measure adds a row: the scheduler with row.Workloads equal workloads, its marking
// included. The row of a scheduler that cannot be measured says why. An error is about the
// bench, which then cannot go on: a scheduler is left on the link, for example.
func (b *bench) measure(ctx context.Context, row report.CostRow, v variant, take timing) error {
	row.Scheduler = v.name
	s, err := b.install(ctx, &row, v)
	if err == nil {
		err = b.through(&row, s, v, take)
		if broken := s.Close(ctx); broken != nil {
			return errors.Join(err, broken)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		row.Problem = err.Error()
	}
	b.rows = append(b.rows, row)
	return nil
}

// install puts a row's scheduler to work.
func (b *bench) install(ctx context.Context, row *report.CostRow, v variant) (steering, error) {
	b.calm()
	v.policy.Weight = 1
	policies := slices.Repeat([]scenario.Policy{v.policy}, row.Workloads)
	at := site{host: b.net.Host, link: b.link(v.rate), ports: v.ports, leaf: peers.Leaf{Kind: v.leaf, Ports: b.ports(0, costQueues)}}
	s, kind, _, err := steer(ctx, at, v.scheduler, b.ask.Backend, scenario.Promises{Workloads: policies}, b.log)
	row.Backend = kind
	return s, err
}

// through takes the time per packet through a scheduler that is at work.
func (b *bench) through(row *report.CostRow, s steering, v variant, take timing) (err error) {
	var programs meter.Programs
	defer programs.Close()
	if v.ports == nil {
		if err := programs.Spread(b.net.Ports[b.spread].Ifindex, costPort, spreadTarget(v.scheduler)); err != nil {
			return err
		}
	}
	if v.mark {
		if err := markPorts(&programs, v.ports); err != nil {
			return err
		}
	}
	if row.NsPerPacket, row.Delivered, err = take(s); err != nil || v.profile == nil {
		return err
	}
	row.Functions, err = b.functions(v.profile, row.NsPerPacket)
	return err
}

// functions returns where the time of a packet goes that takes ns in all: which function of the
// kernel, or of a BPF program, it is spent in. What takes less than a half of a thousandth is left
// out.
func (b *bench) functions(send way, ns float64) ([]report.Function, error) {
	sender, err := send()
	if err != nil {
		return nil, err
	}
	defer sender.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var addresses []uint64
	for period := range costProfiles {
		profile, err := meter.StartProfile(costPeriod + time.Duration(period)*costPeriodStep)
		if err != nil {
			return nil, err
		}
		_, err = sender.Send(b.spec.Packets / 2)
		more, failed := profile.Stop()
		if err := errors.Join(err, failed); err != nil {
			return nil, err
		}
		addresses = append(addresses, more...)
	}
	samples, err := meter.ByFunction(addresses)
	if err != nil {
		return nil, err
	}
	var list []report.Function
	for name, n := range samples {
		if share := float64(n) / float64(len(addresses)); share >= 0.0005 {
			list = append(list, report.Function{Name: name, NsPerPacket: share * ns})
		}
	}
	slices.SortFunc(list, func(a, b report.Function) int {
		return cmp.Or(cmp.Compare(b.NsPerPacket, a.NsPerPacket), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

// spreadTarget is where a scheduler looks for the class.
func spreadTarget(scheduler string) meter.ClassTarget {
	if p, ok := peers.Find(scheduler); ok {
		return meter.ClassTarget{Handle: p.Handle}
	}
	return meter.ClassTarget{Seal: true}
}

func (b *bench) unthrottled(ctx context.Context, send way) timing {
	return func(steering) (ns, delivered float64, err error) { return b.time(ctx, send) }
}

// time returns the nanoseconds per packet while nothing holds packets back, and
// the share of packets that arrived.
func (b *bench) time(ctx context.Context, send way) (ns, delivered float64, err error) {
	sender, err := send()
	if err != nil {
		return 0, 0, err
	}
	defer sender.Close()
	if _, err := sender.Send(b.spec.Packets / 4); err != nil {
		return 0, 0, err
	}
	return b.fastest(ctx, func() (packets int, took time.Duration, err error) {
		time.Sleep(costQuiet) // what the kernel frees meanwhile takes longer than a round
		took, err = sender.Send(b.spec.Packets)
		return b.spec.Packets, took, err
	})
}

// fastest of some rounds of sending: the least CPU time per packet that arrived
// meanwhile, and how many arrived as a share of those offered.
func (b *bench) fastest(ctx context.Context, send func() (packets int, took time.Duration, err error)) (ns, delivered float64, err error) {
	ns = math.Inf(1)
	for range costRounds {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		before, err := b.sunk()
		if err != nil {
			return 0, 0, err
		}
		packets, took, err := send()
		if err != nil {
			return 0, 0, err
		}
		after, err := b.sunk()
		if err != nil {
			return 0, 0, err
		}
		if after == before {
			return 0, 0, fmt.Errorf("none of %d packets arrived", packets)
		}
		sent := float64(after - before)
		if t := float64(took) / sent; t < ns {
			ns, delivered = t, sent/float64(packets)
		}
	}
	return ns, delivered, nil
}

// cost is the parent's part: run it, show the table and judge the bars.
func (o *Options) cost(ctx context.Context, l loaded) (exit int, err error) {
	var r report.CostResult
	if err := inSandbox(ctx, partCost, request{File: l.File, Data: l.data, Backend: o.Backend}, &r, o.Stderr); err != nil {
		return ExitBroken, err
	}
	show := report.CostTable
	if o.JSON {
		show = report.CostJSON
	}
	if err := show(o.Stdout, &r); err != nil {
		return ExitBroken, err
	}
	return o.judge(l, report.JudgeBars(l.Scenario, l.Cost.Schedulers, r.Figures()), r.Problems())
}
