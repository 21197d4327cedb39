// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
)

// Counters reads every class that exists.
func (b *Backend) Counters() (dataplane.LinkCounters, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.obj == nil || time.Since(b.seen) > justNow {
		if err := b.find(); err != nil {
			return dataplane.LinkCounters{}, err
		}
	}
	if b.obj == nil {
		return dataplane.LinkCounters{}, fmt.Errorf("%s does not have Weir's qdisc", b.device)
	}
	snap := dataplane.LinkCounters{At: time.Now(), WaitsWhole: true}
	var err error
	if snap.Leaving, err = b.sent.read(b.obj, b.have); err != nil {
		return snap, err
	}
	if snap.Classes, err = b.readings.all(b.obj, b.have, &b.sent); err != nil {
		return snap, err
	}
	snap.Sent = b.sent.total
	if len(snap.Leaving) > 0 {
		b.readings.forget()
	}
	snap.Changes = max(b.readings.changes, 1)
	return snap, nil
}

// all counts what all classes did.
func (r *readings) all(o *object, have plan.State, sent *sent) (map[plan.ClassID]dataplane.Counters, error) {
	before := r.changes
	own := make([]dataplane.Counters, len(have.Classes))
	for i := range have.Classes {
		var err error
		if own[i], err = r.class(o, &have.Classes[i], sent); err != nil {
			return nil, err
		}
	}
	if r.changes == before && r.whole != nil {
		return r.whole, nil
	}
	all := make(map[plan.ClassID]dataplane.Counters, len(own))
	members := map[plan.ClassID]dataplane.Counters{} // of each group, added up
	for i := range own {
		class := &have.Classes[i]
		all[class.ID] = own[i]
		if class.Parent != 0 {
			members[class.Parent] = sum(members[class.Parent], own[i])
		}
	}
	for i := range have.Classes {
		if class := &have.Classes[i]; class.Group {
			all[class.ID] = group(all[class.ID], members[class.ID])
		}
	}
	r.whole = all
	return all, nil
}

// class counts what a class did. That of a group is its own.
func (r *readings) class(o *object, class *plan.Class, sent *sent) (dataplane.Counters, error) {
	c, err := o.class(class.ID)
	if err != nil {
		return dataplane.Counters{}, err
	}
	if n, same := r.same(class.ID, &c); same {
		return n, nil
	}
	sent.add(class.ID, c)
	n := counters(c, monotonic())
	if !class.Group {
		if n.Delays, err = o.delaysOf(class.ID, -1); err != nil {
			return n, err
		}
	}
	for q := range class.Queues {
		counted, err := o.readQueue(class, q)
		if err != nil {
			return n, err
		}
		n.Queues = append(n.Queues, counted)
	}
	r.note(class.ID, &c, n)
	return n, nil
}

// readQueue counts what a queue of a class did.
func (o *object) readQueue(class *plan.Class, q int) (dataplane.QueueCounters, error) {
	stats, flow, err := o.queue(class.ID, q)
	if err != nil {
		return dataplane.QueueCounters{}, err
	}
	counted := queueCounters(stats, flow)
	if counted.Delays, err = o.delaysOf(class.ID, q); err != nil {
		return counted, err
	}
	if class.Queues[q].Interval != 0 {
		packets, bytes, err := o.hold(class.ID, q)
		if err != nil {
			return counted, fmt.Errorf("read queue %d of class %d: %w", q, class.ID, err)
		}
		counted.BacklogPackets += packets
		counted.BacklogBytes += bytes
		counted.EnqueuedBytes += bytes
	}
	return counted, nil
}

// monotonic returns the clock of the qdisc's times.
func monotonic() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail with these arguments
	return time.Duration(now.Nano())
}

// counters returns a class's counters at time now, by the qdisc's clock.
func counters(c qdiscWeirClass, now time.Duration) dataplane.Counters {
	waited, sent := c.Waited, c.WaitedBytes
	if c.WaitSince != 0 { // and it still waits
		waited += uint64(max(now-time.Duration(c.WaitSince), 0))
		sent += c.SentBytes - c.WaitFrom
	}
	return dataplane.Counters{
		Waited: time.Duration(waited), WaitedBytes: sent,
		// The kernel side counts packets that came; their bytes follow.
		EnqueuedPackets: c.EnqueuedPackets, EnqueuedBytes: c.SentBytes + c.DroppedBytes + c.Backlog + c.HeldBytes,
		SentPackets: c.SentPackets, SentBytes: c.SentBytes,
		BacklogPackets: uint64(c.Qlen) + uint64(c.Held), BacklogBytes: c.Backlog + c.HeldBytes,
		Drops: drops(c.Drops), DroppedBytes: c.DroppedBytes,
		Marked: c.Marked, Thinned: c.Thinned,
	}
}

func queueCounters(n qdiscWeirQueueStats, f qdiscWeirFlow) dataplane.QueueCounters {
	return dataplane.QueueCounters{
		EnqueuedPackets: n.EnqueuedPackets, EnqueuedBytes: n.SentBytes + n.DroppedBytes + uint64(f.Backlog),
		SentPackets: n.SentPackets, SentBytes: n.SentBytes,
		BacklogPackets: uint64(f.Qlen), BacklogBytes: uint64(f.Backlog),
		Drops: drops(n.Drops), DroppedBytes: n.DroppedBytes,
	}
}

func drops(numbers [len(dropReasons)]uint64) map[string]uint64 {
	named := map[string]uint64{}
	for reason, n := range numbers {
		named[dropReasons[reason]] = n
	}
	return named
}

// sum is what waits and was dropped in all of a group's members.
func sum(a, b dataplane.Counters) dataplane.Counters {
	a.BacklogPackets += b.BacklogPackets
	a.BacklogBytes += b.BacklogBytes
	a.DroppedBytes += b.DroppedBytes
	a.Marked += b.Marked
	a.Thinned += b.Thinned
	a.Delays = a.Delays.Plus(b.Delays)
	if a.Drops == nil {
		a.Drops = map[string]uint64{}
	}
	for reason, n := range b.Drops {
		a.Drops[reason] += n
	}
	return a
}

// group is a group's counters. What its members sent as such the kernel side
// counts (own); the rest is what its present members have.
func group(own, members dataplane.Counters) dataplane.Counters {
	members.SentPackets, members.SentBytes = own.SentPackets, own.SentBytes
	members.EnqueuedPackets = own.SentPackets + members.BacklogPackets
	for _, n := range members.Drops {
		members.EnqueuedPackets += n
	}
	members.EnqueuedBytes = own.SentBytes + members.DroppedBytes + members.BacklogBytes
	return members
}
