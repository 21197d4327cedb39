// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/core/workload"
	"weir/internal/host/discover/machine"
)

// Taps is a Source of the interfaces of virtual machines: taps, and the host's ends of
// veths, whose names match a pattern such as "vnet*". Each is a workload, called after
// its machine or guest as far as that is known (package machine): the first interface like
// the machine, the others NAME.1, NAME.2 in the machine's order; Group is the machine for
// all of them. A device of which no program says whose it is keeps its own name.
//
// A device that Devices has by name is left to it.
type Taps struct {
	log      *slog.Logger
	links    linkTable
	devices  *Devices
	machines *machine.Finder
	poke     chan struct{}

	mu       sync.Mutex
	patterns map[string]bool
	nics     map[int]machine.NIC // by the device's index, empty if the machines were asked and none has it
	looked   time.Time           // when machines were asked
	waiting  bool                // a poke is to come
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
	return newTaps(log, links, devices, machine.OnHost())
}

func newTaps(log *slog.Logger, links linkTable, devices *Devices, m *machine.Finder) *Taps {
	t := &Taps{log: log, links: links, devices: devices, machines: m, poke: make(chan struct{}, 1),
		patterns: map[string]bool{}, nics: map[int]machine.NIC{}}
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
			files.want(t.machines.Files())
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
		if n := t.nics[l.Index]; n.Machine != "" {
			name := n.Machine
			if n.Index > 0 {
				name = fmt.Sprintf("%s.%d", name, n.Index)
			}
			w.Group = n.Machine
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
	if l.Kind != "tuntap" && !paired(l.Kind) {
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
	unknown := func(l link) bool { return t.nics[l.Index].Machine == "" }
	if !slices.ContainsFunc(links, unknown) {
		return
	}
	fresh := func(l link) bool { _, asked := t.nics[l.Index]; return !asked }
	wait := machinesAtMost - time.Since(t.looked)
	if wait <= 0 || slices.ContainsFunc(links, fresh) {
		t.looked = time.Now()
		wait = machinesAtLeast
		var names []string
		for _, l := range links {
			if unknown(l) {
				names = append(names, l.Name)
			}
		}
		found := t.machines.Of(names)
		for _, l := range links {
			if unknown(l) {
				n := found[l.Name]
				if n.Machine != "" {
					n.Machine = plainName(n.Machine)
				}
				t.nics[l.Index] = n
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

// plainName returns a machine's name as that of a workload can be: what cannot be typed
// easily becomes a dash.
func plainName(name string) string {
	plain := strings.Map(func(r rune) rune {
		if validName.MatchString("a" + string(r)) {
			return r
		}
		return '-'
	}, name)
	if !validName.MatchString(plain) {
		plain = "vm" + plain
	}
	return plain[:min(len(plain), 64)]
}
