// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"maps"
	"slices"
	"time"

	"weir/internal/base/cgroup"
	"weir/internal/core/bound"
	"weir/internal/core/wire"
)

// Interval is between two profiles, the paper's (section III-A).
const Interval = 5 * time.Second

// Container is a container to measure, as the caller of the sampler describes it.
type Container struct {
	ID     string
	Name   string
	Engine wire.EngineName
	Image  string
	Labels map[string]string
	PID    int // its first process, in the host's namespace
	Policy wire.Policy
	// ChangedBytes is the size of its own layer, 0 if it is not known.
	ChangedBytes uint64
	// Traffic has Weir's counters; nil if there are none: then the devices in its
	// network namespace are asked.
	Traffic *NetBytes
}

// NetBytes is bytes since some moment.
type NetBytes struct{ Transmitted, Received uint64 }

// Link is a device of the node that its containers share.
type Link struct {
	Device        string
	TransmitBps   uint64 // egress (upload), 0 = not known
	ReceiveBps    uint64
	GuaranteedBps uint64 // that mins may add up to
	ElsewhereBps  uint64 // of these, admitted to workloads that are no containers
}

// Options say what to measure.
type Options struct {
	Node  string
	Links []Link
	// Capacity has what the machine's own is not to be taken for, as where several
	// nodes share one; zero fields are measured.
	Capacity wire.Capacity
	// CacheMisses counts last-level cache misses by perf events, which takes a file
	// descriptor per CPU and container and a little time at each switch between them.
	CacheMisses bool
	// Roots says where the kernel's files are; the zero value means this machine.
	Roots Roots
}

// Roots are folders of the kernel's.
type Roots struct {
	Proc   string            // "/proc"
	Cgroup string            // where cgroups of version 2 are, "" = nowhere
	Legacy map[string]string // where each controller of version 1 is
}

func (r Roots) orOwn() Roots {
	if r.Proc != "" {
		return r
	}
	return Roots{Proc: "/proc", Cgroup: cgroup.Read().Root, Legacy: cgroup.Controllers()}
}

// Sampler makes profiles. It is not safe for concurrent use.
type Sampler struct {
	Options
	reader   reader
	perf     *counter
	known    map[string]*member
	host     hostCounters
	last     time.Time
	sequence uint64
	missing  map[string]string // what -> why
	limits   int               // until limits are read again
}

// limitsEvery is how many profiles pass until limits are read again, which change
// seldom.
const limitsEvery = 12

// New makes a Sampler; Close it.
func New(o Options) *Sampler {
	o.Roots = o.Roots.orOwn()
	s := &Sampler{Options: o, known: map[string]*member{}, missing: map[string]string{}, reader: reader{buffer: make([]byte, bound.Cgroups)}}
	if o.CacheMisses {
		var err error
		if s.perf, err = newCounter(cacheMisses, o.Roots); err != nil {
			s.missing["llc_misses"] = err.Error()
		}
	}
	return s
}

// Close gives back what counts cache misses.
func (s *Sampler) Close() {
	for _, m := range s.known {
		m.close()
	}
	clear(s.known)
}

// Run samples at once and then every so often until ctx ends. list says what there
// is to be measured; emit gets each profile.
func (s *Sampler) Run(ctx context.Context, every time.Duration, list func() []Container, emit func(wire.Profile)) {
	defer s.Close()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		emit(s.Sample(time.Now(), list()))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Sample makes the next profile. now is the time of it; rates are over the time
// since the last one, and a container that was not there then has none yet.
func (s *Sampler) Sample(now time.Time, list []Container) wire.Profile {
	s.sequence++
	p := wire.Profile{V: wire.ProfileVersion, Node: s.Node, Time: now.UTC(), Sequence: s.sequence, Containers: []wire.ContainerProfile{}}
	if !s.last.IsZero() {
		p.IntervalSeconds = max(now.Sub(s.last).Seconds(), 0)
	}
	s.last = now
	p.Total, p.Capacity = s.node(p.IntervalSeconds)
	seen := make(map[string]bool, len(list))
	readLimits := s.limits == 0
	s.limits = (s.limits + 1) % limitsEvery
	for i := range list {
		c := &list[i]
		if seen[c.ID] {
			continue
		}
		m := s.member(c)
		if m == nil {
			continue // it has just ended
		}
		seen[c.ID] = true
		if readLimits || m.samples == 0 {
			m.limits = m.files.limits(&s.reader)
		}
		p.Containers = append(p.Containers, wire.ContainerProfile{
			ID: c.ID, Name: c.Name, Engine: c.Engine, Image: c.Image, Labels: c.Labels, Policy: c.Policy, ChangedBytes: c.ChangedBytes,
			Limits: m.limits, Usage: s.usage(m, c, p.IntervalSeconds),
		})
	}
	for id, m := range s.known {
		if !seen[id] {
			m.close()
			delete(s.known, id)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(s.missing)) {
		p.Missing = append(p.Missing, what+": "+s.missing[what])
	}
	return p
}

// rate returns by how much a counter has grown per second; 0 if it has begun anew.
func rate(now, before uint64, seconds float64) float64 {
	if now < before || seconds <= 0 {
		return 0
	}
	return float64(now-before) / seconds
}
