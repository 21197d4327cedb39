// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf/btf"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/policy/framing"
)

// Constants of bpf/weir.h that the object's type information does not carry;
// TestConstants holds them against the header.
const (
	costOne      = 1024 // WEIR_COST_ONE
	nsShift      = 20   // WEIR_NS_SHIFT
	ringSize     = 1024 // WEIR_RING
	ringLink     = 0xffff
	turns        = 8    // WEIR_TURNS
	creditPeriod = 30e6 // WEIR_CREDIT_PERIOD_NS
)

// How much may wait, where the plan does not say. A queue holds what its link
// carries in a tenth of a second: enough for a TCP flow over the whole internet,
// little enough that no packet waits for seconds.
const (
	defaultPackets   = 4096
	defaultQueueTime = 0.1 // seconds of the link's capacity
	leastQueue       = 128 << 10
	mostQueue        = 64 << 20
	defaultLinkBytes = 128 << 20
)

// Inside a class: a queue with rules holds 1,000 packets, as Open vSwitch's and
// tc's do; llq's strict queue may be ahead of its rate by what a sender's timer
// makes uneven, or by a few frames.
const (
	queuePackets = 1000
	policeBurst  = 10_000_000 // ns
	policeFrames = 4
)

// How far ahead of the line the scheduler `fair` sends before it waits for a
// timer: batchFrames full frames, as far as that is between the two bounds. At
// 100 Mbit/s two frames: one timer for two packets, and no class's packet waits
// behind more than a quarter of a millisecond of others. Above 4 Gbit/s a timer
// is spread over enough packets, and a shorter batch is better for senders with
// a small window. While no packet is urgent, bulkFactor times as much; cpuFactor times
// where the link favours CPU: 3.2 ms at 100 Mbit/s, which a workload may wait for each of
// the others.
const (
	batchFrames = 64
	leastBatch  = 50_000  // ns
	mostBatch   = 200_000 // ns
	bulkFactor  = 4
	cpuFactor   = 16
)

// nsCost is the time of one byte at r, in ns << nsShift; 0 for no rate.
func nsCost(r policy.Rate) uint64 {
	if r == 0 {
		return 0
	}
	const byteNs = 8e9
	hi, lo := bits.Mul64(byteNs, 1<<nsShift)
	q, _ := bits.Div64(hi, lo, uint64(r))
	return max(q, 1)
}

// burstTime is how long c's max takes to carry its burst, in ns.
func burstTime(c plan.Class) uint64 {
	if c.Max == 0 {
		return 0
	}
	return uint64(float64(c.Burst) * 8e9 / float64(c.Max))
}

// inTime is how many bytes r carries in ns nanoseconds.
func inTime(r policy.Rate, ns uint64) uint64 {
	hi, lo := bits.Mul64(uint64(r), ns)
	if hi >= 8e9 {
		return 1<<64 - 1
	}
	q, _ := bits.Div64(hi, lo, 8e9)
	return q
}

// batches returns how long the link's batches are, short ones and long ones, in ns: always
// short, or always longer than the long ones, if it favours that.
func batches(l plan.Link) (batch, bulk uint64) {
	batch = min(max(batchFrames*policy.FullFrame*8e9/uint64(max(l.Capacity, 1)), leastBatch), mostBatch)
	switch l.Favour {
	case plan.FavourLatency:
		return batch, batch
	case plan.FavourCPU:
		return cpuFactor * batch, cpuFactor * batch
	}
	return batch, bulkFactor * batch
}

// favourOf returns what a link favours whose configuration is in the kernel.
func favourOf(l qdiscWeirLinkConfig) string {
	for _, favour := range []string{plan.FavourLatency, plan.FavourCPU} {
		batch, bulk := batches(plan.Link{Capacity: policy.Rate(l.CapacityBps), Favour: favour})
		if l.BatchNs == batch && l.BulkBatchNs == bulk {
			return favour
		}
	}
	return plan.FavourNeither
}

