// SPDX-License-Identifier: Apache-2.0

// Package dataplane makes a kernel match a plan, and reads what the kernel
// counted.
//
// A Backend serves one link. There are two: package dataplane/bpf (a BPF qdisc,
// Linux 6.16 and later with CONFIG_NET_SCH_BPF) and package dataplane/tc (HTB,
// anywhere else). Both have the same shape: Set may be called again and again
// with whatever is wanted and changes only what differs; Close leaves the kernel
// as it is, working; Cleanup puts back what was there before Weir came.
//
// What it does not do: decide anything. Which workloads exist and what they were
// promised is decided above, in package agent, and written down in a plan.State.
package dataplane

import (
	"context"
	"errors"
	"time"

	"weir/internal/core/delay"
	"weir/internal/core/plan"
	"weir/internal/core/policy/discipline"
)

// Counters is what the kernel counted for one class since the class was made.
// Enqueued = Sent + the sum of Drops + Backlog, for packets and for bytes.
type Counters struct {
	EnqueuedPackets, EnqueuedBytes uint64            // offered to the class
	SentPackets, SentBytes         uint64            // given to the device
	BacklogPackets, BacklogBytes   uint64            // waiting now
	Drops                          map[string]uint64 // packets by reason, e.g. "class_packets"
	DroppedBytes                   uint64
	// Waited is for how long packets of the class waited, and WaitedBytes what it sent
	// meanwhile. A packet that is alone does not count. See LinkCounters.WaitsWhole.
	Waited      time.Duration
	WaitedBytes uint64
	Marked      uint64 // packets that were marked with CE (ECN) as they came; few of them are dropped later
	Thinned     uint64 // TCP ACKs that gave way to newer ones; they count nowhere else
	// Delays is how long the packets that were sent had waited; nil where the backend does not
	// measure it. Its counts may begin anew while the others go on.
	Delays *delay.Histogram
	// Queues are the same of each of plan.Class.Queues, in their order; nil where
	// there are none, or where the backend does not count them. A packet that is
	// dropped before it has a queue is in the class's counters only.
	Queues []QueueCounters
}

// QueueCounters is what the kernel counted for one queue inside a class.
type QueueCounters struct {
	EnqueuedPackets, EnqueuedBytes uint64
	SentPackets, SentBytes         uint64
	BacklogPackets, BacklogBytes   uint64
	Drops                          map[string]uint64 // packets by reason
	DroppedBytes                   uint64
	Delays                         *delay.Histogram
}

// LinkCounters is a link's counters at one instant.
type LinkCounters struct {
	At      time.Time
	Classes map[plan.ClassID]Counters
	// Leaving are classes that the plan no longer has: those in which packets still wait, and
	// those that have gone since the reading before, for the last time.
	Leaving []Leaving
	// Sent is what all classes that there ever were have sent.
	Sent Sent
	// WaitsWhole says that Counters.Waited is all the time in which packets waited. Otherwise
	// it is the part that is certain.
	WaitsWhole bool
	// Changes is another number, never 0, in each snapshot whose counters may differ from those
	// of the one before, or in which packets wait; 0 where the backend does not tell.
	Changes uint64
}

// Stands reports whether no counter has moved since an earlier snapshot.
func (s LinkCounters) Stands(before LinkCounters) bool {
	return s.Changes != 0 && before.Changes == s.Changes
}

// Leaving is a class that the plan no longer has.
type Leaving struct {
	ID plan.ClassID
	Sent
	// Gone says that the kernel no longer has the class: one of the same number counts anew.
	Gone bool
}

// Sent is what was given to the device.
type Sent struct{ Packets, Bytes uint64 }

// Options decide how a backend takes over a link.
type Options struct {
	Force    bool   // replace a qdisc that a user or another program set on purpose
	Switch   bool   // replace one that Open vSwitch has set, whose database leaves the device to Weir
	MarkMask uint32 // bits of skb->mark that carry the class, too; 0 = none
	Cilium   bool   // it is on this host (plan.Carrier)
	Small    bool   // tables for plan.SmallClasses classes, where the backend has tables
	BPFFS    string // where objects are pinned; "" = /sys/fs/bpf/weir
	StateDir string // where the former qdisc is remembered; "" = /var/lib/weir
	// Inward says that the device is the IFB that stands for the ingress of a link:
	// ports are what goes into them, and it is carried there. nil = they are what
	// comes in by them.
	Inward *Inward
	// Zone says that the device is the IFB that stands for a zone of a link: what comes there
	// has its class, and no socket sends to it.
	Zone bool
	// Wire is what the link takes of each frame beyond what the device of the qdisc shows, in
	// bytes: the tags of its VLANs, less the Ethernet header that it does not have.
	Wire int
	// Awaited are devices that are links, of which one may not be there now: a Cleanup of what
	// had such a name before leaves its object to the next of that name.
	Awaited []string
	// Back is, with Zone, the index of the second end where the device is the first one of a
	// pair; 0 = it is an IFB.
	Back int
}

