// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
	"weir/internal/lab/meter"
	"weir/internal/lab/peers"
	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
	"weir/internal/lab/topology"
	"weir/internal/lab/traffic"
)

const (
	// A throttled link carries full frames at throttledRate. Each class gets
	// throttledDepth of them to wait, all together at least throttledLeast, the
	// credits of two of qcon's periods, and at most throttledMost. Then as many
	// are offered as the link carries, throttledBurst at a time.
	throttledRate  policy.Rate = 100e6
	throttledFrame             = scenario.DefaultMTU + 14
	throttledDepth             = 8
	throttledLeast             = 500
	throttledMost              = 16000
	throttledBurst             = 8
	throttledTurns             = 2 // times that the sender falls back by a burst in a measurement
	// throttledWarmUp is longer than fair expects a quiet class again, which all
	// of them are when they get their first packets.
	throttledWarmUp = 1500 * time.Millisecond
)

// contender is a scheduler with what orders packets inside a workload.
type contender struct {
	name      string // in the table, SCHEDULER or SCHEDULER+INSIDE
	scheduler string
	leaf      string          // of HTB's and DRR's classes
	policy    scenario.Policy // of each workload of Weir's schedulers
	mark      bool            // the lab's program marks, for a scheduler that looks at no mark
}

// markSuffix ends the name of a contender that is only marked: pfifo+mark.
const markSuffix = "+mark"

// The queues below the classes of HTB and DRR.
const (
	fifoLeaf = "pfifo"
	aqmLeaf  = "fq_codel"
	deepLeaf = "pfifo limit 1000" // holds throttledLeast packets of one class
	// deepAQM looks at every packet and drops none.
	deepAQM = "fq_codel limit 1000 target 9s interval 10s"
)

// lastingAQM is deepAQM for Weir.
var lastingAQM = discipline.AQM{Target: 9 * time.Second, Interval: 10 * time.Second}

// plain is a scheduler with one FIFO per workload, whosever it is.
func plain(name, leaf string) contender {
	return contender{name: name, scheduler: name, leaf: leaf, policy: scenario.Policy{Weight: 1, Discipline: discipline.FIFO}}
}

