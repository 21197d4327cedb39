// SPDX-License-Identifier: Apache-2.0

// Package api holds the types that cross the agent's socket, and the interface
// that the agent offers to the server. The OpenAPI document is generated from
// these types.
//
// Every rate is in bits per second on the wire, every length in bytes, every
// time in UTC. "Egress" is what leaves the workload (upload).
package api

import (
	"context"
	"time"
)

// Status is the agent's view of itself.
type Status struct {
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Config  string    `json:"config" doc:"path of the configuration file, empty if there is none"`
	// ConfigError is set while the file on the disk is bad and the one read before counts.
	ConfigError string       `json:"config_error,omitempty" doc:"what is wrong with the file; the configuration read before it is in force"`
	Links       []LinkStatus `json:"links"`
	Sources     []Source     `json:"sources" doc:"where workloads are looked for"`
}

// Source is one place where workloads are looked for.
type Source struct {
	Name  string `json:"name"`
	State string `json:"state" enum:"ok,unavailable,off"`
	Note  string `json:"note,omitempty"`
}

// LinkStatus is one link as it stands.
type LinkStatus struct {
	Device      string   `json:"device"`
	Direction   string   `json:"direction" enum:"egress"`
	Backend     string   `json:"backend" enum:"bpf,tc,none"`
	Scheduler   string   `json:"scheduler" enum:"fair,qcon,ancs"`
	CapacityBps uint64   `json:"capacity_bps"`
	Reservable  float64  `json:"reservable" doc:"share of the capacity that mins may take, 0 to 1"`
	ReservedBps uint64   `json:"reserved_bps" doc:"sum of the mins"`
	FreeBps     uint64   `json:"free_bps" doc:"what mins may still take"`
	Workloads   int      `json:"workloads"`
	RateBps     float64  `json:"rate_bps" doc:"sent over the last second"`
	Gaps        []string `json:"gaps" doc:"what this backend cannot hold on this kernel"`
	Error       string   `json:"error,omitempty" doc:"why the link is not steered"`
}

// Policy is a workload's policy as text, the way a person writes it: "20mbit",
// "25%", "" for none.
type Policy struct {
	Weight       uint32 `json:"weight" minimum:"1" maximum:"10000"`
	Min          string `json:"min"`
	Max          string `json:"max"`
	LimitPackets uint32 `json:"limit_packets,omitempty"`
	LimitBytes   uint64 `json:"limit_bytes,omitempty"`
}

// PolicyChange changes the fields that are set; "none" takes a min or max away.
type PolicyChange struct {
	Weight       *uint32 `json:"weight,omitempty" minimum:"1" maximum:"10000"`
	Min          *string `json:"min,omitempty"`
	Max          *string `json:"max,omitempty"`
	LimitPackets *uint32 `json:"limit_packets,omitempty"`
	LimitBytes   *uint64 `json:"limit_bytes,omitempty"`
	// Reset forgets what was set at run time; labels and configuration count again.
	Reset bool `json:"reset,omitempty"`
}

// Workload is one workload with its policy and what it does now.
type Workload struct {
	Name    string            `json:"name"`
	Key     string            `json:"key"`
	ID      string            `json:"id,omitempty" doc:"the engine's id"`
	Kind    string            `json:"kind" enum:"docker,netns,device,host"`
	Class   uint16            `json:"class" doc:"class number, 0 for the host"`
	Policy  Policy            `json:"policy"`
	Origin  map[string]string `json:"origin" doc:"per field of the policy: default, config, label or set"`
	State   string            `json:"state" enum:"active,waiting,unsteered,refused" doc:"waiting: its network is not up; unsteered, refused: see note"`
	Note    string            `json:"note,omitempty"`
	Devices []string          `json:"devices"`
	Links   []WorkloadLink    `json:"links"`
}

