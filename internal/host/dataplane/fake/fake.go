// SPDX-License-Identifier: Apache-2.0

// Package fake is a data plane without a kernel, for tests of what stands above
// the data plane.
//
// A Kernel plays the host: it keeps what each device was told through all the
// backends that were opened for it, as a real kernel does when an agent goes
// away. A test opens backends through Kernel.Open, lets devices come and go with
// AddDevice and RemoveDevice, says what the classes sent with Send, and looks at
// Kernel.State.
//
//	host := fake.NewKernel("eth0")
//	agent := ... Open: host.Open ...
//	host.Send("eth0", 1, fake.ClassTraffic{Bytes: 1 << 20, Backlog: 3})
//	state := host.State("eth0")
//
// It does not schedule: what a class sent is what the test says.
package fake

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"weir/internal/core/delay"
	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
)

// Kernel is what outlives the backends.
type Kernel struct {
	mu      sync.Mutex
	devices map[string]*device
	openErr error
	lacks   dataplane.Abilities // of backends that are opened from now on
}

// device is one device with what was set on it.
type device struct {
	state      plan.State
	taken      bool // Set was called and Cleanup was not
	counters   map[plan.ClassID]dataplane.Counters
	gone       []dataplane.Leaving // since the last reading
	sent       dataplane.Sent
	sets       int // calls of Set that changed something
	setErr     error
	missingErr error
	missing    []string // since the last Set
	moved      bool     // since the last Set
	open       int
}

// NewKernel has the given devices.
func NewKernel(devices ...string) *Kernel {
	k := &Kernel{devices: map[string]*device{}}
	for _, name := range devices {
		k.AddDevice(name)
	}
	return k
}

// AddDevice makes a device appear, without a qdisc of Weir's.
func (k *Kernel) AddDevice(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.devices[name] = &device{counters: map[plan.ClassID]dataplane.Counters{}}
}

// RemoveDevice makes a device vanish with all that was set on it.
func (k *Kernel) RemoveDevice(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.devices, name)
}

// Devices are the names of those that there are, in order.
func (k *Kernel) Devices() ([]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.devices)), nil
}

// FailOpen makes Open fail with err until it is called with nil.
func (k *Kernel) FailOpen(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.openErr = err
}

// Lack gives the backends that are opened from now on these abilities, as on another
// kernel. A new kernel lacks nothing.
func (k *Kernel) Lack(a dataplane.Abilities) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lacks = a
}

// FailSet makes Set on a device fail with err until it is called with nil.
func (k *Kernel) FailSet(name string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.devices[name].setErr = err
}

// FailMissing makes a look at a device fail with err until it is called with nil, and Set as well.
func (k *Kernel) FailMissing(name string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.devices[name].missingErr, k.devices[name].setErr = err, err
}

// Disturb plays another program that removes the named parts, until the next Set.
func (k *Kernel) Disturb(name string, missing ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.devices[name].missing = missing
}

// Move plays that what the device's setting follows is another, until the next Set.
func (k *Kernel) Move(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.devices[name].moved = true
}

// State is what the device was told last.
func (k *Kernel) State(name string) plan.State {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.devices[name]; d != nil {
		return clone(d.state)
	}
	return plan.State{}
}

// Sets counts the calls of Set that found something to change.
func (k *Kernel) Sets(name string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.devices[name].sets
}

// OpenBackends counts the backends of a device that were opened and not closed.
func (k *Kernel) OpenBackends(name string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.devices[name].open
}

// ClassTraffic is what a class did since the last look.
type ClassTraffic struct {
	Bytes   uint64 // sent
	Packets uint64 // sent; 0 = as many of 1,500 bytes as Bytes need
	Backlog uint64 // packets waiting now, of 1,500 bytes
	Drops   uint64 // packets dropped for want of room
	// Delays are of the packets that are sent; nil = not measured.
	Delays *delay.Histogram
	// Waited is for how long packets waited since the last look, and WaitedBytes what was sent
	// meanwhile.
	Waited      time.Duration
	WaitedBytes uint64
}

