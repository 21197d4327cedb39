// SPDX-License-Identifier: Apache-2.0

// Package api holds the types that cross the agent's socket, and the interface
// that the agent offers to the server. The OpenAPI document is generated from
// these types.
//
// Every rate is in bits per second on the wire, every length in bytes, every time in UTC.
// "Egress" is traffic that leaves the workload (upload), "ingress" traffic that comes to
// it (download).
package api

import (
	"context"
	"fmt"
	"time"

	"weir/internal/core/event"
	"weir/internal/core/workload"
)

// Status is the agent's view of itself.
type Status struct {
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Config  string    `json:"config" doc:"path of the configuration file, empty if there is none"`
	// ConfigError is set while the file on the disk is bad and the one read before counts.
	ConfigError string `json:"config_error,omitempty" doc:"the mistake in the file; the configuration read before it is in force"`
	// RestartDue are settings that the agent reads at its start only.
	RestartDue []string `json:"restart_due,omitempty" doc:"settings that were changed in the configuration file and are in force from the next start of the agent on"`
	// SetAtRunTime names those to whom an edit of the file may do nothing.
	SetAtRunTime []string     `json:"set_at_run_time,omitempty" doc:"workloads and groups with settings made at run time, which count before labels and the configuration; by key, those that do not run"`
	Unwritable   []Storage    `json:"unwritable,omitempty" doc:"folders in which the agent can write nothing"`
	Reloads      Reloads      `json:"reloads" doc:"how often the configuration file was read again since the agent was started"`
	Links        []LinkStatus `json:"links"`
	Groups       []Group      `json:"groups" doc:"of workloads, by name"`
	Sources      []Source     `json:"sources" doc:"where workloads are looked for"`
	Refused      []string     `json:"refused,omitempty" doc:"workloads and groups of whose policy a part is not in force"`
	NotHeld      []string     `json:"not_held,omitempty" doc:"workloads and groups of whose policy a link's backend does not hold a part, which was not accepted by accept_gaps"`
	// Problems are what holds of the conditions that are no mere notices.
	Problems []event.Fault `json:"problems" doc:"what is wrong now, the most important first; empty if all is well"`
	Warnings []string      `json:"warnings,omitempty" doc:"which rules overlap in the configuration and in workloads; all are in force"`
	Events   EventStatus   `json:"events" doc:"what the agent has told of late, and to whom"`
	// Cluster is nil on a host that is in none.
	Cluster *Membership `json:"cluster,omitempty" doc:"the cluster that this host is in"`
}

// Storage is a folder in which the agent writes.
type Storage struct {
	Path string `json:"path"`
	Lost string `json:"lost" doc:"what is not kept while nothing can be written there"`
	Note string `json:"note" doc:"why nothing can be written there"`
}

// Sentence returns why nothing can be written and what is lost, without the path.
func (s Storage) Sentence() string { return s.Note + ", so that " + s.Lost + " not kept" }

// Reloads counts how often the agent has read its configuration file again since it
// was started.
type Reloads struct {
	OK     uint64 `json:"ok" doc:"the file was right, and is in force"`
	Failed uint64 `json:"failed" doc:"the file was wrong; the one before stayed in force"`
	// LastOK is the agent's start until then.
	LastOK time.Time `json:"last_ok" doc:"when the configuration in force was read"`
}

// MembershipState says how a host stands to its cluster.
type MembershipState string

// The states of a membership.
const (
	MemberConnected   MembershipState = "connected"
	MemberUnreachable MembershipState = "unreachable"
	MemberJoining     MembershipState = "joining" // it has not been a member yet
	MemberRefused     MembershipState = "refused" // the manager does not want it
)

// Membership is a host's place in a cluster.
type Membership struct {
	Manager string          `json:"manager" doc:"host:port"`
	Node    string          `json:"node" doc:"this host's name there"`
	State   MembershipState `json:"state" enum:"connected,unreachable,joining,refused" doc:"joining: it has not been a member yet; refused: the manager does not want it"`
	Since   time.Time       `json:"since" doc:"of the state"`
	Note    string          `json:"note,omitempty" doc:"why it is not connected"`
	// CertificateEnds is zero before it has joined.
	CertificateEnds time.Time `json:"certificate_ends,omitzero" doc:"of this host's certificate, which is renewed long before"`
	Moves           []string  `json:"moves" doc:"ids of the moves that this host is carrying out as their source"`
	// Refused counts since the start of the agent.
	Refused map[string]uint64 `json:"refused,omitempty" doc:"calls of other nodes and orders that were refused, by reason"`
}