// Carrier returns where packets carry their class.
func (o Options) Carrier() plan.Carrier {
	return plan.Carrier{Mask: plan.Mask(o.MarkMask), Cilium: o.Cilium}
}

// IFB reports whether the device is one of Weir's IFBs.
func (o Options) IFB() bool { return o.Inward != nil || o.Zone }

// Inward is what reaches an IFB, or a pair.
type Inward struct {
	IFB     int           // index of the device, or of a pair's first end, which has the qdisc
	Back    int           // index of a pair's second end, by which packets come back; 0 = it is an IFB
	Sources []int         // indices of the link and of what stands on it, such as VLANs and its bridge
	Local   bool          // packets of this host and its other workloads as well
	Area    *CompiledArea // whose packets; nil = everybody's
}

// Follower is a Backend whose setting follows something of the host, such as the addresses of a
// device that a zone means by connected.
type Follower interface {
	// Moved reports whether that is other than at the last Set; a Set follows it. It is as
	// cheap as Missing.
	Moved() bool
}

// Backend steers one link.
type Backend interface {
	// Name is "bpf" or "tc".
	Name() string
	// Gaps are the promises that this backend cannot hold on this kernel, one
	// plain sentence each; empty if it holds all.
	Gaps() []string
	// Abilities are what of a policy the backend holds on this kernel. The agent refuses
	// requests for the rest.
	Abilities() Abilities
	// Set makes the kernel match want. It adopts what an earlier process left,
	// changes only what differs. A change of policy drops no packet; another
	// scheduler, mask or build replaces the qdisc, and what waits there is lost.
	// A class that is removed is drained first, as far as the backend can. If it fails,
	// the kernel holds either the old or the new state of each object, and
	// calling it again is safe.
	Set(ctx context.Context, want plan.State) error
	// Pace makes the kernel match the intervals of want's classes and queues, and
	// nothing else. It is what a controller calls every second, so it is cheap; want
	// differs from what Set was told last by intervals alone.
	Pace(ctx context.Context, want plan.State) error
	// Missing says what of the last Set or Pace the kernel no longer holds because
	// another program removed or changed it, one phrase each, as "class 3 (web) is
	// gone". It changes nothing; a Set mends it. It is cheap enough for every second.
	Missing() ([]string, error)
	// State is what the kernel holds now, as far as Weir made it.
	State() (plan.State, error)
	// Counters reads every class.
	Counters() (LinkCounters, error)
	// Run does what the backend has to do over time (the tc fallback computes
	// HTB's rates anew as workloads come and go) and returns when ctx ends.
	Run(ctx context.Context) error
	// Close lets go of handles; the kernel goes on scheduling.
	Close() error
	// Cleanup removes everything Weir made for this link and puts the former
	// qdisc back. It works without a preceding Set.
	Cleanup(ctx context.Context) error
}

// Abilities say which parts of a policy or of a link's settings a backend lacks. The
// zero value lacks nothing. What a backend holds roughly, such as a link's overhead per
// frame, is a Gap only.
type Abilities struct {
	NoBurst  bool // no workload sends above its max
	NoGroups bool // each member of a group counts for itself on the link
	NoQueues bool // packets do not carry a queue (plan.Carrier.Queues)
	// NoQueueGoodput: where the goodput of a cgroup's sockets is measured, their packets do not
	// carry their queue yet, for which a mark is needed.
	NoQueueGoodput bool
	OneQueue       bool // all workloads have Discipline and AQM, whatever they ask for
	// Discipline and AQM count with OneQueue.
	Discipline discipline.Name
	AQM        discipline.AQM
	// Scheduler is the backend's own, which divides a link as plan.SchedulerFair does;
	// "" = it has all of plan.Schedulers.
	Scheduler          string
	NoNegativeOverhead bool // a link's negative overhead counts as 0
	NoByteLimit        bool // a workload's limit in bytes is held as a number of full frames
}

// Errors that callers tell apart with errors.Is. Each is wrapped in a message
// that names the device and says what to do next.
var (
	ErrForeignQdisc = errors.New("device has a qdisc that Weir did not set")
	ErrNoSupport    = errors.New("kernel cannot run this backend")
	ErrNoDevice     = errors.New("no such network device")
	ErrPrivilege    = errors.New("not permitted")
)