// WorkloadLink is a workload's traffic on one link over the last second.
type WorkloadLink struct {
	Device         string            `json:"device"`
	MinBps         uint64            `json:"min_bps"`
	MaxBps         uint64            `json:"max_bps"`
	RateBps        float64           `json:"rate_bps"`
	Share          float64           `json:"share" doc:"of the capacity, 0 to 1"`
	IdealBps       float64           `json:"ideal_bps" doc:"what the contract gives it now, knowing who wants how much"`
	OfferedBps     float64           `json:"offered_bps"`
	BacklogPackets uint64            `json:"backlog_packets"`
	BacklogBytes   uint64            `json:"backlog_bytes"`
	SentPackets    uint64            `json:"sent_packets"`
	SentBytes      uint64            `json:"sent_bytes"`
	Drops          map[string]uint64 `json:"drops" doc:"packets by reason"`
	DropsPerSecond float64           `json:"drops_per_second"`
	HistoryBps     []float64         `json:"history_bps,omitempty" doc:"rates of the last 60 seconds, oldest first; only of a single workload and in a stream's first sample"`
}

// Change is one thing that was, or with a dry run would be, changed.
type Change struct {
	What string `json:"what" doc:"e.g. set class 3 (web) min 20 Mbit/s"`
	Why  string `json:"why"`
}

// ChangeResult is the answer to a request that changes something.
type ChangeResult struct {
	DryRun   bool      `json:"dry_run"`
	Changes  []Change  `json:"changes"`
	Workload *Workload `json:"workload,omitempty"`
}

// AttachRequest makes a workload out of a network namespace or a device.
// Exactly one of Netns and Device is given.
type AttachRequest struct {
	Name   string       `json:"name"`
	Netns  string       `json:"netns,omitempty" doc:"name in /run/netns or a path"`
	Device string       `json:"device,omitempty" doc:"veth or tap on the host"`
	Policy PolicyChange `json:"policy" required:"false"`
}

// Explanation says why a workload has the rate it has.
type Explanation struct {
	Name  string        `json:"name"`
	Links []ExplainLink `json:"links"`
}

// ExplainLink is the explanation on one link.
type ExplainLink struct {
	Device   string   `json:"device"`
	Binds    string   `json:"binds" enum:"min,max,share,demand,idle" doc:"what decides its rate"`
	Text     []string `json:"text" doc:"the explanation in sentences"`
	LevelBps float64  `json:"level_bps" doc:"L of the contract: rate per unit of weight"`
	FairBps  float64  `json:"fair_bps" doc:"L times weight, before min and max"`
	IdealBps float64  `json:"ideal_bps"`
	RateBps  float64  `json:"rate_bps"`
	Others   []Other  `json:"others" doc:"who else is active"`
}

// Other is another workload that is active on the link.
type Other struct {
	Name    string  `json:"name"`
	RateBps float64 `json:"rate_bps"`
	Weight  uint32  `json:"weight"`
	Binds   string  `json:"binds"`
}

// Sample is what the live stream carries, once a second.
type Sample struct {
	At        time.Time    `json:"at"`
	Links     []LinkStatus `json:"links"`
	Workloads []Workload   `json:"workloads"`
}

// Agent is what the server needs of an agent. Names are workload names, or
// prefixes of an engine's id as in docker. Errors are *Error where the caller
// is to blame.
type Agent interface {
	Status(ctx context.Context) (Status, error)
	Workloads(ctx context.Context) ([]Workload, error)
	Workload(ctx context.Context, name string) (Workload, error)
	Set(ctx context.Context, name string, change PolicyChange, dryRun bool) (ChangeResult, error)
	Attach(ctx context.Context, req AttachRequest, dryRun bool) (ChangeResult, error)
	Detach(ctx context.Context, name string, dryRun bool) (ChangeResult, error)
	Explain(ctx context.Context, name string) (Explanation, error)
	// Subscribe sends one Sample a second until ctx ends; a slow reader loses
	// samples, never blocks the agent.
	Subscribe(ctx context.Context) <-chan Sample
}

// Error is a caller's mistake: Field names what is wrong ("min"), Remedy what to
// do about it. Status is the HTTP status: 404 unknown, 409 refused by
// admission, 422 bad input.
type Error struct {
	Status int
	Field  string
	Value  string
	Msg    string
	Remedy string
}

func (e *Error) Error() string {
	s := e.Msg
	if e.Field != "" {
		s = e.Field + ": " + s
	}
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}