// Source is one place where workloads are looked for.
type Source struct {
	Name  string               `json:"name"`
	State workload.SourceState `json:"state" enum:"ok,unavailable,none,off" doc:"none: what it would ask is not on this host, such as a container engine; off: the configuration does not want it"`
	Note  string               `json:"note,omitempty"`
}

// LinkStatus is one link as it stands.
type LinkStatus struct {
	Device      string  `json:"device"`
	Direction   string  `json:"direction" enum:"egress,ingress" doc:"egress: traffic that workloads send; ingress: traffic that they receive"`
	Backend     string  `json:"backend" enum:"bpf,tc,none"`
	Scheduler   string  `json:"scheduler" enum:"fair,qcon,ancs,htb" doc:"what divides the link; htb: that of the backend tc, which divides as fair does"`
	CapacityBps uint64  `json:"capacity_bps"`
	Reservable  float64 `json:"reservable" doc:"share of the capacity that mins may take, 0 to 1"`
	ReservedBps uint64  `json:"reserved_bps" doc:"sum of the mins"`
	FreeBps     uint64  `json:"free_bps" doc:"what mins may still take"`
	// AllocatedBps is the part of ReservedBps that allocations hold.
	AllocatedBps uint64   `json:"allocated_bps,omitempty" doc:"which part of reserved_bps is allocated to pods by claims"`
	Workloads    int      `json:"workloads"`
	RateBps      float64  `json:"rate_bps" doc:"sent over the last second"`
	SentPackets  uint64   `json:"sent_packets" doc:"by all that were ever on the link, since Weir's qdisc is there"`
	SentBytes    uint64   `json:"sent_bytes" doc:"the same on the wire"`
	Gaps         []string `json:"gaps,omitzero" required:"false" doc:"what this backend cannot hold on this kernel; in a stream, of the first sample only"`
	// NotHeld lists gaps in settings that were asked for, Gaps those in all that could
	// be.
	NotHeld []PolicyGap `json:"not_held,omitempty" doc:"which of the link's settings its backend does not hold on this kernel"`
	Error   string      `json:"error,omitempty" doc:"why the link is not steered"`
	Down    string      `json:"down,omitempty" doc:"why its device sends nothing though it is there: it is down, or has no carrier"`
	// Warning is set where the capacity is above what one root qdisc carries.
	Warning string `json:"warning,omitempty" doc:"that the capacity is more than one root qdisc carries on this host, what was there before, and what to do"`
}

// Workload is one workload with its policy and its present state.
type Workload struct {
	Name    string            `json:"name"`
	Key     string            `json:"key"`
	ID      string            `json:"id,omitempty" doc:"the engine's id"`
	Kind    string            `json:"kind" enum:"docker,netns,device,vm,unit,cgroup,pod,host,own" doc:"own: a part of Weir, such as what moves containers"`
	Class   uint16            `json:"class" doc:"class number, 0 for the host"`
	Policy  Policy            `json:"policy"`
	Origin  map[string]string `json:"origin" doc:"per field of the policy: default, found, allocation, config, label, asked, set, or when: the policy says it of this time"`
	Asked   map[string]string `json:"asked,omitempty" doc:"what comes with it that is no label, per field: a pod's annotations, what was set where a container comes from"`
	Cut     []PolicyCut       `json:"cut,omitempty" doc:"what it asks for, by labels or otherwise, and the administrator does not give"`
	Until   *time.Time        `json:"until,omitempty" doc:"when other fields are in force because of the time, see the policy's when"`
	Quota   *QuotaStanding    `json:"quota,omitempty" doc:"how far it has come with its policy's quota"`
	State   string            `json:"state" enum:"active,waiting,unsteered,refused,not held" doc:"waiting: its network is not up; not held: a link's backend lacks a part of the policy, or a link is not steered; unsteered, refused, not held: see note"`
	Note    string            `json:"note,omitempty"`
	NotHeld []PolicyGap       `json:"not_held,omitempty" doc:"which parts of the policy the links' backends do not hold on this kernel"`
	// NotSteered is what of its traffic does not meet the links.
	NotSteered []NotSteered   `json:"not_steered,omitempty" doc:"what of its traffic does not meet the links, docs/paths.md"`
	Warnings   []string       `json:"warnings,omitempty" doc:"which of its rules overlap; all are in force"`
	Devices    []string       `json:"devices"`
	Cgroups    []string       `json:"cgroups,omitempty" doc:"folders of cgroups of version 2 whose processes are the workload"`
	Links      []WorkloadLink `json:"links"`
}

