// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/mark"
)

// drainTime is how long the queue of a removed class may take to empty. Packets
// cannot be moved to another class; what waits longer is dropped and logged.
const drainTime = 5 * time.Second

// Set makes the kernel match want. The order keeps every packet in a class: the
// tree and new classes, then the filter and the marks, then the removals.
func (b *Backend) Set(ctx context.Context, want plan.State) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	dev, err := b.conn.Lookup(b.name)
	if err != nil {
		return err
	}
	before := b.want
	if err := b.takeRoot(dev); err != nil {
		return err
	}
	if err := b.remember(dev, withPorts(want, before.Ports)); err != nil {
		return err
	}
	b.want = withPorts(want, before.Ports)
	have, err := listClasses(b.conn, dev.Index)
	if err != nil {
		return device.Explain("read the classes of "+b.name, err)
	}
	if err := b.setClasses(dev, have); err != nil {
		return err
	}
	if err := b.setFilter(dev); err != nil {
		return err
	}
	if err := b.setPorts(dev, before.Ports, want); err != nil {
		return err
	}
	b.want = want
	if err := b.remember(dev, want); err != nil {
		return err
	}
	return b.drain(dev, time.Now())
}

// takeRoot makes HTB the root qdisc, unless it is.
func (b *Backend) takeRoot(dev device.Device) error {
	root, err := b.conn.Root(dev)
	if err == nil && root.Ours() {
		b.held = dev.Index
	}
	if err != nil || ours(root) {
		return err
	}
	if err := b.conn.Take(dev, b.opts, b.held == dev.Index, b.log); err != nil {
		return err
	}
	if root.Ours() { // the other backend's: a handle cannot change its kind
		if err := b.conn.DeleteRoot(dev); err != nil {
			return err
		}
	}
	if err := addRoot(b.conn, dev.Index); err != nil {
		return device.Explain("put HTB on "+b.name, err)
	}
	b.fresh, b.held = false, dev.Index
	for _, known := range b.classes {
		known.seen = false // counters begin at 0
	}
	b.log.Info("put HTB on the link", "former", root.String(), "leaf", b.leaf)
	return nil
}

// withPorts is want with those of the former ports that it no longer has.
func withPorts(want plan.State, former []plan.Port) plan.State {
	ports := slices.Clone(want.Ports)
	for _, port := range former {
		if !hasPort(want.Ports, port) {
			ports = append(ports, port)
		}
	}
	want.Ports = ports
	return want
}

func hasPort(ports []plan.Port, port plan.Port) bool {
	return slices.ContainsFunc(ports, func(p plan.Port) bool { return p.Place() == port.Place() })
}

// setClasses makes missing classes and leaves and gives every class its rates.
func (b *Backend) setClasses(dev device.Device, have map[uint32]htbClass) error {
	b.follow(have)
	link := b.linkSettings(dev)
	if have[linkMinor].settings != link {
		if err := setClass(b.conn, dev.Index, linkMinor, link); err != nil {
			return device.Explain("set the capacity of "+b.name, err)
		}
	}
	if err := b.applyRates(dev, have, always); err != nil {
		return err
	}
	leaves, err := listLeaves(b.conn, dev.Index)
	if err != nil {
		return device.Explain("read the leaf qdiscs of "+b.name, err)
	}
	for _, class := range workloads(b.want) {
		kind, packets, ce := b.leafOf(leaves, class)
		if packets == 0 {
			continue
		}
		if err := setLeaf(b.conn, dev.Index, class.ID, kind, packets, ce); err != nil {
			return device.Explain(fmt.Sprintf("set the queue of class %d (%s) on %s", class.ID, class.Name, b.name), err)
		}
	}
	return nil
}

// linkSettings are those of the class above all others. It has no use for a quantum,
// but without one the kernel complains.
func (b *Backend) linkSettings(dev device.Device) settings {
	capacity := b.want.Link.Capacity
	return settingsOf(grant{rate: capacity, ceil: capacity, quantum: minQuantum}, b.want.Link.Framing, dev)
}

