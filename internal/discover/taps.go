// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"weir/internal/workload"
)

// Taps is a Source of the interfaces of virtual machines: taps, and the host's ends of
// veths, whose names match a pattern such as "vnet*". Each is a workload, called after
// its machine as far as libvirt or QEMU's command line tells (see machines): the first
// interface like the machine, the others NAME.1, NAME.2 in the machine's order; Group is
// the machine for all of them. A device that neither libvirt nor QEMU knows keeps its own
// name.
//
// A device that Devices has by name is left to it.
type Taps struct {
	log      *slog.Logger
	links    linkTable
	devices  *Devices
	machines machines
	poke     chan struct{}

	mu       sync.Mutex
	patterns map[string]bool
	nics     map[int]nic // by the device's index, empty if the machines were asked and none has it
	looked   time.Time   // when machines were asked
	waiting  bool        // a poke is to come
}

// nic is an interface's place in its machine.
type nic struct {
	machine string
	index   int // 0, 1, ... in the machine's order
}

// Pauses between two questions for the machines of taps that had no known machine the
// last time. The first bounds the cost of a storm of link messages; the second bounds the
// time until a machine is known that takes over an existing tap. A new tap is asked for
// at once.
const (
	machinesAtMost  = 200 * time.Millisecond
	machinesAtLeast = 2 * time.Second
)

// NewTaps returns a Source without patterns.
func NewTaps(log *slog.Logger, links *Links, devices *Devices) *Taps {
	return newTaps(log, links, devices, machines{libvirt: libvirtDir, proc: "/proc", sys: "/sys/class/net"})
}

func newTaps(log *slog.Logger, links linkTable, devices *Devices, m machines) *Taps {
	t := &Taps{log: log, links: links, devices: devices, machines: m, poke: make(chan struct{}, 1),
		patterns: map[string]bool{}, nics: map[int]nic{}}
	devices.onChange(func() { poke(t.poke) })
	return t
}

// Name returns "vm".
func (t *Taps) Name() string { return workload.KindVM }

// Status returns workload.SourceOK: the kernel is never away.
func (t *Taps) Status() (state workload.SourceState, note string) { return workload.SourceOK, "" }

// Add makes workloads of the devices whose name matches a pattern, now or later.
func (t *Taps) Add(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		return fmt.Errorf("device %q is no pattern; write one such as \"vnet*\"", pattern)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.patterns[pattern] = true
	poke(t.poke)
	return nil
}

// Remove forgets a pattern.
func (t *Taps) Remove(pattern string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.patterns[pattern] {
		return errUnattached(pattern, t.patterns)
	}
	delete(t.patterns, pattern)
	poke(t.poke)
	return nil
}

// Run reports the devices until ctx ends.
func (t *Taps) Run(ctx context.Context, report func([]Workload)) error {
	files, wake, stop := watchWith(ctx, t.log, t.poke)
	defer stop()
	return follow(ctx, t.links, wake, func() []Workload {
		list := t.list()
		if t.active() { // else no pattern asks for machines
			files.want([]string{filepath.Join(t.machines.libvirt, "machine.xml")})
		} else {
			files.want(nil)
		}
		return list
	}, report)
}

func (t *Taps) active() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.patterns) > 0
}

func (t *Taps) list() []Workload {
	links := t.links.list()
	taken := t.devices.owned()
	t.mu.Lock()
	defer t.mu.Unlock()
	links = slices.DeleteFunc(links, func(l link) bool { return !t.matches(l) || taken(l) })
	t.identify(links)
	var list []Workload
	for _, l := range links { // by index, so that a name which is there twice is the older device's
		w := Workload{Key: workload.Key(workload.KindVM, l.Name), Name: l.Name, Kind: workload.KindVM}
		if n := t.nics[l.Index]; n.machine != "" {
			name := n.machine
			if n.index > 0 {
				name = fmt.Sprintf("%s.%d", name, n.index)
			}
			w.Group = n.machine
			if !slices.ContainsFunc(list, func(o Workload) bool { return o.Name == name }) {
				w.Key, w.Name = workload.Key(workload.KindVM, name), name
			}
		}
		w.Devices = []Device{{Name: l.Name, Ifindex: l.Index, PeerIfindex: peerElsewhere(l)}}
		list = append(list, w)
	}
	return list
}

func (t *Taps) matches(l link) bool {
	if l.Kind != "tuntap" && l.Kind != "veth" {
		return false
	}
	for pattern := range t.patterns {
		if ok, _ := path.Match(pattern, l.Name); ok {
			return true
		}
	}
	return false
}

// identify finds out about devices whose machine is not known, and forgets those
// that are gone. Called with mu held.
func (t *Taps) identify(links []link) {
	for index := range t.nics {
		if _, ok := find(links, index); !ok {
			delete(t.nics, index)
		}
	}
	unknown := func(l link) bool { return t.nics[l.Index].machine == "" }
	if !slices.ContainsFunc(links, unknown) {
		return
	}
	fresh := func(l link) bool { _, asked := t.nics[l.Index]; return !asked }
	wait := machinesAtMost - time.Since(t.looked)
	if wait <= 0 || slices.ContainsFunc(links, fresh) {
		t.looked = time.Now()
		wait = machinesAtLeast
		found := t.machines.nics()
		for _, l := range links {
			if unknown(l) {
				t.nics[l.Index] = found[l.Name]
			}
		}
	}
	if !t.waiting && slices.ContainsFunc(links, unknown) {
		t.waiting = true
		time.AfterFunc(wait, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.waiting = false
			poke(t.poke)
		})
	}
}
