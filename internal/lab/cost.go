// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"weir/internal/dataplane/mark"
	"weir/internal/lab/meter"
	"weir/internal/lab/peers"
	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
	"weir/internal/lab/topology"
	"weir/internal/lab/traffic"
	"weir/internal/plan"
	"weir/internal/policy"
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

	// A throttled link carries full frames at throttledRate. Each class gets
	// throttledDepth of them to wait, all together at least throttledLeast, the
	// credits of two of qcon's periods, and at most throttledMost. Then as many are offered as the link
	// carries, throttledBurst at a time.
	throttledRate  policy.Rate = 100e6
	throttledFrame             = scenario.DefaultMTU + 14
	throttledDepth             = 8
	throttledLeast             = 500
	throttledMost              = 16000
	throttledBurst             = 8
	// throttledWarmUp is longer than fair expects a quiet class again, which all
	// of them are when they get their first packets.
	throttledWarmUp = 1500 * time.Millisecond
)

// bench measures what a packet costs: send() in a workload's namespace, veth,
// marking program, bridge, scheduler, veth, and there a program that drops it.
// All of that is one call chain on one CPU, so that the time of the sending loop
// is the time of the packets. In virtual time a nanosecond is an instruction.
type bench struct {
	spec   *scenario.Cost
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
	if err := b.all(ctx); err != nil {
		return nil, err
	}
	return &report.CostResult{Name: s.Name, Packets: s.Cost.Packets, Size: s.Cost.Size, Rows: b.rows}, nil
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

// all runs every case.
func (b *bench) all(ctx context.Context) error {
	if err := b.warmUp(ctx); err != nil {
		return err
	}
	if err := b.five(ctx); err != nil {
		return err
	}
	if err := b.inside(ctx); err != nil {
		return err
	}
	for _, n := range b.spec.Workloads {
		if err := b.many(ctx, n); err != nil {
			return err
		}
	}
	return b.throttled(ctx)
}

// warmUp sends until the time per packet stays the same: the kernel's
// allocators and the CPU's (or the emulator's) caches fill, and what a fresh
// boot still does in the background ends.
func (b *bench) warmUp(ctx context.Context) error {
	const tries, steady = 100, 0.002
	last, same := 0.0, 0
	for range tries {
		ns, err := b.base(ctx, b.veths)
		if err != nil {
			return err
		}
		if same++; math.Abs(ns-last) > steady*ns {
			same = 0
		}
		if last = ns; same == 3 {
			return nil
		}
	}
	return nil // a noisy machine; the rows show it
}

// contender is a scheduler with what orders packets inside a workload.
type contender struct {
	name      string // in the table, SCHEDULER or SCHEDULER+INSIDE
	scheduler string
	leaf      string          // of HTB's and DRR's classes
	policy    scenario.Policy // of each workload of Weir's schedulers
}

// The queues below the classes of HTB and DRR.
const (
	fifoLeaf = "pfifo"
	aqmLeaf  = "fq_codel"
	deepLeaf = "pfifo limit 1000" // holds throttledLeast packets of one class
	// deepAQM looks at every packet and drops none.
	deepAQM = "fq_codel limit 1000 target 9s interval 10s"
)

// lastingAQM is deepAQM for Weir.
var lastingAQM = policy.AQM{Target: 9 * time.Second, Interval: 10 * time.Second}

// plain is a scheduler with one FIFO per workload, whosever it is.
func plain(name, leaf string) contender {
	return contender{name, name, leaf, scenario.Policy{Weight: 1, Discipline: policy.FIFO}}
}

// contend are the file's schedulers with FIFOs, and behind HTB and fair the same
// with flow queues and CoDel: how a scenario sets HTB up, and the product's
// default.
func (b *bench) contend(names []string, fifo, leaf string, aqm policy.AQM) []contender {
	var list []contender
	for _, name := range names {
		list = append(list, plain(name, fifo))
		switch {
		case name == "htb" && b.haveLeaf(aqmLeaf):
			list = append(list, contender{"htb+" + aqmLeaf, name, leaf, scenario.Policy{}})
		case name == plan.SchedulerFair:
			list = append(list, contender{"fair+sfq", name, "", scenario.Policy{Weight: 1, Discipline: policy.SFQ, AQM: aqm}})
		}
	}
	return list
}

// five compares the schedulers with five workloads behind veths of their own.
func (b *bench) five(ctx context.Context) error {
	base, err := b.base(ctx, b.veths)
	if err != nil {
		return err
	}
	row := report.CostRow{Case: "veths", Workloads: costWorkloads, Active: costWorkloads, BaseNs: base}
	if err := b.markOnly(ctx, row); err != nil {
		return err
	}
	return b.fiveBy(ctx, row, b.veths, b.contend(b.spec.Schedulers, fifoLeaf, aqmLeaf, policy.AQM{}))
}

func (b *bench) fiveBy(ctx context.Context, row report.CostRow, send way, list []contender) error {
	for _, c := range list {
		if err := b.measure(ctx, row, variant{c, costRate, b.net.Ports[:costWorkloads]}, b.unthrottled(ctx, send)); err != nil {
			return err
		}
	}
	return nil
}

// inside compares what orders packets inside a workload: each of five workloads
// sends to costQueues ports in turn, each of which is a flow, and where there
// are queues belongs into one of its own. What sorts the packets (rules, filters,
// hashes) is counted in.
func (b *bench) inside(ctx context.Context) error {
	base, err := b.base(ctx, b.flows)
	if err != nil {
		return err
	}
	row := report.CostRow{Case: "inside", Workloads: costWorkloads, Active: costWorkloads, BaseNs: base}
	var list []contender
	for _, name := range b.spec.Schedulers {
		switch name {
		case "htb":
			list = append(list, plain(name, fifoLeaf))
			for _, leaf := range []string{"sfq", "prio", "drr", aqmLeaf} {
				list = append(list, contender{"htb+" + leaf, name, leaf, scenario.Policy{}})
			}
		case plan.SchedulerFair:
			list = append(list, plain(name, ""))
			for _, d := range []policy.Discipline{policy.SFQ, policy.PQ, policy.CBWFQ, policy.LLQ} {
				list = append(list, contender{name + "+" + string(d), name, "", scenario.Policy{Weight: 1, Discipline: d, Queues: costQueuesOf(d)}})
			}
		}
	}
	return b.fiveBy(ctx, row, b.flows, list)
}

// costQueuesOf are the queues of a discipline, nil if it has none: one for each
// port, none of which ever waits.
func costQueuesOf(d policy.Discipline) []policy.Queue {
	if !d.HasQueues() {
		return nil
	}
	var list []policy.Queue
	for i := range costQueues {
		port := uint16(costPort + i)
		q := policy.Queue{Name: fmt.Sprintf("q%d", i+1), Match: []policy.Match{{UDP: []policy.Ports{{First: port, Last: port}}}}}
		switch rate := (policy.Amount{Rate: costRate / costQueues / costWorkloads}); {
		case d == policy.LLQ && i == 0:
			q.Rate = rate
		case d.Weighs():
			q.Min = rate
		}
		list = append(list, q)
	}
	return list
}

func (b *bench) haveLeaf(kind string) bool {
	best, err := peers.BestLeaf(b.net.Host)
	return err == nil && best == kind
}

// markOnly is the cost of the marking programs with nothing to look at them.
func (b *bench) markOnly(ctx context.Context, row report.CostRow) (err error) {
	var programs meter.Programs
	defer programs.Close()
	for w, port := range b.net.Ports[:costWorkloads] {
		if err := programs.Classify(port.Ifindex, uint32(w+1), spreadTarget("fair")); err != nil {
			return err
		}
	}
	row.Scheduler, row.Backend = "none, marked", "kernel"
	if row.NsPerPacket, row.Delivered, err = b.time(ctx, b.veths); err != nil {
		return err
	}
	b.rows = append(b.rows, row)
	return nil
}

// many shows how the cost grows with n workloads: all of them sending, or one
// of them. They are behind one veth whose program tells them apart by port.
func (b *bench) many(ctx context.Context, n int) error {
	everyone, one := b.ports(0, n), b.ports(n/2, n/2+1)
	for _, part := range []struct {
		name  string
		ports []int
	}{{"all", everyone}, {"one", one}} {
		send := b.spreadTo(part.ports)
		base, err := b.base(ctx, send)
		if err != nil {
			return err
		}
		for _, c := range b.contend(b.growing(), fifoLeaf, aqmLeaf, policy.AQM{}) {
			row := report.CostRow{Case: part.name, Workloads: n, Active: len(part.ports), BaseNs: base}
			if err := b.measure(ctx, row, variant{c, costRate, nil}, b.unthrottled(ctx, send)); err != nil {
				return err
			}
		}
	}
	return nil
}

// throttled shows how the cost grows with the number of workloads while all of
// them have packets waiting. To be comparable, every case sends the same number
// of packets in the same time: the queues are filled a little, and then as much
// is offered as the link carries, so that they stay so and nothing is dropped.
// The CPU idles in between; what it did is what the soaker did not get. The base
// is the same traffic without scheduler, its sender's wake-ups included.
func (b *bench) throttled(ctx context.Context) error {
	cpu, err := startCPU(true)
	if err != nil {
		return err
	}
	defer cpu.Close()
	for _, n := range b.spec.Workloads {
		sender, err := b.sender(throttledFrame, b.ports(0, n))
		if err != nil {
			return err
		}
		err = b.throttledBy(ctx, n, sender, cpu)
		sender.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// throttledBy measures every scheduler with n workloads.
func (b *bench) throttledBy(ctx context.Context, n int, sender *traffic.Sender, cpu meter.CPU) error {
	base, _, err := b.paced(ctx, sender, cpu)
	if err != nil {
		return err
	}
	for _, c := range b.contend(b.growing(), deepLeaf, deepAQM, lastingAQM) {
		row := report.CostRow{Case: "throttled", Workloads: n, Active: n, BaseNs: base}
		err := b.measure(ctx, row, variant{c, throttledRate, nil}, func(s steering) (ns, delivered float64, err error) {
			if _, err := sender.Send(min(max(throttledLeast, throttledDepth*n), throttledMost)); err != nil {
				return 0, 0, err
			}
			if ns, delivered, err = b.paced(ctx, sender, cpu); err != nil {
				return 0, 0, err
			}
			lost, err := s.Drops()
			if err == nil && lost != nil && *lost > 0 {
				err = fmt.Errorf("%d packets were dropped: the queues are shorter than the measurement assumes", *lost)
			}
			return ns, delivered, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// paced offers what a throttled link carries, and returns the CPU time per
// packet that arrived, and how many arrived as a share of those offered.
func (b *bench) paced(ctx context.Context, sender *traffic.Sender, cpu meter.CPU) (ns, delivered float64, err error) {
	every := time.Duration(throttledBurst * throttledFrame * 8 * 1e9 / float64(throttledRate))
	if err := sender.SendPaced(int(throttledWarmUp/every)*throttledBurst, throttledBurst, every); err != nil {
		return 0, 0, err
	}
	return b.fastest(ctx, func() (packets int, took time.Duration, err error) {
		began := meter.Now()
		before, err := cpu.Sample()
		if err != nil {
			return 0, 0, err
		}
		if err := sender.SendPaced(b.spec.Packets, throttledBurst, every); err != nil {
			return 0, 0, err
		}
		after, err := cpu.Sample()
		busy := meter.Busy(before, after) * float64(runtime.NumCPU())
		return b.spec.Packets, time.Duration(busy * float64(meter.Now()-began)), err
	})
}

// growing are the schedulers that have something per workload.
func (b *bench) growing() []string {
	var list []string
	for _, name := range b.spec.Schedulers {
		if p, ok := peers.Find(name); !ok || p.Handle != 0 {
			list = append(list, name)
		}
	}
	return list
}

// ports of workloads from to to-1.
func (b *bench) ports(from, to int) []int {
	var list []int
	for w := from; w < to; w++ {
		list = append(list, costPort+w)
	}
	return list
}

// way makes the sender of a case.
type way func() (*traffic.Sender, error)

// veths sends from five workloads, each to one port.
func (b *bench) veths() (*traffic.Sender, error) { return b.fromFive(b.ports(0, 1)) }

// flows sends from five workloads, each to costQueues ports.
func (b *bench) flows() (*traffic.Sender, error) { return b.fromFive(b.ports(0, costQueues)) }

func (b *bench) fromFive(ports []int) (*traffic.Sender, error) {
	s := traffic.NewSender(b.spec.Size)
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

// base is the time without scheduler and without marking.
func (b *bench) base(ctx context.Context, send way) (float64, error) {
	ns, _, err := b.time(ctx, send)
	return ns, err
}

// variant is one measurement of a contender.
type variant struct {
	contender
	rate  policy.Rate     // of the link; costRate = never holds back
	ports []topology.Port // nil: the spreading program marks
}

// timing is a way to take the time per packet, and the share that arrived, with
// a scheduler at work.
type timing func(steering) (ns, delivered float64, err error)

// measure fills in a row: the scheduler with row.Workloads equal workloads, its
// marking included.
func (b *bench) measure(ctx context.Context, row report.CostRow, v variant, take timing) error {
	runtime.GC() // it is off while something is measured, and a thousand classes leave much behind
	v.policy.Weight = 1
	policies := slices.Repeat([]scenario.Policy{v.policy}, row.Workloads)
	at := site{host: b.net.Host, link: b.link(v.rate), ports: v.ports, leaf: peers.Leaf{Kind: v.leaf, Ports: b.ports(0, costQueues)}}
	s, kind, _, err := steer(ctx, at, v.scheduler, b.ask.Backend, scenario.Promises{Workloads: policies}, b.log)
	if err != nil {
		return err
	}
	var programs meter.Programs
	defer programs.Close()
	if v.ports == nil {
		if err := programs.Spread(b.net.Ports[b.spread].Ifindex, costPort, spreadTarget(v.scheduler)); err != nil {
			return err
		}
	}
	row.Scheduler, row.Backend = v.name, kind
	if row.NsPerPacket, row.Delivered, err = take(s); err != nil {
		return fmt.Errorf("%s with %d workloads: %w", row.Scheduler, row.Workloads, err)
	}
	b.rows = append(b.rows, row)
	return s.Close(ctx)
}

// spreadTarget is where a scheduler looks for the class.
func spreadTarget(scheduler string) meter.Target {
	if p, ok := peers.Find(scheduler); ok {
		return meter.Target{Handle: p.Handle}
	}
	shift := uint32(0)
	for mark.DefaultMask>>shift&1 == 0 {
		shift++
	}
	return meter.Target{Mark: true, Shift: shift}
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

// cost is the parent's part: run it and show the table. Options.Scheduler, if
// given, stands for the file's list.
func (o *Options) cost(ctx context.Context, l loaded) (exit int, err error) {
	var r report.CostResult
	if err := inSandbox(ctx, partCost, request{File: l.File, Data: l.data, Backend: o.Backend}, &r, o.Stderr); err != nil {
		return ExitBroken, err
	}
	if o.JSON {
		return ExitOK, report.CostJSON(o.Stdout, &r)
	}
	return ExitOK, report.CostTable(o.Stdout, &r)
}