// Group is a group of workloads, with the policy and the present traffic of all of them
// together.
type Group struct {
	Name    string            `json:"name"`
	Class   uint16            `json:"class" doc:"class number"`
	Policy  GroupPolicy       `json:"policy"`
	Origin  map[string]string `json:"origin" doc:"per field of the policy: default, config, asked, set, or when: the policy says it of this time"`
	Asked   map[string]string `json:"asked,omitempty" doc:"what comes with it, per field: a namespace's annotations"`
	Cut     []PolicyCut       `json:"cut,omitempty" doc:"what is asked for it and the administrator does not give"`
	Until   *time.Time        `json:"until,omitempty" doc:"when other fields are in force because of the time, see the policy's when"`
	Quota   *QuotaStanding    `json:"quota,omitempty" doc:"how far its members have come with its policy's quota"`
	State   string            `json:"state" enum:"active,refused,not held" doc:"refused, not held: see note"`
	Note    string            `json:"note,omitempty"`
	NotHeld []PolicyGap       `json:"not_held,omitempty" doc:"the links on which the group has no effect on this kernel"`
	Members []string          `json:"members" doc:"names of its workloads"`
	Links   []WorkloadLink    `json:"links" doc:"its members' traffic together"`
}

// PolicyCut is a field that is asked for and does not count, or of which a part does not.
type PolicyCut struct {
	Field  string `json:"field" doc:"of the policy" example:"max"`
	Asked  string `json:"asked" doc:"the value that is asked for" example:"none"`
	Given  string `json:"given" doc:"what the administrator gives; empty: the field may not be asked for" example:"20mbit"`
	Origin string `json:"origin" enum:"label,asked"`
	Reason string `json:"reason" doc:"why, and what to do; the note has it too"`
}

// PolicyGap is a part of a policy that the backend of a link does not hold on this
// kernel.
type PolicyGap struct {
	Device    string `json:"device" doc:"the link's"`
	Direction string `json:"direction" enum:"egress,ingress"`
	Field     string `json:"field" doc:"of the policy; group also of a group itself" example:"discipline"`
	Value     string `json:"value" doc:"the requested value" example:"llq"`
	Reason    string `json:"reason" doc:"why it is not held"`
	Accepted  bool   `json:"accepted" doc:"it was asked for with accept_gaps"`
}

// Sentence returns the gap for people: "scheduler qcon is not held on this kernel:
// REASON".
func (g PolicyGap) Sentence() string {
	text := fmt.Sprintf("%s %s is not held on this kernel: %s", g.Field, g.Value, g.Reason)
	if g.Accepted {
		text += " (accepted)"
	}
	return text
}

// NotSteered is a part of a workload's traffic that does not meet a link.
type NotSteered struct {
	Link   string `json:"link,omitempty" doc:"absent: no link"`
	Part   string `json:"part,omitempty" enum:"egress,ingress" doc:"absent: both"`
	Reason string `json:"reason"`
	Remedy string `json:"remedy"`
}

