// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Profile is an agent's message about its node every few seconds, on M_<node>: what
// the node has and what each of its containers used since the last one.
//
// Sequence grows by one with each profile of an agent that runs, and begins anew
// with it; Time orders the profiles of a node across restarts. Who receives one
// twice, or an older one after a newer one, drops it.
type Profile struct {
	V        int       `json:"v"` // Version
	Node     string    `json:"node"`
	Time     time.Time `json:"time"`
	Sequence uint64    `json:"sequence"`
	// IntervalSeconds is the time over which rates are averaged; 0 in an agent's first
	// profile, which has no rates yet.
	IntervalSeconds float64 `json:"interval_seconds"`

	Capacity   Capacity           `json:"capacity"`
	Total      Usage              `json:"total"` // of the node, processes outside containers included
	Containers []ContainerProfile `json:"containers"`
	// Missing says what this machine cannot measure and why, such as "llc_misses:
	// perf_event_open: operation not supported".
	Missing []string `json:"missing,omitempty"`
	// AcceptFrom are the nodes from which this one takes containers; nil = all, or a former
	// version, which does not say.
	AcceptFrom *[]string `json:"accept_from,omitempty"`
}

// Capacity says how much a node has of each resource; 0 where it is not known.
type Capacity struct {
	CPUCores              float64 `json:"cpu_cores"`
	MemoryBytes           uint64  `json:"memory_bytes"`
	BlockIOBytesPerSecond float64 `json:"block_io_bytes_per_second,omitempty"`
	NetworkTransmitBps    uint64  `json:"network_transmit_bps,omitempty"` // egress (upload), bits per second
	NetworkReceiveBps     uint64  `json:"network_receive_bps,omitempty"`
	// GuaranteedBps is the largest sum of the mins on the link; GuaranteedElsewhereBps
	// is the part of it that mins of other workloads than containers take.
	GuaranteedBps          uint64 `json:"guaranteed_bps,omitempty"`
	GuaranteedElsewhereBps uint64 `json:"guaranteed_elsewhere_bps,omitempty"`
}

// Usage says how much a container or a node used: levels at Time, and rates over
// the interval.
type Usage struct {
	CPUCores              float64 `json:"cpu_cores"` // CPU time per time: 1.5 is one and a half CPUs
	MemoryBytes           uint64  `json:"memory_bytes"`
	MemoryAnonymousBytes  uint64  `json:"memory_anonymous_bytes"` // what a checkpoint has to carry
	BlockReadBytesPerSec  float64 `json:"block_read_bytes_per_second"`
	BlockWriteBytesPerSec float64 `json:"block_write_bytes_per_second"`
	NetworkTransmitBps    float64 `json:"network_transmit_bps"` // egress (upload), bits per second
	NetworkReceiveBps     float64 `json:"network_receive_bps"`
	Processes             int     `json:"processes,omitempty"`
	// ThrottledShare is the part of the interval in which a CPU limit held it back.
	ThrottledShare float64 `json:"throttled_share,omitempty"`
	// LLCMissesPerSec is nil where the machine does not count them.
	LLCMissesPerSec *float64 `json:"llc_misses_per_second,omitempty"`
	// Pressure is nil where the kernel has no pressure stall information.
	Pressure *Pressure `json:"pressure,omitempty"`
}

// Pressure is the part of the interval, 0 to 1, in which some task waited for a
// resource (the line "some" of pressure stall information).
type Pressure struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	IO     float64 `json:"io"`
}