// contend are the file's schedulers with FIFOs, and behind HTB and fair the same
// with flow queues and CoDel: how a scenario sets HTB up, and the product's
// default. Behind the floors, a FIFO of the kernel and the null BPF qdisc, the same with
// marking.
func (b *bench) contend(names []string, fifo, leaf string, aqm discipline.AQM) []contender {
	var list []contender
	for _, name := range names {
		list = append(list, plain(name, fifo))
		switch {
		case name == "htb" && b.haveLeaf(aqmLeaf):
			list = append(list, contender{name: "htb+" + aqmLeaf, scheduler: name, leaf: leaf})
		case name == "pfifo", name == "root-pfifo", name == "bpf-null":
			list = append(list, contender{name: name + markSuffix, scheduler: name, leaf: fifo, mark: true})
		case name == plan.SchedulerFair:
			list = append(list, contender{name: "fair+sfq", scheduler: name, policy: scenario.Policy{Weight: 1, Discipline: discipline.SFQ, AQM: aqm}})
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
	row := report.CostRow{Case: scenario.CostVeths, Workloads: costWorkloads, Active: costWorkloads, BaseNs: base}
	if err := b.markOnly(ctx, row); err != nil {
		return err
	}
	return b.fiveBy(ctx, row, b.veths, b.contend(b.spec.Schedulers, fifoLeaf, aqmLeaf, discipline.AQM{}))
}

func (b *bench) fiveBy(ctx context.Context, row report.CostRow, send way, list []contender) error {
	for _, c := range list {
		v := variant{contender: c, rate: costRate, ports: b.net.Ports[:costWorkloads]}
		if slices.Contains(b.spec.Functions, c.name) {
			v.profile = send
		}
		if err := b.measure(ctx, row, v, b.unthrottled(ctx, send)); err != nil {
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
	row := report.CostRow{Case: scenario.CostInside, Workloads: costWorkloads, Active: costWorkloads, BaseNs: base}
	return b.fiveBy(ctx, row, b.flows, b.contendInside(costRate, fifoLeaf, aqmLeaf, discipline.AQM{}))
}

// contendInside are HTB and fair, each with all that may order packets inside a
// workload, on a link of a rate.
func (b *bench) contendInside(rate policy.Rate, fifo, codel string, aqm discipline.AQM) []contender {
	var list []contender
	for _, name := range b.spec.Schedulers {
		switch name {
		case "htb":
			list = append(list, plain(name, fifo))
			for _, leaf := range []string{"sfq", "prio", "drr", codel} {
				kind, _, _ := strings.Cut(leaf, " ")
				list = append(list, contender{name: "htb+" + kind, scheduler: name, leaf: leaf})
			}
		case "htb-tuned": // with the leaf that most have
			kind, _, _ := strings.Cut(codel, " ")
			list = append(list, plain(name, fifo), contender{name: name + "+" + kind, scheduler: name, leaf: codel})
		case plan.SchedulerFair:
			list = append(list, plain(name, ""))
			for _, d := range []discipline.Name{discipline.SFQ, discipline.PQ, discipline.CBWFQ, discipline.LLQ} {
				inside := scenario.Policy{Weight: 1, Discipline: d, AQM: aqm, Queues: costQueuesOf(d, rate)}
				list = append(list, contender{name: name + "+" + string(d), scheduler: name, policy: inside})
			}
		}
	}
	return list
}

// costQueuesOf are the queues of a discipline, nil if it has none: one for each
// port. llq's strict one may send twice its part, so that nothing is policed.
func costQueuesOf(d discipline.Name, rate policy.Rate) []policy.Queue {
	if !d.HasQueues() {
		return nil
	}
	var list []policy.Queue
	for i := range costQueues {
		port := uint16(costPort + i)
		q := policy.Queue{Name: fmt.Sprintf("q%d", i+1), Match: []classify.Match{{UDP: []classify.PortRange{{First: port, Last: port}}}}}
		part := rate / costQueues / costWorkloads
		switch {
		case d == discipline.LLQ && i == 0:
			q.Rate = policy.Amount{Rate: 2 * part}
		case d.Weighs():
			q.Min = policy.Amount{Rate: part / 2}
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
	if err := markPorts(&programs, b.net.Ports[:costWorkloads]); err != nil {
		return err
	}
	row.Scheduler, row.Backend = "none, marked", "kernel"
	if row.NsPerPacket, row.Delivered, err = b.time(ctx, b.veths); err != nil {
		return err
	}
	b.rows = append(b.rows, row)
	return nil
}

// markPorts has the lab's program write a class at each port, where Weir's schedulers look
// for it.
func markPorts(programs *meter.Programs, ports []topology.Port) error {
	for w, port := range ports {
		if err := programs.Classify(port.Ifindex, uint32(w+1), spreadTarget("fair")); err != nil {
			return err
		}
	}
	return nil
}

// growth shows how the cost grows with the number of workloads: all of them
// sending, or one of them. They are behind one veth whose program tells them apart
// by port. Without a scheduler the number makes no difference, so there is one base:
// the least of all, since what the kernel does in the background only adds.
func (b *bench) growth(ctx context.Context) error {
	base := math.Inf(1)
	for _, n := range b.spec.Workloads {
		for _, c := range b.growthCases(n) {
			ns, err := b.base(ctx, b.spreadTo(c.ports))
			if err != nil {
				return err
			}
			base = min(base, ns)
		}
	}
	for _, n := range b.spec.Workloads {
		for _, c := range b.growthCases(n) {
			for _, by := range b.contend(b.growing(), fifoLeaf, aqmLeaf, discipline.AQM{}) {
				row := report.CostRow{Case: c.name, Workloads: n, Active: len(c.ports), BaseNs: base}
				if err := b.measure(ctx, row, variant{contender: by, rate: costRate}, b.unthrottled(ctx, b.spreadTo(c.ports))); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

type growthCase struct {
	name  string
	ports []int
}

func (b *bench) growthCases(n int) []growthCase {
	list := []growthCase{{scenario.CostAll, b.ports(0, n)}, {scenario.CostOne, b.ports(n/2, n/2+1)}}
	return slices.DeleteFunc(list, func(c growthCase) bool { return !b.wants(c.name) })
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
	if b.wants(scenario.CostFull) {
		if err := b.full(ctx, cpu); err != nil {
			return err
		}
	}
	if !b.wants(scenario.CostThrottled) {
		return nil
	}
	base := math.Inf(1)
	for _, n := range b.spec.Workloads {
		if base, err = b.pacedBase(ctx, n, base, cpu); err != nil {
			return err
		}
	}
	for _, n := range b.spec.Workloads {
		if err := b.throttledBy(ctx, n, base, cpu); err != nil {
			return err
		}
	}
	return nil
}

// pacedBase is the least of `least` and what n workloads' packets take without a
// scheduler. The number makes no difference, but the kernel's own timers do.
func (b *bench) pacedBase(ctx context.Context, n int, least float64, cpu meter.CPU) (float64, error) {
	sender, err := b.sender(throttledFrame, b.ports(0, n))
	if err != nil {
		return 0, err
	}
	defer sender.Close()
	b.calm()
	base, _, err := b.paced(ctx, sender, cpu)
	return min(base, least), err
}

// throttledBy measures every scheduler with n workloads.
func (b *bench) throttledBy(ctx context.Context, n int, base float64, cpu meter.CPU) error {
	sender, err := b.sender(throttledFrame, b.ports(0, n))
	if err != nil {
		return err
	}
	defer sender.Close()
	row := report.CostRow{Case: scenario.CostThrottled, Workloads: n, Active: n, BaseNs: base}
	return b.waiting(ctx, row, crowd{sender, sender, nil}, cpu, b.contend(b.growing(), deepLeaf, deepAQM, lastingAQM))
}

// full is inside on a link that is full: what the queues inside a workload cost
// while packets wait in them.
func (b *bench) full(ctx context.Context, cpu meter.CPU) error {
	all, err := b.fromFive(throttledFrame, b.ports(0, costQueues))
	if err != nil {
		return err
	}
	defer all.Close()
	// Not into llq's strict queue, which would be policed.
	first, err := b.fromFive(throttledFrame, b.ports(1, costQueues))
	if err != nil {
		return err
	}
	defer first.Close()
	row := report.CostRow{Case: scenario.CostFull, Workloads: costWorkloads, Active: costWorkloads}
	b.calm()
	if row.BaseNs, _, err = b.paced(ctx, all, cpu); err != nil {
		return err
	}
	return b.waiting(ctx, row, crowd{first, all, b.net.Ports[:costWorkloads]}, cpu,
		b.contendInside(throttledRate, deepLeaf, deepAQM, lastingAQM))
}

// crowd is who sends on a link that is full: what fills the queues, what keeps
// them so, and behind which ports it is; nil: the one whose program spreads.
type crowd struct {
	fill, keep *traffic.Sender
	ports      []topology.Port
}

// waiting measures contenders while packets wait.
func (b *bench) waiting(ctx context.Context, row report.CostRow, who crowd, cpu meter.CPU, list []contender) error {
	for _, c := range list {
		err := b.measure(ctx, row, variant{contender: c, rate: throttledRate, ports: who.ports}, func(s steering) (ns, delivered float64, err error) {
			if _, err := who.fill.Send(min(max(throttledLeast, throttledDepth*row.Workloads), throttledMost)); err != nil {
				return 0, 0, err
			}
			if ns, delivered, err = b.paced(ctx, who.keep, cpu); err != nil {
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
	// What a packet takes depends on how the sender's wake-ups meet the scheduler's. A sender
	// that is a little late each time meets them in every way alike.
	every += every * throttledTurns * throttledBurst / time.Duration(b.spec.Packets)
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
