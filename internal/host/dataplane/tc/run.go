// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/dataplane/device"
)

// interval is how often Run looks. One look sees a workload start, two see it stop,
// so shares hold within half a second (TestReaction); looking more often would cost
// CPU time for changes that TCP takes as long to follow. A look at 1,000 classes
// takes 2.2 ms of CPU time, telling HTB 1,000 new rates 6 ms (TestLookingIsCheap,
// on a virtual machine of 2026).
const interval = 200 * time.Millisecond

// Run computes HTB's rates anew as workloads come and go, until ctx ends. It
// returns nil then. Failures are logged, once per kind of failure, and tried
// again.
func (b *Backend) Run(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last string
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			err := b.step(now)
			if err != nil && err.Error() != last {
				b.log.Warn("cannot adapt the rates; they stay what they were", "err", err)
				last = err.Error()
			}
			if err == nil {
				last = ""
			}
		}
	}
}

// errNotSet says that there is nothing to adapt: Set was not called yet, or
// another program took the qdisc away. The agent will call Set.
var errNotSet = errors.New("the device does not have Weir's HTB")

// step is one interval of Run.
func (b *Backend) step(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.want.Classes) == 0 {
		return nil
	}
	dev, err := b.conn.Lookup(b.name)
	if err != nil {
		return err
	}
	root, err := b.conn.Root(dev)
	if err != nil {
		return err
	}
	if !ours(root) {
		return fmt.Errorf("%s: %w, but %s", b.name, errNotSet, root)
	}
	have, err := listClasses(b.conn, dev.Index)
	if err != nil {
		return device.Explain("read the classes of "+b.name, err)
	}
	b.notice(dev, have)
	b.learn(have, now)
	if err := b.applyRates(dev, have, worthwhile); err != nil {
		return err
	}
	return b.drain(dev, now)
}

// learn turns the counters of the classes into beliefs about what they want.
func (b *Backend) learn(have map[uint32]htbClass, now time.Time) {
	over := now.Sub(b.sampled)
	b.sampled = now
	for id, known := range b.classes {
		class, present := have[classMinor(id)]
		if !present {
			continue
		}
		// A counter that runs backwards belongs to a class that was made anew.
		if known.seen && class.sent >= known.sent {
			s := sample{sent: class.sent - known.sent, waiting: uint64(class.waiting), over: over}
			known.estimate = known.estimate.next(s, known.allowed)
			known.sharer.Demand = known.estimate.demand
			known.learned.bias = correct(known.learned, known.sharer.Demand, s)
			known.waits = known.waits.next(known.waiting, class.packets-known.packets, s)
		}
		known.sent, known.packets, known.waiting, known.seen = class.sent, class.packets, uint64(class.waiting), true
	}
}

// when decides whether settings that differ are worth a change.
type when func(capacity policy.Rate, have, want settings) bool

func always(policy.Rate, settings, settings) bool { return true }

func worthwhile(capacity policy.Rate, have, want settings) bool {
	return differs(capacity, bits(have.Rate), bits(want.Rate)) || have.Ceil != want.Ceil
}

// applyRates divides the link among the classes and tells HTB. If one class is
// worth a change, all are changed, so that the rates never add up to more than
// the capacity; those that fall go first for the same reason.
func (b *Backend) applyRates(dev device.Device, have map[uint32]htbClass, worth when) error {
	changes := b.changes(dev, have, worth)
	for _, change := range changes {
		if err := setClass(b.conn, dev.Index, classMinor(change.id), change.to); err != nil {
			return device.Explain(fmt.Sprintf("set the rate of class %d on %s", change.id, b.name), err)
		}
		b.classes[change.id].told = change.to
		b.log.Debug("set the rate of a class", "class", change.id, "rate", bits(change.to.Rate), "ceil", bits(change.to.Ceil))
	}
	return nil
}

// rateChange is one class whose settings are to change.
type rateChange struct {
	id       plan.ClassID
	from, to settings
}

func (b *Backend) changes(dev device.Device, have map[uint32]htbClass, worth when) []rateChange {
	ids := make([]plan.ClassID, 0, len(b.classes))
	for id := range b.classes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	sharers, learned := make([]policy.Sharer, len(ids)), make([]history, len(ids))
	for i, id := range ids {
		sharers[i], learned[i] = b.classes[id].sharer, b.classes[id].learned
	}
	capacity := b.want.Link.Capacity
	var list []rateChange
	any := false
	for i, g := range grants(capacity, sharers, learned) {
		known := b.classes[ids[i]]
		known.learned, known.allowed = history{g.share, g.bias}, max(g.share, g.rate)
		change := rateChange{ids[i], have[classMinor(ids[i])].settings, settingsOf(g, b.want.Link.Framing, dev)}
		if change.from == change.to {
			known.told = change.to
			continue
		}
		any = any || worth(capacity, change.from, change.to)
		list = append(list, change)
	}
	if !any {
		return nil
	}
	slices.SortStableFunc(list, func(x, y rateChange) int {
		return cmp.Compare(int64(x.to.Rate)-int64(x.from.Rate), int64(y.to.Rate)-int64(y.from.Rate))
	})
	return list
}
