// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/mark"
	"weir/internal/host/dataplane/mark/answers"
)

// Backend steers one link with a BPF qdisc. Its methods may be called from
// several goroutines; the kernel looks for the device in the network namespace
// of the thread that called New.
type Backend struct {
	device string
	opts   dataplane.Options
	log    *slog.Logger

	mu      sync.Mutex
	conn    *device.Conn
	marker  *mark.Marker
	dev     device.Device
	obj     *object // nil until the first Set
	have    plan.State
	weight  uint32   // largest weight in force: the scale of the share wheel
	repeat  bool     // an agent before may have written what it did not live to announce
	broken  bool     // parts of obj are gone that cannot be put back: it has to be replaced
	away    bool     // obj is whole, and not the device's root qdisc
	held    bool     // a qdisc of Weir's was the device's root when this process looked last, or it was set by it
	sent    sent     // by all classes that there ever were
	damaged []uint32 // entries of the ring whose configuration another program has changed

	seen     time.Time              // when Missing found obj at the device
	readings readings               // of classes
	right    []qdiscWeirClassConfig // what is configured of the classes of have, when it was found to be right
}

// New prepares a backend for the link; it changes nothing yet. The error wraps
// dataplane.ErrNoSupport if the kernel has no BPF qdiscs.
func New(name string, opts dataplane.Options, log *slog.Logger) (*Backend, error) {
	if err := Supported(); err != nil {
		return nil, err
	}
	conn, err := device.Open()
	if err != nil {
		return nil, err
	}
	conn.Wire = opts.Wire
	marker, err := mark.New(opts, log)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &Backend{device: name, opts: opts, log: log.With("link", name), conn: conn, marker: marker}, nil
}

// Name is "bpf".
func (b *Backend) Name() string { return "bpf" }

// Moved reports whether devices have come above the link, or workloads into other namespaces.
func (b *Backend) Moved() bool { return b.marker.Moved() }

// Gaps are those of marking; the qdisc holds all that a plan can say.
func (b *Backend) Gaps() []string {
	gaps := b.marker.Gaps()
	if !b.opts.Carrier().Queues() {
		gaps = append(gaps, "Queues inside a workload are not told apart beside Cilium, whose the bits are that would say them: mark_mask names bits of the mark for that.")
	}
	return gaps
}

// Abilities lack nothing but queues beside Cilium, and without a mark the goodput of a cgroup's
// queues.
func (b *Backend) Abilities() dataplane.Abilities {
	carrier := b.opts.Carrier()
	return dataplane.Abilities{NoQueues: !carrier.Queues(), NoQueueGoodput: carrier.Mask == 0}
}

// Run waits: the qdisc works without the agent.
func (b *Backend) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Set makes the kernel match want.
func (b *Backend) Set(ctx context.Context, want plan.State) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	fresh, err := b.take(want.Link.Scheduler)
	if err != nil {
		return err
	}
	var before plan.State
	if fresh {
		// Everything is written before the first packet comes.
		if err := b.write(plan.State{Link: want.Link, Classes: want.Classes}); err != nil {
			return err
		}
		if err := b.attach(); err != nil {
			b.drop()
			return err
		}
	} else {
		if err := b.read(); err != nil {
			return err
		}
		before = b.have
	}
	if err := b.write(want); err != nil {
		return err
	}
	if err := b.marker.AttachLinkRules(b.dev, want); err != nil {
		return err
	}
	if err := b.markCE(want); err != nil {
		return err
	}
	if err := b.keepInside(before, want); err != nil {
		b.have = plan.State{} // ask the kernel the next time
		return err
	}
	return nil
}

// read learns the state in force from the kernel. Classes are read once, since
// no other program writes them; ports come and go with their devices.
func (b *Backend) read() (err error) {
	if len(b.have.Classes) == 0 {
		if err := b.readMaps(); err != nil {
			return err
		}
	}
	b.have.Ports, err = b.marker.List()
	return err
}

