// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"fmt"
	"time"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
)

// The reasons for a drop that the leaf qdiscs let one tell, in the words of
// bpf/weir.h where there is one.
const (
	dropLimit = "class_packets" // the class's queue held its limit
	dropCodel = "aqm"           // fq_codel: the packet had waited too long
)

// Counters reads every class. Sent and waiting are HTB's, drops are the leaf
// qdisc's; what was offered is their sum, since nothing in the kernel counts it.
func (b *Backend) Counters() (dataplane.LinkCounters, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	dev, err := b.conn.Lookup(b.name)
	if err != nil {
		return dataplane.LinkCounters{}, err
	}
	root, err := b.conn.Root(dev)
	if err != nil {
		return dataplane.LinkCounters{}, err
	}
	if !ours(root) {
		return dataplane.LinkCounters{}, fmt.Errorf("%s: %w, but %s", b.name, errNotSet, root)
	}
	leaves, err := listLeaves(b.conn, dev.Index)
	if err != nil {
		return dataplane.LinkCounters{}, device.Explain("read the leaf qdiscs of "+b.name, err)
	}
	classes, err := listClasses(b.conn, dev.Index)
	if err != nil {
		return dataplane.LinkCounters{}, device.Explain("read the classes of "+b.name, err)
	}
	snapshot := dataplane.LinkCounters{At: time.Now(), Classes: make(map[plan.ClassID]dataplane.Counters)}
	snapshot.Leaving, b.gone = b.gone, nil
	snapshot.Sent = sentOf(classes[linkMinor]) // HTB adds up there what all its classes send
	for minor, class := range classes {
		id, ok := classOfMinor(minor)
		if !ok {
			continue
		}
		known := b.classes[id]
		if known != nil && !known.drainUntil.IsZero() {
			snapshot.Leaving = append(snapshot.Leaving, dataplane.Leaving{ID: id, Sent: sentOf(class)})
			continue
		}
		c := countersOf(class, leaves[id])
		if known != nil {
			c.Waited, c.WaitedBytes = known.waits.time, known.waits.bytes
		}
		snapshot.Classes[id] = c
	}
	return snapshot, nil
}

func sentOf(class htbClass) dataplane.Sent {
	return dataplane.Sent{Packets: class.packets, Bytes: class.sent}
}

func countersOf(class htbClass, l leaf) dataplane.Counters {
	c := dataplane.Counters{
		SentPackets: class.packets, SentBytes: class.sent,
		BacklogPackets: uint64(class.waiting), BacklogBytes: uint64(class.backlog),
		Drops: map[string]uint64{}, Marked: uint64(l.marked),
	}
	full := l.drops
	if l.kind == "fq_codel" {
		full = min(l.full, l.drops)
	}
	if full > 0 {
		c.Drops[dropLimit] = uint64(full)
	}
	if full < l.drops {
		c.Drops[dropCodel] = uint64(l.drops - full)
	}
	c.EnqueuedPackets = c.SentPackets + c.BacklogPackets + uint64(l.drops)
	c.EnqueuedBytes = c.SentBytes + c.BacklogBytes
	return c
}