// Send adds to a class's counters.
func (k *Kernel) Send(name string, class plan.ClassID, t ClassTraffic) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.devices[name].counters[class]
	queues, waited, waitedBytes := c.Queues, c.Waited+t.Waited, c.WaitedBytes+t.WaitedBytes
	total := addTo(inOne(c), t)
	k.devices[name].sent.Bytes += total.SentBytes - c.SentBytes
	k.devices[name].sent.Packets += total.SentPackets - c.SentPackets
	c = dataplane.Counters{
		EnqueuedPackets: total.EnqueuedPackets, EnqueuedBytes: total.EnqueuedBytes,
		SentPackets: total.SentPackets, SentBytes: total.SentBytes,
		BacklogPackets: total.BacklogPackets, BacklogBytes: total.BacklogBytes,
		Drops: total.Drops, DroppedBytes: total.DroppedBytes, Delays: total.Delays, Queues: queues,
		Waited: waited, WaitedBytes: waitedBytes,
	}
	k.devices[name].counters[class] = c
}

// SendQueue adds to the counters of one of a class's queues. The class's own are
// what Send says.
func (k *Kernel) SendQueue(name string, class plan.ClassID, queue int, t ClassTraffic) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.devices[name].counters[class]
	c.Queues = slices.Clone(c.Queues)
	for len(c.Queues) <= queue {
		c.Queues = append(c.Queues, dataplane.QueueCounters{})
	}
	c.Queues[queue] = addTo(c.Queues[queue], t)
	k.devices[name].counters[class] = c
}

// inOne are a class's counters without its queues.
func inOne(c dataplane.Counters) dataplane.QueueCounters {
	return dataplane.QueueCounters{
		EnqueuedPackets: c.EnqueuedPackets, EnqueuedBytes: c.EnqueuedBytes,
		SentPackets: c.SentPackets, SentBytes: c.SentBytes,
		BacklogPackets: c.BacklogPackets, BacklogBytes: c.BacklogBytes,
		Drops: c.Drops, DroppedBytes: c.DroppedBytes, Delays: c.Delays,
	}
}

func addTo(c dataplane.QueueCounters, t ClassTraffic) dataplane.QueueCounters {
	const size = 1500
	if t.Packets == 0 {
		t.Packets = (t.Bytes + size - 1) / size
	}
	c.SentBytes += t.Bytes
	c.SentPackets += t.Packets
	c.BacklogPackets, c.BacklogBytes = t.Backlog, t.Backlog*size
	c.Drops = map[string]uint64{"class_packets": c.Drops["class_packets"] + t.Drops}
	c.DroppedBytes += t.Drops * size
	c.Delays = c.Delays.Plus(t.Delays)
	c.EnqueuedPackets = c.SentPackets + c.BacklogPackets + c.Drops["class_packets"]
	c.EnqueuedBytes = c.SentBytes + c.BacklogBytes + c.DroppedBytes
	return c
}

// Open is a backend for one device; a dataplane factory. Like a real one it
// fails for a device that is not there.
func (k *Kernel) Open(name string) (dataplane.Backend, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.openErr != nil {
		return nil, fmt.Errorf("link %s: %w", name, k.openErr)
	}
	d, err := k.find(name)
	if err != nil {
		return nil, err
	}
	d.open++
	return &backend{kernel: k, name: name, lacks: k.lacks}, nil
}

func (k *Kernel) find(name string) (*device, error) {
	if d := k.devices[name]; d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("link %s: %w", name, dataplane.ErrNoDevice)
}

// backend is one opened view of a device.
type backend struct {
	kernel *Kernel
	name   string
	closed bool
	lacks  dataplane.Abilities
}

var _ dataplane.Backend = (*backend)(nil)

func (b *backend) Name() string   { return dataplaneName }
func (b *backend) Gaps() []string { return []string{"sends nothing: it is a fake"} }

