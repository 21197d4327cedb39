// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"weir/internal/core/workload"
)

// Devices is a Source of network devices that a person named: a virtual
// machine's tap, the host's end of a veth.
//
// Once seen, a device is known by its index, so that it may be renamed, and
// another device that takes its name over is not mistaken for it. When it
// vanishes, the next device with the name that the person gave takes its place.
type Devices struct {
	log   *slog.Logger
	links linkTable
	poke  chan struct{}

	mu       sync.Mutex
	attached map[string]*attachedDevice
	changed  []func() // called after Add and Remove
}

type attachedDevice struct {
	device  string // as the person said
	ifindex int    // 0 while there is none
}

// NewDevices returns a Source without devices.
func NewDevices(log *slog.Logger, links *Links) *Devices { return newDevices(log, links) }

func newDevices(log *slog.Logger, links linkTable) *Devices {
	return &Devices{log: log, links: links, poke: make(chan struct{}, 1), attached: map[string]*attachedDevice{}}
}

// Name returns "device".
func (d *Devices) Name() string { return workload.KindDevice }

// Status returns workload.SourceOK: the kernel is never away.
func (d *Devices) Status() (state workload.SourceState, note string) { return workload.SourceOK, "" }

// Add makes a workload of a device: whatever comes in by it is the workload's.
// It refuses a device that does not exist or is an IFB, unless told to Wait, the
// loopback device, and a device that another workload has.
func (d *Devices) Add(name, device string, options ...AddOption) error {
	if err := checkName(name); err != nil {
		return err
	}
	if device == "" || len(device) > maxDeviceName {
		return fmt.Errorf("device %q: give the name of a network device, at most %d letters", device, maxDeviceName)
	}
	if device == "lo" {
		return errors.New(`device "lo" carries the host's own packets: name the host's end of a veth, or a tap`)
	}
	links := d.links.list()
	found := deviceNamed(links, device)
	d.mu.Lock()
	defer d.mu.Unlock()
	if present, taken := d.attached[name]; taken {
		return errTaken(name, present.device)
	}
	for other, a := range d.attached {
		if a.device == device || (found != 0 && a.ifindex == found) {
			return fmt.Errorf("device %q belongs to workload %q already: detach that first", device, other)
		}
	}
	if found == 0 && !slices.Contains(options, Wait) {
		return fmt.Errorf("device %q does not exist; there are: %s", device, enumerate(candidates(links)))
	}
	if i, ok := find(links, found); ok && links[i].Kind == kindIFB && !slices.Contains(options, Wait) {
		return fmt.Errorf("device %q %s", device, byRedirection)
	}
	d.attached[name] = &attachedDevice{device: device, ifindex: found}
	d.tell()
	return nil
}

const maxDeviceName = 15 // IFNAMSIZ without its final zero

// kindIFB is the kind of a device by which nothing comes into the host: what filters redirect to it
// goes on as what came by the device where they are, and is that one's workload's.
const (
	kindIFB       = "ifb"
	byRedirection = "is an IFB, to which filters redirect packets of another device: name that device, by which they come into the host"
)

// Look returns the device that Add would take, none if it does not exist.
func (d *Devices) Look(device string) []Device {
	for _, l := range d.links.list() {
		if l.Name == device {
			return []Device{{Name: l.Name, Ifindex: l.Index}}
		}
	}
	return nil
}

// Remove forgets a workload.
func (d *Devices) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.attached[name]; !ok {
		return errUnattached(name, d.attached)
	}
	delete(d.attached, name)
	d.tell()
	return nil
}

// tell wakes the listeners of onChange. Called with mu held.
func (d *Devices) tell() {
	poke(d.poke)
	for _, f := range d.changed {
		f()
	}
}

// onChange has f called after each change of the attached devices.
func (d *Devices) onChange(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = append(d.changed, f)
}

// owned tells of a device whether a workload has it, or is waiting for its name.
func (d *Devices) owned() func(link) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	indexes, names := map[int]bool{}, map[string]bool{}
	for _, a := range d.attached {
		if a.ifindex == 0 {
			names[a.device] = true
		} else {
			indexes[a.ifindex] = true
		}
	}
	return func(l link) bool { return indexes[l.Index] || names[l.Name] }
}

// Run reports the devices until ctx ends.
func (d *Devices) Run(ctx context.Context, report func([]Workload)) error {
	return follow(ctx, d.links, d.poke, d.list, report)
}

func (d *Devices) list() []Workload {
	links := d.links.list()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.follow(links)
	var list []Workload
	for name, a := range d.attached {
		w := Workload{Key: workload.Key(workload.KindDevice, name), Name: name, Kind: workload.KindDevice}
		if i, ok := find(links, a.ifindex); ok && links[i].Kind == kindIFB {
			w.Note = fmt.Sprintf("its device %s %s", links[i].Name, byRedirection)
		} else if ok {
			w.Devices = []Device{{Name: links[i].Name, Ifindex: links[i].Index, PeerIfindex: peerElsewhere(links[i])}}
		} else {
			w.Awaits = "device " + a.device + " is not on this host"
		}
		list = append(list, w)
	}
	return list
}

// follow forgets devices that went and takes those that came, unless another
// workload has them under a former name. Called with mu held.
func (d *Devices) follow(links []link) {
	owned := map[int]bool{}
	for _, a := range d.attached {
		if _, ok := find(links, a.ifindex); !ok {
			a.ifindex = 0
		}
		owned[a.ifindex] = true
	}
	for _, a := range d.attached {
		if a.ifindex != 0 {
			continue
		}
		if index := deviceNamed(links, a.device); !owned[index] {
			a.ifindex = index
			owned[index] = index != 0
		}
	}
}

// peerElsewhere returns the index of a pair's other end if that end is in another
// namespace.
func peerElsewhere(l link) int {
	if paired(l.Kind) && l.Nsid != noNsid {
		return l.Peer
	}
	return 0
}

// deviceNamed returns the index of a device, 0 if there is none of that name.
func deviceNamed(links []link, name string) int {
	for _, l := range links {
		if l.Name == name {
			return l.Index
		}
	}
	return 0
}

// find looks an index up in a list that is ordered by index.
func find(links []link, index int) (i int, ok bool) {
	return slices.BinarySearchFunc(links, index, func(l link, index int) int { return l.Index - index })
}

// candidates names the devices that a workload could have, or all if there is
// no such device.
func candidates(links []link) []string {
	var likely, all []string
	for _, l := range links {
		if l.Name == "lo" {
			continue
		}
		all = append(all, l.Name)
		if paired(l.Kind) || l.Kind == "tuntap" {
			likely = append(likely, l.Name)
		}
	}
	if len(likely) > 0 {
		return likely
	}
	return all
}
