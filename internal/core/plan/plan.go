// SPDX-License-Identifier: Apache-2.0

// Package plan says what the kernel should look like, and what has to change
// for it to look so.
//
// A plan is plain data: one State per link, made of the link itself, one Class
// per workload or group and one Port per device whose packets belong to a class.
// Three functions make and compare it:
//
//	Number  gives each workload and group of a host its class number, the same on
//	        every link
//	Build   turns a link, its workloads and their numbers into the State that is
//	        wanted, and refuses what cannot be held (admission)
//	Diff    lists the changes between two States in an order in which each is
//	        safe to make
//
// They are functions of their arguments: no clock, no I/O, nothing remembered.
// The data plane (package dataplane) makes a kernel match a State.
//
// Example: link eth0 of 100 Mbit/s, workloads web (weight 3, min 20 Mbit/s) and
// batch (weight 1) become classes 1 and 2; veth1a2b is a port of class 1. When
// batch stops, Diff says "remove interface veth3c4d of batch" and then "remove batch".
package plan

import (
	"cmp"
	"reflect"
	"time"

	"weir/internal/core/policy"
	"weir/internal/core/policy/admission"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/policy/framing"
)

// ClassID numbers a workload's class on every link of a host. 0 is the host:
// all packets without a mark. The marking program writes the number into
// the class bits of skb->mark.
type ClassID uint16

// MaxClasses is the largest number of classes on a link, the host's class included;
// WEIR_MAX_CLASSES in bpf/weir.h is the same number.
const MaxClasses = 4096

// SmallClasses is the same in the profile "small"; WEIR_MAX_CLASSES where WEIR_SMALL is
// defined.
const SmallClasses = 512

// Profiles are the sizes of the kernel's tables of a link, and of the agent's own memory.
const (
	ProfileFull  = "full"
	ProfileSmall = "small" // for boards with little memory
)

// Profiles lists them.
var Profiles = []string{ProfileFull, ProfileSmall}

// ClassesOf returns how many classes, class 0 included, a link has in a profile.
func ClassesOf(profile string) int {
	if profile == ProfileSmall {
		return SmallClasses
	}
	return MaxClasses
}

// Scheduler names, as in a link's configuration.
const (
	SchedulerFair = "fair"
	SchedulerQcon = "qcon"
	SchedulerAncs = "ancs"
)

// Schedulers are all schedulers, the default first.
var Schedulers = []string{SchedulerFair, SchedulerQcon, SchedulerAncs}

// Kinds of backends, as the configuration names them.
const (
	BackendAuto = "auto" // the BPF qdisc where the kernel has it, else HTB
	BackendBPF  = "bpf"  // the BPF qdisc
	BackendTC   = "tc"   // HTB
)

// What a link favours (Link.Favour), where the two are at odds: the scheduler fair's batches
// are short or long.
const (
	FavourNeither = ""        // short while packets that should not wait are frequent
	FavourLatency = "latency" // always short
	FavourCPU     = "cpu"     // always long
)

// Favours are the names of what a link can favour, the default first: "neither" stands for
// FavourNeither.
var Favours = []string{"neither", FavourLatency, FavourCPU}

// Favour returns what a link with this name of Favours favours; any other text is returned
// as it is.
func Favour(name string) string {
	if name == Favours[0] {
		return FavourNeither
	}
	return name
}

// Backends are all kinds of backends, the default first.
var Backends = []string{BackendAuto, BackendBPF, BackendTC}

// Link is one network device in one direction with a capacity, or a zone of it with a capacity
// of its own.
type Link struct {
	Device    string           // name of the network device, e.g. "eth0"
	Zone      string           // "" = all that no zone with a capacity of its own takes
	Direction policy.Direction // policy.Ingress, or "" for egress
	Capacity  policy.Rate      // wire bits per second that its classes share
	Reserve   float64          // share of Capacity that mins may take, 0 < Reserve <= 1
	Scheduler string           // one of Schedulers
	Favour    string           // FavourNeither, or what fair's batches favour
	Framing   framing.Framing  // what the line takes of each frame
	Limit     Limit            // what may wait on the whole link
	Class     ClassID          // of a zone's egress: its class on the device's own link
	// Part is the zone by whose name policies say what differs here, "" = none. Aside says that
	// it is not the default zone (policy.InZone).
	Part  string
	Aside bool
}

// Overhead returns how many bytes the line takes for a full frame beyond those that the kernel
// counts of it. It may be negative.
func (l Link) Overhead() int {
	return l.Framing.On(policy.FullFrame, framing.Ethernet) - policy.FullFrame
}

// Place returns the device, and the zone if it is one of its zones: "eth0", "eth0 wan".
func (l Link) Place() string {
	if l.Zone != "" {
		return l.Device + " " + l.Zone
	}
	return l.Device
}

// Name returns the name that tells the link from others: "eth0", "eth0 ingress", "eth0 wan
// ingress".
func (l Link) Name() string {
	if l.Direction == policy.Ingress {
		return l.Place() + " ingress"
	}
	return l.Place()
}