// Abilities are those that the kernel had when the backend was opened.
func (b *backend) Abilities() dataplane.Abilities { return b.lacks }

// dataplaneName is one of the names that the API allows.
const dataplaneName = "tc"

// Set replaces the state and forgets the counters of classes that went.
func (b *backend) Set(_ context.Context, want plan.State) error {
	b.kernel.mu.Lock()
	defer b.kernel.mu.Unlock()
	d, err := b.kernel.find(b.name)
	if err != nil {
		return err
	}
	if d.setErr != nil {
		return d.setErr
	}
	if d.taken && reflect.DeepEqual(d.state, want) && d.missing == nil && !d.moved {
		return nil
	}
	d.missing, d.moved = nil, false
	d.sets++
	d.taken = true
	d.state = clone(want)
	for id, c := range d.counters {
		if !slices.ContainsFunc(want.Classes, func(c plan.Class) bool { return c.ID == id }) {
			d.gone = append(d.gone, dataplane.Leaving{ID: id, Sent: dataplane.Sent{Packets: c.SentPackets, Bytes: c.SentBytes}, Gone: true})
			delete(d.counters, id)
		}
	}
	return nil
}

// Pace replaces the intervals of classes that are there.
func (b *backend) Pace(_ context.Context, want plan.State) error {
	b.kernel.mu.Lock()
	defer b.kernel.mu.Unlock()
	d, err := b.kernel.find(b.name)
	if err != nil {
		return err
	}
	if d.setErr != nil {
		return d.setErr
	}
	for _, c := range plan.Diff(d.state, want) {
		if c.OnlyPaces() {
			i := slices.IndexFunc(d.state.Classes, func(have plan.Class) bool { return have.ID == c.NewClass.ID })
			d.state.Classes[i] = *c.NewClass
		}
	}
	return nil
}

func (b *backend) Missing() ([]string, error) {
	b.kernel.mu.Lock()
	defer b.kernel.mu.Unlock()
	d, err := b.kernel.find(b.name)
	if err != nil {
		return nil, err
	}
	return slices.Clone(d.missing), d.missingErr
}

// Moved reports what Move has played.
func (b *backend) Moved() bool {
	b.kernel.mu.Lock()
	defer b.kernel.mu.Unlock()
	d, err := b.kernel.find(b.name)
	return err == nil && d.moved
}

func (b *backend) State() (plan.State, error) {
	b.kernel.mu.Lock()
	defer b.kernel.mu.Unlock()
	d, err := b.kernel.find(b.name)
	if err != nil {
		return plan.State{}, err
	}
	return clone(d.state), nil
}

func (b *backend) Counters() (dataplane.LinkCounters, error) {
	b.kernel.mu.Lock()
	defer b.kernel.mu.Unlock()
	d, err := b.kernel.find(b.name)
	if err != nil {
		return dataplane.LinkCounters{}, err
	}
	classes := map[plan.ClassID]dataplane.Counters{}
	for _, class := range d.state.Classes {
		classes[class.ID] = d.counters[class.ID]
	}
	snapshot := dataplane.LinkCounters{At: time.Now(), Classes: classes, Leaving: d.gone, Sent: d.sent}
	d.gone = nil
	return snapshot, nil
}

func (b *backend) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Close leaves the state as it is.
func (b *backend) Close() error {
	b.kernel.mu.Lock()
	defer b.kernel.mu.Unlock()
	if d := b.kernel.devices[b.name]; d != nil && !b.closed {
		d.open--
	}
	b.closed = true
	return nil
}

func (b *backend) Cleanup(context.Context) error {
	b.kernel.mu.Lock()
	defer b.kernel.mu.Unlock()
	d, err := b.kernel.find(b.name)
	if err != nil {
		return err
	}
	d.state, d.taken = plan.State{}, false
	clear(d.counters)
	return nil
}

func clone(s plan.State) plan.State {
	s.Classes = slices.Clone(s.Classes)
	s.Ports = slices.Clone(s.Ports)
	return s
}