// follow brings what Run knows in line with the wanted state: new policies at once,
// new classes as wanting all they can get, gone classes as draining.
func (b *Backend) follow(have map[uint32]htbClass) {
	for _, class := range workloads(b.want) {
		known := b.classes[class.ID]
		if known == nil || !known.drainUntil.IsZero() {
			b.classes[class.ID] = newClassState(class)
			continue
		}
		known.sharer.Weight, known.sharer.Min, known.sharer.Max = class.Weight, class.Min, class.Ceiling()
	}
	for minor := range have {
		// Left by an earlier process that could not remember them.
		if id, ok := classOfMinor(minor); ok && b.classes[id] == nil {
			b.classes[id] = newClassState(plan.Class{ID: id, Weight: 1})
		}
	}
	for id, known := range b.classes {
		class, wanted := b.want.Class(id)
		wanted = wanted && !class.Group
		_, present := have[classMinor(id)]
		switch {
		case wanted || !known.drainUntil.IsZero():
		case !present:
			b.left(id, htbClass{}, false)
		default:
			known.sharer.Min = 0 // perhaps given to others just now
			known.drainUntil = time.Now().Add(drainTime)
		}
	}
}

func (b *Backend) setFilter(dev device.Device) error {
	if b.fresh {
		present, err := hasClassifier(b.conn, dev.Index, b.opts.Carrier())
		if err != nil || present {
			return err
		}
	}
	// The first time even if there is one: it may be of an older version.
	if err := setClassifier(b.conn, dev.Index, b.opts.Carrier()); err != nil {
		return fmt.Errorf("%s: %w", b.name, err)
	}
	b.fresh = true
	return nil
}

// setPorts marks the wanted ports and stops marking the former ones. A device
// that went away meanwhile is no failure: its workload will be reported gone.
func (b *Backend) setPorts(dev device.Device, former []plan.Port, want plan.State) error {
	var failed error
	for _, port := range want.Ports {
		class, _ := want.Class(port.Class)
		err := b.marker.Attach(port, mark.MarkingOf(class))
		if errors.Is(err, dataplane.ErrNoDevice) {
			b.log.Debug("a port went away before it was marked", "port", port.String(), "ifindex", port.Ifindex)
			continue
		}
		failed = errors.Join(failed, err)
	}
	for _, port := range former {
		if !hasPort(want.Ports, port) {
			failed = errors.Join(failed, b.marker.Detach(port))
		}
	}
	return errors.Join(failed, b.marker.AttachLink(dev, want))
}

// drain removes the classes whose workload is gone and whose queue is empty, and
// those that took too long.
func (b *Backend) drain(dev device.Device, now time.Time) error {
	draining := b.draining()
	if len(draining) == 0 {
		return nil
	}
	have, err := listClasses(b.conn, dev.Index)
	if err != nil {
		return device.Explain("read the classes of "+b.name, err)
	}
	for _, id := range draining {
		class, present := have[classMinor(id)]
		if present && class.waiting > 0 && now.Before(b.classes[id].drainUntil) {
			continue
		}
		if present {
			if err := deleteClass(b.conn, dev.Index, class.minor); err != nil {
				return device.Explain(fmt.Sprintf("remove class %d from %s", id, b.name), err)
			}
		}
		if present && class.waiting > 0 {
			b.log.Warn("dropped what still waited in a removed class",
				"class", id, "packets", class.waiting, "bytes", class.backlog)
		}
		b.left(id, class, present)
	}
	return nil
}

// left notes what a class that is gone has sent.
func (b *Backend) left(id plan.ClassID, class htbClass, present bool) {
	sent := sentOf(class)
	if known := b.classes[id]; !present { // another program removed it
		sent = dataplane.Sent{Packets: known.packets, Bytes: known.sent}
	}
	b.gone = append(b.gone, dataplane.Leaving{ID: id, Sent: sent, Gone: true})
	delete(b.classes, id)
}

func (b *Backend) draining() []plan.ClassID {
	var list []plan.ClassID
	for id, known := range b.classes {
		if !known.drainUntil.IsZero() {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list
}