// take gets an object for the link: the one that is in force, or that of a device of this name that
// is gone, or, if there is none or it is of another scheduler, a fresh one.
func (b *Backend) take(scheduler string) (fresh bool, err error) {
	if err := b.find(); err != nil {
		return false, err
	}
	if b.obj == nil && b.inherit() {
		if err := b.find(); err != nil {
			return false, err
		}
	}
	if b.obj != nil && b.obj.scheduler == scheduler {
		dir, err := b.pins()
		if err != nil {
			return false, err
		}
		return false, errors.Join(b.obj.repin(dir), b.putBack())
	}
	b.drop()
	if err := b.conn.Take(b.dev, b.opts, b.held, b.log); err != nil {
		return false, err
	}
	askers, err := answers.Notes{Conn: b.conn, Opts: b.opts}.Askers()
	if err != nil {
		return false, err
	}
	defer askers.Close()
	b.obj, err = load(buildFor(b.opts.Small), scheduler, b.opts.Carrier(), askers)
	return true, err
}

// putBack makes b.obj the root qdisc again if another program removed it. The kernel
// has emptied it then, as it does when a device goes down; its classes are there.
func (b *Backend) putBack() error {
	if !b.away {
		return nil
	}
	if err := b.conn.Take(b.dev, b.opts, b.held, b.log); err != nil {
		return err
	}
	if err := b.conn.SetRoot(b.dev, device.Qdisc{Kind: b.obj.kind}); err != nil {
		return err
	}
	b.away, b.held = false, true
	return nil
}

// find looks for the state in force, without changing anything: b.obj is the device's
// qdisc, or nil. A program may have taken it away from the root, or the device may be
// another one by now.
func (b *Backend) find() error {
	dev, err := b.conn.Lookup(b.device)
	if err != nil {
		b.drop()
		return err
	}
	if dev.Index != b.dev.Index || b.broken {
		b.drop()
	}
	b.held = b.held && dev.Index == b.dev.Index
	b.dev = dev
	if b.broken {
		return nil
	}
	if b.obj == nil {
		dir, err := b.pins()
		if err != nil {
			return err
		}
		if b.obj, err = adopt(buildFor(b.opts.Small), dir, b.opts.Carrier()); err != nil || b.obj == nil {
			return err
		}
		b.repeat = true
	}
	attached, err := b.attached()
	b.away = err == nil && !attached
	b.held = b.held || attached
	return err
}

// drop lets go of the object.
func (b *Backend) drop() {
	if b.obj != nil {
		b.obj.close()
		b.obj = nil
		unmap()
	}
	b.obj, b.have, b.away, b.damaged, b.sent = nil, plan.State{}, false, nil, sent{}
	b.readings.forget()
	b.right, b.seen = nil, time.Time{}
}

// attached says whether the root qdisc of the device is b.obj.
func (b *Backend) attached() (bool, error) {
	root, err := b.conn.Root(b.dev)
	return err == nil && root.Kind == b.obj.kind, err
}

// attach makes b.obj the root qdisc and pins it. Pins of an object before it
// go first: from then on, only the qdisc itself keeps that one.
func (b *Backend) attach() error {
	dir, err := b.pins()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the pins of a former qdisc: %w", err)
	}
	b.prune(dir)
	if err := b.obj.pin(dir); err != nil {
		return err
	}
	if err := b.conn.SetRoot(b.dev, device.Qdisc{Kind: b.obj.kind}); err != nil {
		return err
	}
	b.broken, b.held = false, true
	return nil
}

// linkConfig is linkConfig for the backend's device.
func (b *Backend) linkConfig(l plan.Link, maxWeight uint32) qdiscWeirLinkConfig {
	return tagged(linkConfig(l, maxWeight), b.dev.Tag)
}