// linkConfig is l as the kernel side wants it. maxWeight is the largest weight
// on the link: it sets the scale of the share wheel, one bucket of which is one
// frame of the class with that weight.
func linkConfig(l plan.Link, maxWeight uint32) qdiscWeirLinkConfig {
	batch, bulk := batches(l)
	bucket := uint64(policy.FullFrame) * costOne * policy.MaxWeight / uint64(max(maxWeight, 1))
	limit := l.Limit.Bytes
	if limit == 0 {
		limit = defaultLinkBytes
	}
	return qdiscWeirLinkConfig{
		LinkCost:    nsCost(l.Capacity),
		BatchNs:     batch,
		Quantum:     max(inTime(l.Capacity, batch), 1),
		BulkBatchNs: bulk,
		BulkQuantum: max(inTime(l.Capacity, bulk), 1),
		ShareShift:  uint64(bits.Len64(bucket) - 1),
		TotalCredit: inTime(l.Capacity, creditPeriod),
		LimitBytes:  limit,
		Overhead:    int64(l.Framing.Overhead),
		Least:       uint32(max(l.Framing.Least, 1)),
		Cells:       uint32(slices.Index(cells, l.Framing.Cells)),
		FromIp:      bit(l.Framing.FromIP),
		Framed:      bit(l.Framing != framing.Framing{}),
		CapacityBps: uint64(l.Capacity),
		ReservePpm:  uint64(l.Reserve*1e6 + 0.5),
	}
}

// cells are the names of WEIR_FRAMES, WEIR_ATM, WEIR_PTM.
var cells = []framing.Cells{framing.Frames, framing.ATM, framing.PTM}

func bit(on bool) uint8 {
	if on {
		return 1
	}
	return 0
}

// tagged adds what a device takes for its own VLANs, in bytes of each frame, less a header that it
// lacks, to what is said of what the kernel counts. A framing that begins at the IP header says
// all.
func tagged(cfg qdiscWeirLinkConfig, tag int) qdiscWeirLinkConfig {
	if tag != 0 && cfg.FromIp == 0 {
		cfg.Tag, cfg.Framed = int32(tag), 1
		cfg.Overhead += int64(tag)
	}
	return cfg
}

// framingOf is the opposite of linkConfig and tagged.
func framingOf(cfg qdiscWeirLinkConfig) framing.Framing {
	f := framing.Framing{Overhead: int(cfg.Overhead) - int(cfg.Tag), FromIP: cfg.FromIp != 0}
	if cfg.Least > 1 {
		f.Least = int(cfg.Least)
	}
	if int(cfg.Cells) < len(cells) {
		f.Cells = cells[cfg.Cells]
	}
	return f
}

// classConfig is c as the kernel side wants it.
func classConfig(c plan.Class, l plan.Link) qdiscWeirClassConfig {
	cfg := qdiscWeirClassConfig{
		ShareCost:    costOne * policy.MaxWeight / uint64(max(c.Weight, 1)),
		FloorCost:    nsCost(c.Min),
		CeilCost:     nsCost(c.Max),
		CeilBurst:    burstTime(c),
		BurstBytes:   c.Burst,
		Interval:     uint64(c.Interval),
		Weight:       uint64(c.Weight),
		MinCredit:    inTime(c.Min, creditPeriod),
		MaxCredit:    inTime(c.Max, creditPeriod),
		LimitPackets: uint64(c.Limit.Packets),
		LimitBytes:   c.Limit.Bytes,
		MinBps:       uint64(c.Min),
		MaxBps:       uint64(c.Max),
		ReserveBps:   uint64(c.Reserve),
	}
	if cfg.LimitPackets == 0 {
		cfg.LimitPackets = defaultPackets
	}
	if cfg.LimitBytes == 0 {
		tenth := uint64(float64(l.Capacity) / 8 * defaultQueueTime)
		cfg.LimitBytes = min(max(tenth, leastQueue), mostQueue)
	}
	copy(cfg.Name[:len(cfg.Name)-1], c.Name)
	disciplineConfig(&cfg, c)
	return cfg
}