// WorkloadLink is a workload's traffic on one link over the last second.
type WorkloadLink struct {
	Device         string            `json:"device"`
	Direction      string            `json:"direction" enum:"egress,ingress"`
	MinBps         uint64            `json:"min_bps"`
	MaxBps         uint64            `json:"max_bps"`
	RateBps        float64           `json:"rate_bps"`
	ReserveBps     uint64            `json:"reserve_bps,omitempty" doc:"goodput that is held, bits per second of payload"`
	GoodputBps     *float64          `json:"goodput_bps,omitempty" doc:"payload delivered over the last second; only where there is a reservation"`
	Control        string            `json:"control,omitempty" enum:"moving,settled,bounded,limited,waiting,unmeasured,frozen,open" doc:"what its controller does"`
	Share          float64           `json:"share" doc:"of the capacity, 0 to 1"`
	IdealBps       float64           `json:"ideal_bps" doc:"rate that the contract gives it now, from the demand of all"`
	OfferedBps     float64           `json:"offered_bps"`
	BacklogPackets uint64            `json:"backlog_packets"`
	BacklogBytes   uint64            `json:"backlog_bytes"`
	SentPackets    uint64            `json:"sent_packets"`
	SentBytes      uint64            `json:"sent_bytes"`
	Drops          map[string]uint64 `json:"drops" doc:"packets by reason"`
	DropsPerSecond float64           `json:"drops_per_second"`
	Score          *Score            `json:"score,omitempty" doc:"how well its promise was kept; absent while it wanted it in no second of the last hour"`
	Delay          *Delay            `json:"delay,omitempty" doc:"how long its packets waited lately; absent where the backend does not measure it"`
	MarkedPackets  uint64            `json:"marked_packets,omitempty" doc:"sent with CE in place of a drop (ECN)"`
	ThinnedPackets uint64            `json:"thinned_packets,omitempty" doc:"TCP ACKs that gave way to newer ones (ack-filter); they count nowhere else"`
	Queues         []QueueTraffic    `json:"queues,omitempty" doc:"of pq, cbwfq and llq, where the backend counts them"`
	Discipline     string            `json:"discipline,omitempty" doc:"of the host on a switch's port, which the switch's database says"`
	HistoryBps     []float64         `json:"history_bps,omitempty" doc:"rates of the last 60 seconds, oldest first; only of a single workload and in a stream's first sample"`
}

// QueueTraffic is the traffic of one queue inside a workload over the last second.
type QueueTraffic struct {
	Name           string            `json:"name"`
	RateBps        float64           `json:"rate_bps"`
	OfferedBps     float64           `json:"offered_bps"`
	BacklogPackets uint64            `json:"backlog_packets"`
	BacklogBytes   uint64            `json:"backlog_bytes"`
	SentPackets    uint64            `json:"sent_packets"`
	SentBytes      uint64            `json:"sent_bytes"`
	Drops          map[string]uint64 `json:"drops" doc:"packets by reason"`
	DropsPerSecond float64           `json:"drops_per_second"`
	Delay          *Delay            `json:"delay,omitempty" doc:"how long its packets waited lately; absent where the backend does not measure it"`
}

// Edit is one change that a request made, or with a dry run would make.
type Edit struct {
	What string `json:"what" doc:"e.g. eth0: web: weight 1 -> 3, min none -> 20 Mbit/s"`
	Why  string `json:"why"`
}

// ChangeResult is the answer to a request that changes something.
type ChangeResult struct {
	DryRun  bool   `json:"dry_run"`
	Changes []Edit `json:"changes"`
	// Stored and Dropped concern the fields set at run time, which count before labels
	// and the configuration.
	Stored   map[string]string `json:"stored,omitempty" doc:"fields that are set at run time from now on, though the policy had this value already; by field, as written"`
	Dropped  map[string]string `json:"dropped,omitempty" doc:"fields that were set at run time and are no longer, with the value that they had"`
	NotHeld  map[string]string `json:"not_held,omitempty" doc:"fields that are stored and that no backend on this kernel holds; by field, as written"`
	Effects  []Effect          `json:"effects,omitempty" doc:"of a dry run: whose rate would differ, those that lose most first"`
	Workload *Workload         `json:"workload,omitempty"`
	Group    *Group            `json:"group,omitempty"`
}

// AttachRequest makes a workload out of a network namespace, a device, systemd
// units, a cgroup or a pod of Kubernetes. Exactly one of Netns, Device, Unit and Cgroup is
// given, unless Pod is: then Netns, Cgroup, both or neither may be, and a pod of that name
// that is attached already is attached anew, with this policy and nothing of the former.
type AttachRequest struct {
	Name   string       `json:"name"`
	Netns  string       `json:"netns,omitempty" doc:"name in /run/netns or a path"`
	Device string       `json:"device,omitempty" doc:"veth or tap on the host"`
	Unit   string       `json:"unit,omitempty" doc:"systemd units, names or patterns with commas between them"`
	Cgroup string       `json:"cgroup,omitempty" doc:"folder of a cgroup of version 2"`
	Pod    string       `json:"pod,omitempty" maxLength:"256" doc:"id of the sandbox of a pod, or another text that changes with where the pod is; name is then NAMESPACE/POD, and netns and cgroup may be missing until its network is up" example:"5a0c3b"`
	Policy PolicyChange `json:"policy" required:"false"`
	Weight uint32       `json:"weight,omitempty" maximum:"10000" doc:"of a pod: its weight where neither weir.yaml nor the policy gives one"`
}