// ContainerProfile describes one container.
type ContainerProfile struct {
	ID     string            `json:"id"` // the engine's, in full
	Name   string            `json:"name"`
	Engine EngineName        `json:"engine"`
	Image  string            `json:"image,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Limits CgroupLimits      `json:"limits"`
	Policy Policy            `json:"policy"`
	Usage  Usage             `json:"usage"`
	// ChangedBytes is the size of the container's own layer, 0 if it is not known.
	ChangedBytes uint64 `json:"changed_bytes,omitempty"`
}

// CgroupLimits are a container's cgroup limits; 0 = none.
type CgroupLimits struct {
	CPUCores    float64 `json:"cpu_cores,omitempty"`
	MemoryBytes uint64  `json:"memory_bytes,omitempty"`
}

// Policy is the policy that Weir holds for a container on its node.
type Policy struct {
	Weight uint32 `json:"weight,omitempty"`
	MinBps uint64 `json:"min_bps,omitempty"` // guaranteed, admitted; 0 = none
	MaxBps uint64 `json:"max_bps,omitempty"` // 0 = none
	// RefusedMinBps was asked for and did not fit; 0 = nothing was refused.
	RefusedMinBps uint64 `json:"refused_min_bps,omitempty"`
}

// ProfileVersion is the version of profiles, which are kept in recordings as well. It is
// raised on its own.
const ProfileVersion = 1

// Check returns the first fault of a profile that came from outside, nil if there
// is none.
func (p *Profile) Check() error {
	switch {
	case p.V != ProfileVersion:
		return fmt.Errorf("profile: v %d is not known; this build reads v %d", p.V, ProfileVersion)
	case p.Node == "":
		return errors.New("profile: node is empty")
	case p.Time.IsZero():
		return fmt.Errorf("profile of %s: time is missing", p.Node)
	}
	err := cmp.Or(CheckNode(p.Node), few("containers", len(p.Containers), MaxContainers), few("lines of missing", len(p.Missing), MaxMissing),
		within("interval_seconds", p.IntervalSeconds, maxSeconds), p.Capacity.check(), p.Total.check("total"))
	for _, line := range p.Missing {
		err = cmp.Or(err, short(MaxText, "missing", line))
	}
	if p.AcceptFrom != nil {
		err = cmp.Or(err, few("nodes in accept_from", len(*p.AcceptFrom), MaxAcceptFrom))
		for _, name := range *p.AcceptFrom {
			err = cmp.Or(err, CheckNode(name))
		}
	}
	if err != nil {
		return fmt.Errorf("profile of %s: %w", p.Node, err)
	}
	seen := make(map[string]bool, len(p.Containers))
	for i := range p.Containers {
		c := &p.Containers[i]
		if err := c.check(); err != nil {
			return fmt.Errorf("profile of %s: %w", p.Node, err)
		}
		if seen[c.ID] {
			return fmt.Errorf("profile of %s: container %s is there twice", p.Node, c.ID)
		}
		seen[c.ID] = true
	}
	return nil
}

// check refuses numbers that no machine has. 0 is "not known".
func (c Capacity) check() error {
	return cmp.Or(within("capacity.cpu_cores", c.CPUCores, maxCPUs), within("capacity.memory_bytes", float64(c.MemoryBytes), maxMemory),
		within("capacity.block_io_bytes_per_second", c.BlockIOBytesPerSecond, maxRate),
		within("capacity.network_transmit_bps", float64(c.NetworkTransmitBps), maxRate), within("capacity.network_receive_bps", float64(c.NetworkReceiveBps), maxRate),
		within("capacity.guaranteed_bps", float64(c.GuaranteedBps), maxRate), within("capacity.guaranteed_elsewhere_bps", float64(c.GuaranteedElsewhereBps), maxRate))
}

func (c *ContainerProfile) check() error {
	if c.ID == "" {
		return fmt.Errorf("container %.80q has no id", c.Name)
	}
	err := cmp.Or(short(MaxName, "id of a container", c.ID, "name of a container", c.Name, "engine of a container", string(c.Engine)), short(MaxText, "image of "+c.Name, c.Image),
		few("labels of container "+c.ID, len(c.Labels), MaxLabels))
	if err != nil {
		return err
	}
	what := "container " + c.ID + ": "
	return cmp.Or(c.Usage.check(what+"usage"), within(what+"limits.cpu_cores", c.Limits.CPUCores, maxCPUs),
		within(what+"policy.min_bps", float64(c.Policy.MinBps), maxRate), within(what+"policy.max_bps", float64(c.Policy.MaxBps), maxRate),
		within(what+"policy.refused_min_bps", float64(c.Policy.RefusedMinBps), maxRate), within(what+"changed_bytes", float64(c.ChangedBytes), maxMemory))
}

func (u *Usage) check(of string) error {
	err := cmp.Or(within(of+".cpu_cores", u.CPUCores, maxCPUs), within(of+".memory_bytes", float64(u.MemoryBytes), maxMemory),
		within(of+".memory_anonymous_bytes", float64(u.MemoryAnonymousBytes), maxMemory), within(of+".block_read_bytes_per_second", u.BlockReadBytesPerSec, maxRate),
		within(of+".block_write_bytes_per_second", u.BlockWriteBytesPerSec, maxRate), within(of+".network_transmit_bps", u.NetworkTransmitBps, maxRate),
		within(of+".network_receive_bps", u.NetworkReceiveBps, maxRate), within(of+".throttled_share", u.ThrottledShare, maxCPUs), within(of+".processes", float64(u.Processes), maxRate))
	if u.LLCMissesPerSec != nil {
		err = cmp.Or(err, within(of+".llc_misses_per_second", *u.LLCMissesPerSec, maxRate))
	}
	if p := u.Pressure; p != nil {
		err = cmp.Or(err, within(of+".pressure.cpu", p.CPU, maxCPUs), within(of+".pressure.memory", p.Memory, maxCPUs), within(of+".pressure.io", p.IO, maxCPUs))
	}
	return err
}

// within refuses a value that is negative, not finite, or more than anything has.
func within(name string, v, most float64) error {
	if !(v >= 0) || v > most {
		return fmt.Errorf("%s is %v; between 0 and %g is possible", name, v, most)
	}
	return nil
}

// Labels of a container that are the cluster's: what the manager may do with it, and
// what a migration has left.
const (
	// PinnedLabel keeps a container on its node if it is "true".
	PinnedLabel = "weir.pinned"
	// ApartLabel names a group of containers no two of which are put on one node.
	ApartLabel = "weir.apart"
	// MoveLabel is the id of the migration that brought a container here (package
	// migrate).
	MoveLabel = "weir.move"
)

// Labels lists the labels of the cluster.
var Labels = []string{PinnedLabel, ApartLabel, MoveLabel}
