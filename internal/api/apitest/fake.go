// SPDX-License-Identifier: Apache-2.0

// Package apitest offers an agent that exists only in memory, for tests of the programs
// that talk to agents: the HTTP server, the CLI, the live table.
//
// It keeps the rules that a caller can see (names, id prefixes, admission, dry
// run, reset) and invents the traffic: every workload sends what Demo says,
// always. Time is invented too, one second per sample, so that output can be
// compared with golden files.
package apitest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/api"
	"weir/internal/core/event"
	"weir/internal/core/refusal"
	"weir/internal/core/workload"
)

// Start is the time at which the fake claims to have been started.
var Start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Capacity is the rate of the fake's only link, eth0, in bits per second.
const Capacity = 100e6

// Fake is an api.Agent.
type Fake struct {
	// Interval is the real time between two samples of Subscribe; each claims
	// to be a second later than the one before.
	Interval time.Duration
	// Fail, if set, is the error that every method returns.
	Fail error
	// LinkGaps are the settings of the link that its backend does not hold.
	LinkGaps []api.PolicyGap
	// Problems are what it says is wrong.
	Problems []event.Fault

	mu        sync.Mutex
	workloads []api.Workload
	original  map[string]api.Policy // by name, for Reset
	groups    []api.Group

	allocations []api.Allocation
	tuned       map[string]api.ControlChange // by name
}

// New returns a fake that steers workloads; Demo() is a good set.
func New(workloads ...api.Workload) *Fake {
	f := &Fake{Interval: 10 * time.Millisecond, workloads: workloads, original: map[string]api.Policy{}}
	for _, w := range workloads {
		f.original[w.Name] = w.Policy
	}
	return f
}

// Status implements api.Agent.
func (f *Fake) Status(context.Context) (api.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return api.Status{
		Version:  "1.2.3",
		Started:  Start,
		Config:   "/etc/weir/weir.yaml",
		Reloads:  api.Reloads{OK: 2, Failed: 1, LastOK: Start},
		Links:    []api.LinkStatus{f.link()},
		Problems: append([]event.Fault{}, f.Problems...),
		Groups:   f.groupViews(),
		Sources: []api.Source{
			{Name: "docker", State: workload.SourceOK},
			{Name: "netns", State: workload.SourceOK},
			{Name: "device", State: workload.SourceUnavailable, Note: "netlink: operation not permitted"},
		},
		Events: api.EventStatus{
			Begun: map[string]uint64{"link-gone": 1, "refused": 1}, Open: map[string]uint64{"link-gone": 0, "refused": 1},
			Sinks: []api.EventSink{{Name: "webhook", To: "https://alerts.example.org", Waiting: 1, Delivered: 2, Undelivered: 3}},
		},
	}, f.Fail
}

func (f *Fake) link() api.LinkStatus {
	l := api.LinkStatus{
		Device: "eth0", Direction: "egress", Backend: "tc", Scheduler: "htb",
		CapacityBps: Capacity, Reservable: 1, Workloads: len(f.workloads),
		Gaps: []string{"shares follow a change within a second, not within 100 ms"}, NotHeld: f.LinkGaps,
	}
	for _, w := range f.workloads {
		for _, wl := range w.Links {
			l.ReservedBps += wl.MinBps
			l.RateBps += wl.RateBps
		}
	}
	for _, a := range f.allocations {
		for _, m := range a.Mins {
			l.ReservedBps += m.MinBps
			l.AllocatedBps += m.MinBps
		}
	}
	l.FreeBps = l.CapacityBps - l.ReservedBps
	return l
}

// Workloads implements api.Agent.
func (f *Fake) Workloads(context.Context) ([]api.Workload, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.copyAll(), f.Fail
}

// Workload implements api.Agent.
func (f *Fake) Workload(_ context.Context, name string) (api.Workload, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find(name)
	if err != nil {
		return api.Workload{}, err
	}
	return copyOf(f.workloads[i]), nil
}

// Explain implements api.Agent.
func (f *Fake) Explain(_ context.Context, name string) (api.Explanation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find(name)
	if err != nil {
		return api.Explanation{}, err
	}
	w := f.workloads[i]
	e := api.Explanation{Name: w.Name}
	for _, wl := range w.Links {
		x := api.ExplainLink{
			Device: wl.Device, Direction: wl.Direction, Binds: "share", LevelBps: 10e6,
			FairBps: 10e6 * float64(w.Policy.Weight), IdealBps: wl.IdealBps, RateBps: wl.RateBps,
			Text: []string{
				fmt.Sprintf("%s has weight %d; a unit of weight is worth 10 Mbit/s now.", w.Name, w.Policy.Weight),
				"It takes all it is given, so its share decides its rate.",
			},
		}
		for _, o := range f.workloads {
			if o.Name != w.Name && len(o.Links) > 0 {
				x.Others = append(x.Others, api.Other{Name: o.Name, RateBps: o.Links[0].RateBps, Weight: o.Policy.Weight, Binds: "share"})
			}
		}
		e.Links = append(e.Links, x)
	}
	return e, nil
}

// Subscribe implements api.Agent.
func (f *Fake) Subscribe(ctx context.Context) <-chan api.Sample {
	out := make(chan api.Sample, 1)
	go func() {
		defer close(out)
		tick := time.NewTicker(f.Interval)
		defer tick.Stop()
		for n := 0; ; n++ {
			f.mu.Lock()
			s := api.Sample{
				At:        Start.Add(time.Duration(n) * time.Second),
				Links:     []api.LinkStatus{f.link()},
				Workloads: f.copyAll(),
				Groups:    f.groupViews(),
			}
			f.mu.Unlock()
			select {
			case out <- s:
			default: // a slow reader loses samples
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// find looks a workload up by name, else by a prefix of its id.
func (f *Fake) find(name string) (int, error) {
	if f.Fail != nil {
		return 0, f.Fail
	}
	byName := func(w api.Workload) bool { return w.Name == name }
	if i := slices.IndexFunc(f.workloads, byName); i >= 0 {
		return i, nil
	}
	byID := func(w api.Workload) bool { return len(name) >= 3 && strings.HasPrefix(w.ID, name) }
	if i := slices.IndexFunc(f.workloads, byID); i >= 0 {
		return i, nil
	}
	return 0, &refusal.Error{
		Kind: refusal.Unknown, Field: "workload", Value: name,
		Msg:    fmt.Sprintf("no workload is called %q", name),
		Remedy: "see weir get for those there are",
	}
}

func (f *Fake) copyAll() []api.Workload {
	all := make([]api.Workload, len(f.workloads))
	for i, w := range f.workloads {
		all[i] = copyOf(w)
	}
	return all
}

func copyOf(w api.Workload) api.Workload {
	w.Links = slices.Clone(w.Links)
	w.Devices = slices.Clone(w.Devices)
	w.Origin = maps.Clone(w.Origin)
	return w
}