func (b *Backend) readMaps() error {
	var l qdiscWeirLinkConfig
	if err := b.obj.link.Lookup(uint32(0), &l); err != nil {
		return fmt.Errorf("read the configuration of %s: %w", b.device, err)
	}
	b.have = plan.State{Link: plan.Link{
		Device: b.device, Capacity: policy.Rate(l.CapacityBps), Reserve: float64(l.ReservePpm) / 1e6,
		Scheduler: b.obj.scheduler, Favour: favourOf(l), Framing: framingOf(l), Limit: plan.Limit{Bytes: l.LimitBytes},
	}}
	b.weight = 0
	for id := range plan.ClassID(b.obj.classes.MaxEntries()) {
		var cfg qdiscWeirClassConfig
		if err := b.obj.classes.Lookup(uint32(id), &cfg); err != nil {
			return fmt.Errorf("read class %d of %s: %w", id, b.device, err)
		}
		if cfg.ShareCost != 0 {
			b.have.Classes = append(b.have.Classes, planClass(id, cfg))
			b.weight = max(b.weight, uint32(cfg.Weight))
		}
	}
	return b.readInside()
}

// write makes the changes that lead from b.have to want, in plan.Diff's order.
func (b *Backend) write(want plan.State) error {
	b.readings.forget()
	b.right = nil
	var entries []uint32
	heaviest := uint32(1)
	for _, c := range want.Classes {
		heaviest = max(heaviest, c.Weight)
	}
	have, wantLink := b.linkConfig(b.have.Link, b.weight), b.linkConfig(want.Link, heaviest)
	if b.have.Link.Capacity == 0 || have != wantLink || slices.Contains(b.damaged, ringLink) {
		if err := b.obj.link.Put(uint32(0), wantLink); err != nil {
			return fmt.Errorf("configure %s: %w", b.device, err)
		}
		entries = append(entries, ringLink)
	}
	if b.repeat {
		entries = append(entries, ringLink)
		for _, c := range b.have.Classes {
			entries = append(entries, uint32(c.ID))
		}
	}
	var failed error
	for _, change := range plan.Diff(normal(b.have), normal(want)) {
		id, err := b.change(change, want.Link)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if id >= 0 {
			entries = append(entries, uint32(id))
		}
	}
	for _, c := range want.Classes {
		if !slices.Contains(b.damaged, uint32(c.ID)) {
			continue
		}
		id, err := b.setClass(c.ID, classConfig(c, want.Link))
		failed = errors.Join(failed, err)
		if err == nil {
			entries = append(entries, uint32(id))
		}
	}
	failed = errors.Join(failed, b.mark(want), b.own(want))
	if err := b.obj.announce(entries); err != nil {
		return errors.Join(failed, err)
	}
	if failed != nil {
		b.have = plan.State{} // ask the kernel the next time
		return failed
	}
	b.weight, b.have, b.repeat, b.damaged = heaviest, want, false, nil
	return nil
}

// Pace writes the classes whose intervals have changed.
func (b *Backend) Pace(_ context.Context, want plan.State) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.obj == nil {
		return fmt.Errorf("link %s: %w", b.device, dataplane.ErrNoDevice)
	}
	var entries []uint32
	for _, c := range want.Classes {
		i := slices.IndexFunc(b.have.Classes, func(have plan.Class) bool { return have.ID == c.ID })
		if i < 0 || b.have.Classes[i].Equal(c) {
			continue
		}
		if _, err := b.setClass(c.ID, classConfig(c, want.Link)); err != nil {
			return err
		}
		b.have.Classes, b.right = slices.Clone(b.have.Classes), nil
		b.have.Classes[i] = c
		entries = append(entries, uint32(c.ID))
	}
	return b.obj.announce(entries)
}

// mark makes every port mark its class and what the class's rules say. It asks
// the kernel each time: a plan's ports do not show whether rules have changed.
func (b *Backend) mark(want plan.State) error {
	var failed error
	for _, port := range want.Ports {
		class, _ := want.Class(port.Class)
		if err := b.marker.Attach(port, mark.MarkingOf(class)); !errors.Is(err, dataplane.ErrNoDevice) {
			failed = errors.Join(failed, err)
		} // it went away meanwhile: its source will report that
	}
	return failed
}