// Explanation says why a workload or a group has the rate it has.
type Explanation struct {
	Name     string        `json:"name"`
	Links    []ExplainLink `json:"links"`
	Warnings []string      `json:"warnings,omitempty" doc:"which of its rules overlap; all are in force"`
}

// ExplainLink is the explanation on one link.
type ExplainLink struct {
	Device    string   `json:"device"`
	Direction string   `json:"direction" enum:"egress,ingress"`
	Binds     string   `json:"binds" enum:"min,max,share,demand,idle" doc:"what decides its rate"`
	Text      []string `json:"text" doc:"the explanation in sentences"`
	LevelBps  float64  `json:"level_bps" doc:"L of the contract: rate per unit of weight"`
	FairBps   float64  `json:"fair_bps" doc:"L times weight, before min and max"`
	IdealBps  float64  `json:"ideal_bps"`
	RateBps   float64  `json:"rate_bps"`
	Others    []Other  `json:"others" doc:"the other active workloads and groups"`
	// Members are the members of the explained group.
	Members []Other `json:"members,omitempty" doc:"of a group: its workloads, with what decides the rate of each within it"`
	// Group is the upper level of a workload in a group: the levels above are then
	// those within the group.
	Group *ExplainGroup `json:"group,omitempty" doc:"the group's part of the link; level, fair and others are then within the group"`
}

// ExplainGroup is a group's part of a link.
type ExplainGroup struct {
	Name     string  `json:"name"`
	Binds    string  `json:"binds" enum:"min,max,share,demand,idle" doc:"what decides the group's rate"`
	Weight   uint32  `json:"weight"`
	LevelBps float64 `json:"level_bps" doc:"L at the link: rate per unit of weight"`
	FairBps  float64 `json:"fair_bps" doc:"L times the group's weight, before min and max"`
	IdealBps float64 `json:"ideal_bps"`
	RateBps  float64 `json:"rate_bps"`
}

// Packet is a packet to be looked up, as far as the caller knows it. It travels as a
// query.
type Packet struct {
	Proto    string `query:"proto" doc:"tcp, udp, icmp, icmp6, sctp, esp, gre or a number" example:"tcp"`
	Src      string `query:"src" doc:"address of the sender"`
	Dst      string `query:"dst" doc:"address of the receiver" example:"10.0.0.2"`
	Sport    uint16 `query:"sport" maximum:"65535" doc:"port of the sender, 0 if it has none"`
	Dport    uint16 `query:"dport" maximum:"65535" doc:"port of the receiver, 0 if it has none" example:"5060"`
	DSCP     string `query:"dscp" doc:"name or number" example:"ef"`
	VLAN     uint16 `query:"vlan" maximum:"4094" doc:"id of its tag, 0 if it has none"`
	Priority uint32 `query:"priority" maximum:"4294967295" doc:"skb->priority; Open vSwitch's set_queue N is 65537 + N"`
	Mark     uint32 `query:"mark" maximum:"4294967295" doc:"skb->mark"`
}

// Placement says which queue of a workload a packet belongs to.
type Placement struct {
	Name       string       `json:"name" doc:"of the workload"`
	Discipline string       `json:"discipline"`
	Queue      string       `json:"queue,omitempty" doc:"empty if the discipline has no queues with rules"`
	Rule       string       `json:"rule,omitempty" doc:"the match that it fits first, empty if none" example:"{udp: 5001}"`
	DSCP       string       `json:"dscp,omitempty" doc:"code point that is written into it, empty if it is left as it is"`
	Zones      []PlacedZone `json:"zones,omitempty" doc:"which zone of each link the packet's receiver is in, if the link has zones and the receiver is given"`
	Text       string       `json:"text" doc:"all that in a sentence"`
}