// disciplines are the kernel side's numbers; WEIR_SFQ in its enum is sfq here.
var disciplines = sync.OnceValue(func() map[discipline.Name]uint64 {
	spec, err := loadQdisc()
	if err != nil {
		panic(err) // it is part of this program
	}
	return numbersOf[discipline.Name](spec.Types, "weir_discipline", "WEIR_")
})

// numbersOf returns the values of an enum of bpf/weir.h by their names, which lose the
// prefix and become lower case.
func numbersOf[Name ~string](types *btf.Spec, name, prefix string) map[Name]uint64 {
	var enum *btf.Enum
	if err := types.TypeByName(name, &enum); err != nil {
		panic(err) // it is part of this program
	}
	numbers := map[Name]uint64{}
	for _, v := range enum.Values {
		numbers[Name(strings.ToLower(strings.TrimPrefix(v.Name, prefix)))] = v.Value
	}
	return numbers
}

// schedulersOf returns the kernel's numbers of an object's schedulers.
func schedulersOf(types *btf.Spec) map[string]uint64 {
	return numbersOf[string](types, "weir_scheduler", "WEIR_SCHED_")
}

// disciplineName is the discipline with the kernel side's number n; "" for that of
// a class that does not exist.
func disciplineName(n uint64) discipline.Name {
	for name, number := range disciplines() {
		if number == n && n != 0 {
			return name
		}
	}
	return ""
}

// disciplineConfig writes what orders c's own packets into cfg, and its place
// among groups. A group has no packets of its own.
func disciplineConfig(cfg *qdiscWeirClassConfig, c plan.Class) {
	cfg.Parent = uint64(c.Parent)
	if c.Group {
		cfg.Group = 1
		return
	}
	cfg.Discipline = disciplines()[c.Discipline.OrDefault()]
	cfg.AqmTarget, cfg.AqmInterval, cfg.CeAbove = uint64(c.AQM.Target), uint64(c.AQM.Interval), ceAbove(c.AQM)
	if c.AQM.ACKFilter {
		cfg.AckFilter = 1
	}
	cfg.Queues = uint64(len(c.Queues))
	heaviest := policy.Rate(1)
	for i, q := range c.Queues {
		heaviest = max(heaviest, q.Weight)
		cfg.OtherQueue = uint64(i)
	}
	if other := slices.IndexFunc(c.Queues, func(q plan.Queue) bool { return len(q.Match) == 0 }); other >= 0 {
		cfg.OtherQueue = uint64(other)
	}
	if c.Discipline.HasQueues() && len(c.Queues) > 0 && c.Queues[cfg.OtherQueue].Interval == 0 && c.Isolation != discipline.NoIsolation {
		cfg.OtherQueue |= turns
	}
	for i := range cfg.Queue {
		to := &cfg.Queue[i]
		to.Cost, to.LimitPackets = costOne, queuePackets
		if i >= len(c.Queues) {
			continue
		}
		q := c.Queues[i]
		if q.Weight > 0 {
			to.Cost, to.WeightBps = uint64(float64(costOne)*float64(heaviest)/float64(q.Weight)), uint64(q.Weight)
		}
		if q.LimitPackets > 0 {
			to.LimitPackets = uint64(q.LimitPackets)
		}
		to.Interval, to.ReserveBps = uint64(q.Interval), uint64(q.Reserve)
		if q.Interval != 0 {
			cfg.PacedQueues |= 1 << i
		}
		copy(to.Name[:len(to.Name)-1], q.Name)
		to.Priority = uint64(q.Priority)
		for j, other := range c.Queues {
			if i == j || q.Priority != 0 && q.Priority == other.Priority {
				to.Peers |= 1 << j
			}
		}
	}
	if c.Discipline == discipline.LLQ && len(c.Queues) > 0 {
		rate := c.Queues[0].Rate
		cfg.PoliceBps, cfg.PoliceCost = uint64(rate), nsCost(rate)
		cfg.PoliceBurst = max(policeBurst, policeFrames*policy.FullFrame*cfg.PoliceCost>>nsShift)
	}
}