// Admission returns the rule by which the link takes mins.
func (l Link) Admission() admission.Bound {
	return admission.Bound{Capacity: l.Capacity, Reservable: l.Reserve}
}

// Limit bounds a queue. Zero means the data plane's default.
type Limit struct {
	Packets uint32
	Bytes   uint64
}

// Class is one workload's place on a link, every rate resolved to bits per second.
type Class struct {
	ID     ClassID
	Name   string      // the workload's name, for people
	Weight uint32      // 1 to policy.MaxWeight
	Min    policy.Rate // guaranteed, 0 = none; a group's is at least its members' together
	Max    policy.Rate // ceiling, 0 = none
	Burst  uint64      // bytes that it may send above Max after it was quiet
	Limit  Limit
	// Reserve is the goodput that a controller holds, bits per second of payload; 0 =
	// none. Min covers what it takes on the wire. Interval is by what it is held.
	Reserve  policy.Rate
	Interval Interval

	Discipline discipline.Name      // never ""
	Queues     []Queue              // of pq, cbwfq and llq
	AQM        AQM                  // resolved
	Isolation  discipline.Isolation // of sfq, and of the queue that takes the rest
	DSCP       *uint8               // written into packets whose queue has none of its own
	// Parent is the class of the group that this one is in; 0 = none.
	Parent ClassID
	// Group says that this class is a group: no packet carries its number, its
	// rates bind the classes that name it as their parent together.
	Group bool
}

// Equal reports whether c and other are the same in every respect.
func (c Class) Equal(other Class) bool { return reflect.DeepEqual(c, other) }

// Queue is one queue inside a class, every rate resolved to bits per second.
type Queue struct {
	Name string
	Rate policy.Rate // llq's first: policed to, 0 = not
	// Weight is in cbwfq and llq the queue's share among those that are not strict:
	// its min, or 1 if they have none. It is never 0 there; the strict queue's means
	// nothing.
	Weight       policy.Rate
	Match        []classify.Match
	DSCP         *uint8
	LimitPackets uint32 // 0 = default
	// Reserve and Interval are as in Class, for this queue. An Interval without a Reserve is
	// the queue's max.
	Reserve  policy.Rate
	Interval Interval
	Priority uint8 // pq: the same as its neighbours' = they take turns; 0 = its place
}

// AQM is CoDel's target and interval; Target 0 = off.
type AQM struct {
	Target, Interval time.Duration
	// ECN says that packets that can be marked are, in place of a drop. Behind one that
	// waited for longer than CEThreshold each such packet is marked; 0 = none is for that.
	ECN         bool
	CEThreshold time.Duration
	ACKFilter   bool // a TCP ACK that waits gives way to a newer one of its connection
}

// Port is a device on the host whose incoming packets (what a container or a
// VM sends) are marked with a class; or a cgroup, whose processes' packets are.
type Port struct {
	Device  string // name on the host, e.g. "veth1a2b"
	Ifindex int    // identity: names can be taken over by another device
	Cgroup  string // folder of a cgroup of version 2; Device and Ifindex say nothing then
	// Sockets says of a cgroup that its workload sends by devices, so that its packets are not
	// marked one by one: the class counts for those that come to the link by no device, of a
	// macvlan that the workload has made on the link.
	Sockets bool
	Class   ClassID
}

// Place returns the identity of the port: where packets come from, whatever their
// class.
func (p Port) Place() Port {
	if p.Cgroup != "" {
		return Port{Cgroup: p.Cgroup, Sockets: p.Sockets}
	}
	return Port{Ifindex: p.Ifindex}
}

// String returns the name that people call the port by.
func (p Port) String() string {
	if p.Sockets {
		return "sockets of " + p.Cgroup
	}
	return cmp.Or(p.Cgroup, p.Device)
}

func (p Port) kind() string {
	if p.Cgroup != "" {
		return "cgroup"
	}
	return "device"
}

// byPlace orders ports: devices by index, then cgroups by path.
func byPlace(x, y Port) int {
	return cmp.Or(cmp.Compare(x.Cgroup, y.Cgroup), cmp.Compare(x.Ifindex, y.Ifindex), cmp.Compare(x.String(), y.String()))
}

// State describes one link as it should be, or as it is. The zero State is a
// link that Weir does not steer.
type State struct {
	Link    Link
	Classes []Class // ordered by ID, the host's class 0 always first
	Ports   []Port  // devices ordered by Ifindex, then cgroups by path
}

// Class finds a class by its number.
func (s State) Class(id ClassID) (Class, bool) {
	for i := range s.Classes {
		if s.Classes[i].ID == id {
			return s.Classes[i], true
		}
	}
	return Class{}, false
}

// Reserved returns the sum of the mins of groups, which hold their members' mins,
// and of workloads without a group.
func (s State) Reserved() policy.Rate {
	var floors []policy.Floor
	for _, c := range s.Classes {
		if c.Parent == 0 {
			floors = append(floors, policy.Floor{Name: c.Name, Min: c.Min})
		}
	}
	return policy.Sum(floors)
}