// normal is a state with every default in numbers, as the kernel holds it. The queues
// keep their rules: they decide which queue takes the rest, which the kernel is told.
func normal(s plan.State) plan.State {
	s.Classes = slices.Clone(s.Classes)
	for i, c := range s.Classes {
		s.Classes[i] = planClass(c.ID, classConfig(c, s.Link))
		for q := range s.Classes[i].Queues {
			s.Classes[i].Queues[q].Match = c.Queues[q].Match
		}
	}
	return s
}

// plain returns a state as a plan has it, without defaults. An
// agent that starts again thus finds no change where there is none.
func plain(s plan.State) plan.State {
	s.Classes = slices.Clone(s.Classes)
	for i, c := range s.Classes {
		usual := planClass(c.ID, classConfig(plan.Class{Weight: c.Weight}, s.Link)).Limit
		if c.Limit.Packets == usual.Packets {
			s.Classes[i].Limit.Packets = 0
		}
		if c.Limit.Bytes == usual.Bytes {
			s.Classes[i].Limit.Bytes = 0
		}
		for q := range c.Queues {
			if c.Queues[q].LimitPackets == queuePackets {
				c.Queues[q].LimitPackets = 0
			}
		}
	}
	if s.Link.Limit.Bytes == defaultLinkBytes {
		s.Link.Limit.Bytes = 0
	}
	return s
}

// change makes one change; it returns the class to announce, or -1.
func (b *Backend) change(c plan.Edit, l plan.Link) (int, error) {
	switch c.Op {
	case plan.AddClass, plan.SetClass:
		if c.Op == plan.AddClass && !c.NewClass.Group {
			if err := b.obj.addDelays(c.NewClass.ID, len(c.NewClass.Queues), true); err != nil {
				return -1, err
			}
		}
		return b.setClass(c.NewClass.ID, classConfig(*c.NewClass, l))
	case plan.RemoveClass:
		b.sent.leaves(*c.OldClass)
		return b.setClass(c.OldClass.ID, qdiscWeirClassConfig{})
	case plan.AddPort, plan.SetPort:
		return -1, nil // see mark
	case plan.RemovePort:
		return -1, b.marker.Detach(*c.OldPort)
	}
	return -1, nil // the link itself: written by the caller
}

func (b *Backend) setClass(id plan.ClassID, cfg qdiscWeirClassConfig) (int, error) {
	if cfg.Group != 0 {
		if err := b.obj.addGroup(id); err != nil {
			return -1, err
		}
	} else if cfg.ShareCost != 0 {
		if err := b.obj.addDelays(id, int(cfg.Queues), false); err != nil {
			return -1, err
		}
	}
	for q := range cfg.Queue {
		if cfg.Queue[q].Interval == 0 {
			continue
		}
		if err := b.obj.addHold(id, q); err != nil {
			return -1, err
		}
	}
	if err := b.obj.classes.Update(uint32(id), cfg, ebpf.UpdateExist); err != nil {
		return -1, fmt.Errorf("configure class %d of %s: %w", id, b.device, err)
	}
	return int(id), nil
}

// State is what the kernel holds now, as far as Weir made it.
func (b *Backend) State() (plan.State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.find(); err != nil || b.obj == nil || b.away {
		return plan.State{}, err
	}
	err := b.read()
	return plain(b.have), err
}

// Close lets go of everything; the kernel goes on scheduling.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop()
	return errors.Join(b.marker.Close(), b.conn.Close())
}

// Cleanup takes the qdisc off the link, puts the former one back and removes the
// pins. With the last link of the namespace, marking ends.
func (b *Backend) Cleanup(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop()
	dev, err := b.conn.Lookup(b.device)
	if err != nil {
		return err
	}
	b.dev = dev
	dir, err := b.pins()
	if err != nil {
		return err
	}
	b.prune(dir)
	err = b.conn.GiveBack(dev, b.opts, b.log)
	err = errors.Join(err, os.RemoveAll(dir), b.marker.DetachLink(dev))
	others, unknown := b.conn.SteersOthers(dev)
	if err = errors.Join(err, unknown); err == nil && !others {
		err = b.marker.CleanupAll()
	}
	device.RemovePinDir(filepath.Dir(dir))
	return err
}

var _ dataplane.Backend = (*Backend)(nil)