// PlacedZone says which zone of a link an address is in.
type PlacedZone struct {
	Device string `json:"device" example:"eth0"`
	Zone   string `json:"zone" doc:"empty if it is in none" example:"wan"`
	// CapacityBps is the zone's egress.
	CapacityBps uint64 `json:"capacity_bps,omitempty" doc:"what the zone can send, if it has a capacity of its own"`
}

// Other is another workload that is active on the link.
type Other struct {
	Name    string  `json:"name"`
	RateBps float64 `json:"rate_bps"`
	Weight  uint32  `json:"weight"`
	Binds   string  `json:"binds"`
}

// Sample is one message of the live stream, which sends one a second.
type Sample struct {
	At        time.Time    `json:"at"`
	Links     []LinkStatus `json:"links"`
	Workloads []Workload   `json:"workloads"`
	Groups    []Group      `json:"groups"`
	// Problems are those of Status.
	Problems []event.Fault `json:"problems" doc:"what is wrong now, the most important first; empty if all is well"`
	// Events are those since the sample before. Where a client reads too slowly, those of
	// samples that it has lost come with a later one.
	Events []event.Event `json:"events,omitempty" doc:"what has begun and ended since the sample before"`
}

// WebLink is a link to the page of the agent or the manager.
type WebLink struct {
	URL  string    `json:"url" doc:"works once; the part behind # is a secret until then"`
	Ends time.Time `json:"ends" doc:"until when it can be opened"`
	Role string    `json:"role" enum:"view,change" doc:"what its session may do: the role of the socket on which the link was asked for"`
}

// Agent is the interface of an agent to the server. Names are workload names, or prefixes
// of an engine's id as in docker. Errors are *Error where the caller made a mistake.
type Agent interface {
	Status(ctx context.Context) (Status, error)
	Workloads(ctx context.Context) ([]Workload, error)
	Workload(ctx context.Context, name string) (Workload, error)
	Set(ctx context.Context, name string, change PolicyChange, dryRun bool) (ChangeResult, error)
	Attach(ctx context.Context, req AttachRequest, dryRun bool) (ChangeResult, error)
	Detach(ctx context.Context, name string, dryRun bool) (ChangeResult, error)
	Explain(ctx context.Context, name string) (Explanation, error)
	// Classify says which of the workload's queues a packet belongs to.
	Classify(ctx context.Context, name string, p Packet) (Placement, error)
	Groups(ctx context.Context) ([]Group, error)
	Group(ctx context.Context, name string) (Group, error)
	// ExplainGroup says why a group has the rate it has.
	ExplainGroup(ctx context.Context, name string) (Explanation, error)
	// SetGroup makes a group, or changes it.
	SetGroup(ctx context.Context, name string, change GroupChange, dryRun bool) (ChangeResult, error)
	// DeleteGroup removes a group that SetGroup made and that has no members.
	DeleteGroup(ctx context.Context, name string, dryRun bool) (ChangeResult, error)
	// Allocations lists the mins that are set aside for pods.
	Allocations(ctx context.Context) ([]Allocation, error)
	// Allocate sets a min aside for pods, which need not be there yet; or changes that.
	Allocate(ctx context.Context, name string, req AllocationRequest, dryRun bool) (ChangeResult, error)
	// Release gives an allocation back.
	Release(ctx context.Context, name string, dryRun bool) (ChangeResult, error)
	// Control returns the state of the controllers of a workload's reservations.
	Control(ctx context.Context, name string) (Control, error)
	// Flows measures each connection of a workload with a reservation for a second.
	Flows(ctx context.Context, name string) (Flows, error)
	// SetControl freezes them, or changes their gains.
	SetControl(ctx context.Context, name string, change ControlChange, dryRun bool) (Control, error)
	// Tune measures how a workload's goodput answers to its interval, which takes a
	// quarter of a minute, and suggests gains.
	Tune(ctx context.Context, name string, req TuneRequest) (TuneResult, error)
	// Usage says how much was sent and received.
	Usage(ctx context.Context, q UsageQuery) (Usage, error)
	// Events says which conditions hold, and which began and ended of late.
	Events(ctx context.Context, q EventQuery) (Events, error)
	// Subscribe sends one Sample a second until ctx ends; a slow reader loses
	// samples, never blocks the agent.
	Subscribe(ctx context.Context) <-chan Sample
}
