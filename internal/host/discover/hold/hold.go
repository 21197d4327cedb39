// SPDX-License-Identifier: Apache-2.0

// Package hold keeps a workload's devices the workload's for as long as the host has them.
//
// A source finds a container's device by the namespace that the device's other end is in. A
// container with CAP_NET_ADMIN can move that end into a namespace that it makes for itself.
// The source does not find the device any more, and the packets that come by it would count
// as the host's, beyond every limit. So what a source reports passes Ports, which remembers
// whose each device is and adds what the source has lost:
//
//	source docker                  Ports                        reported
//	web: veth1                     veth1 is web's               web: veth1
//	web: none (eth0 moved away)    veth1 is there, and web's    web: veth1, held
//	nothing (web has ended)        veth1 is there, and web's    web: veth1, held, ended
//	nothing                        veth1 is gone                nothing
//
// A device changes hands when a source finds it as another workload's, and is let go when a
// person detaches the workload, unless it is a pod. A workload of an engine or of Kubernetes that
// has ended stays as long as a device of its lasts: a socket or a namespace that was passed to
// another process may outlive it.
//
// What it does not do: look for devices. One whose other end was moved before any source had
// found it is unknown here.
package hold

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"weir/internal/core/workload"
	"weir/internal/host/discover"
)

// DeviceTable knows the devices of the host, as discover.Links does.
type DeviceTable interface {
	// Named returns the name of the device with an index, and whether there is one.
	Named(ifindex int) (name string, there bool)
	// Watch returns a channel that gets a value after devices have changed, and a function
	// that ends it.
	Watch() (changes <-chan struct{}, stop func())
}

// Ports knows to which workload each device belongs.
type Ports struct {
	table DeviceTable

	mu      sync.Mutex
	sources []*source
	owners  map[int]*owner // by the device's index
}

// owner is a device's workload.
type owner struct {
	source   *source
	workload discover.Workload // as it was reported last with the device
	held     bool              // its source does not find the device any more
}

// New returns a Ports that knows of no device.
func New(table DeviceTable) *Ports { return &Ports{table: table, owners: map[int]*owner{}} }

// take notes what a source finds now. Of two workloads that have the same device, the one
// that had it before keeps it. It returns the sources that lose a held device.
func (p *Ports) take(s *source, list []discover.Workload) (losers []*source) {
	claims := map[int][]discover.Workload{}
	for _, w := range list {
		for _, d := range w.Devices {
			claims[d.Ifindex] = append(claims[d.Ifindex], w)
		}
	}
	s.claims = claims
	for index, claimants := range claims {
		now := claimants[0]
		if o := p.owners[index]; o != nil {
			if o.source != s && !o.held {
				continue
			}
			if i := slices.IndexFunc(claimants, func(w discover.Workload) bool { return w.Key == o.workload.Key }); i >= 0 {
				now = claimants[i]
			}
			if o.source != s {
				losers = append(losers, o.source)
			}
		}
		p.owners[index] = &owner{source: s, workload: now}
	}
	return losers
}

// settle returns a source's list with the devices that the source has lost, and notes what it
// finds now.
func (p *Ports) settle(s *source, list []discover.Workload) []discover.Workload {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, loser := range p.take(s, list) {
		loser.wake()
	}
	list, s.holds = slices.Clone(list), false
	for _, index := range slices.Sorted(maps.Keys(p.owners)) {
		o := p.owners[index]
		if o.source != s || len(s.claims[index]) > 0 {
			continue
		}
		name, kept := p.table.Named(index)
		if kept && p.passOn(index, s) {
			continue
		}
		if kept {
			list, kept = o.add(list, discover.Device{Name: name, Ifindex: index, Held: true})
		}
		if !kept {
			delete(p.owners, index)
		}
		s.holds = s.holds || kept
	}
	return list
}

// passOn gives a device to another source that finds it, too.
func (p *Ports) passOn(index int, from *source) bool {
	for _, s := range p.sources {
		if claimants := s.claims[index]; s != from && len(claimants) > 0 {
			p.owners[index] = &owner{source: s, workload: claimants[0]}
			return true
		}
	}
	return false
}

// add puts a device that is not found any more into its workload's entry of the list, or, if
// the workload has ended, the workload with it. It reports false for a workload that was
// detached, which takes its devices along.
func (o *owner) add(list []discover.Workload, d discover.Device) (with []discover.Workload, kept bool) {
	i := slices.IndexFunc(list, func(w discover.Workload) bool { return w.Key == o.workload.Key })
	if i < 0 {
		if !o.outlives() {
			return list, false
		}
		o.held = true
		ended := o.workload
		ended.ID, ended.Cgroups, ended.Sockets, ended.Ended = "", nil, nil, true
		ended.Note = fmt.Sprintf("has ended; its device %s is still there, and counts here until it is gone", d.Name)
		ended.Devices = []discover.Device{d}
		return append(list, ended), true
	}
	o.held, o.workload = true, list[i]
	w := &list[i]
	w.Devices = append(slices.Clone(w.Devices), d)
	if note := fmt.Sprintf("the other end of device %s has left its namespace; it still counts here", d.Name); !w.Ended {
		w.Note = joined(note, w.Note)
	}
	return list, true
}

// outlives reports whether a device counts as its workload's after the source has dropped the
// workload. Containers end by themselves, and a pod is detached when it has ended: its device goes
// with its namespace, unless its root renamed the device, which hides it from the network's plugin,
// and another process keeps the namespace. Other workloads are there until a person detaches them.
func (o *owner) outlives() bool {
	return o.workload.Kind == workload.KindDocker || o.workload.Kind == workload.KindPod
}

func joined(note, more string) string {
	if more == "" {
		return note
	}
	return note + "; " + more
}