// ceAboveAll is ECN_ALWAYS_BELOW in bpf/ecn.h: CoDel alone marks.
const ceAboveAll = 1<<64 - 1

// ceAbove returns what the kernel side knows of ECN.
func ceAbove(a plan.AQM) uint64 {
	switch {
	case !a.ECN || a.Target == 0:
		return 0
	case a.CEThreshold == 0:
		return ceAboveAll
	}
	return uint64(a.CEThreshold)
}

func planAQM(cfg qdiscWeirClassConfig) plan.AQM {
	a := plan.AQM{Target: time.Duration(cfg.AqmTarget), Interval: time.Duration(cfg.AqmInterval), ECN: cfg.CeAbove != 0, ACKFilter: cfg.AckFilter != 0}
	if cfg.CeAbove != ceAboveAll {
		a.CEThreshold = time.Duration(cfg.CeAbove)
	}
	return a
}

// planClass is the class that cfg was made of, as far as cfg tells: defaults
// stand there as numbers, a long name is cut off, and the rules of the queues are
// elsewhere (see insideOf).
func planClass(id plan.ClassID, cfg qdiscWeirClassConfig) plan.Class {
	c := plan.Class{
		ID: id, Name: text(cfg.Name[:]), Weight: uint32(cfg.Weight),
		Min: policy.Rate(cfg.MinBps), Max: policy.Rate(cfg.MaxBps), Burst: cfg.BurstBytes,
		Reserve: policy.Rate(cfg.ReserveBps), Interval: plan.Interval(cfg.Interval),
		Limit:      plan.Limit{Packets: uint32(cfg.LimitPackets), Bytes: cfg.LimitBytes},
		Discipline: disciplineName(cfg.Discipline),
		Parent:     plan.ClassID(cfg.Parent),
		Group:      cfg.Group != 0,
		AQM:        planAQM(cfg),
	}
	for i := range min(cfg.Queues, policy.MaxQueues) {
		q := cfg.Queue[i]
		c.Queues = append(c.Queues, plan.Queue{
			Name: text(q.Name[:]), Weight: policy.Rate(q.WeightBps), LimitPackets: uint32(q.LimitPackets),
			Priority: uint8(q.Priority), Reserve: policy.Rate(q.ReserveBps), Interval: plan.Interval(q.Interval),
		})
	}
	if len(c.Queues) > 0 {
		c.Queues[0].Rate = policy.Rate(cfg.PoliceBps)
	}
	if c.Group {
		c.Discipline = discipline.SFQ // as the plan has it; nothing is ordered there
	}
	return c
}

// text is what a C string holds.
func text(b []byte) string {
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	return string(b)
}

// dropReasons names the reasons for a drop, by their number in the kernel.
var dropReasons = [...]string{
	qdiscWeirDropWEIR_DROP_CLASS_PACKETS: "class_packets",
	qdiscWeirDropWEIR_DROP_CLASS_BYTES:   "class_bytes",
	qdiscWeirDropWEIR_DROP_LINK_PACKETS:  "link_packets",
	qdiscWeirDropWEIR_DROP_LINK_BYTES:    "link_bytes",
	qdiscWeirDropWEIR_DROP_RESET:         "reset",
	qdiscWeirDropWEIR_DROP_QUEUE_PACKETS: "queue_packets",
	qdiscWeirDropWEIR_DROP_POLICED:       "policed",
	qdiscWeirDropWEIR_DROP_AQM:           "aqm",
}
