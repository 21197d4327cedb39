// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"

	"weir/internal/dataplane"
	"weir/internal/plan"
	"weir/internal/policy"
)

// usage is what a class did between two snapshots.
type usage struct {
	dataplane.Counters                    // at the later one
	rate               float64            // sent, bits per second
	offered            float64            // enqueued or dropped, bits per second
	drops              float64            // packets per second
	lost               map[string]float64 // the same by reason, without those that are 0
	hungry             bool               // it would send more if it were let
	queues             []queueUsage
}

// queueUsage is what a queue inside a class did between two snapshots.
type queueUsage struct {
	dataplane.QueueCounters         // at the later one
	rate                    float64 // sent, bits per second
	offered                 float64 // enqueued or dropped, bits per second
	drops                   float64 // packets per second
}

// measure compares two snapshots of a link. A class that is in the later one
// only, or whose counters went back (it was made anew), counts from zero.
func measure(before, after dataplane.Snapshot) map[plan.ClassID]usage {
	seconds := after.At.Sub(before.At).Seconds()
	first := before.At.IsZero() || seconds <= 0
	used := make(map[plan.ClassID]usage, len(after.Classes))
	for id, now := range after.Classes {
		u := usage{Counters: now}
		for _, q := range now.Queues {
			u.queues = append(u.queues, queueUsage{QueueCounters: q})
		}
		if !first {
			u.since(before.Classes[id], seconds)
		}
		used[id] = u
	}
	return used
}

func (u *usage) since(before dataplane.Counters, seconds float64) {
	if u.SentBytes < before.SentBytes || u.EnqueuedBytes < before.EnqueuedBytes {
		before = dataplane.Counters{}
	}
	for i := range u.queues {
		if i < len(before.Queues) {
			u.queues[i].since(before.Queues[i], seconds)
		} else {
			u.queues[i].since(dataplane.QueueCounters{}, seconds)
		}
	}
	drops := dropped(u.Drops) - min(dropped(u.Drops), dropped(before.Drops))
	u.rate = 8 * float64(u.SentBytes-before.SentBytes) / seconds
	u.offered = 8 * float64(u.EnqueuedBytes-before.EnqueuedBytes) / seconds
	u.drops = float64(drops) / seconds
	for reason, n := range u.Drops {
		if was := before.Drops[reason]; n > was && seconds > 0 {
			if u.lost == nil {
				u.lost = map[string]float64{}
			}
			u.lost[reason] = float64(n-was) / seconds
		}
	}
	u.hungry = hungry(before, u.Counters, drops)
}

func (u *queueUsage) since(before dataplane.QueueCounters, seconds float64) {
	if u.SentBytes < before.SentBytes || u.EnqueuedBytes < before.EnqueuedBytes {
		before = dataplane.QueueCounters{} // another queue has this place now
	}
	u.rate = 8 * float64(u.SentBytes-before.SentBytes) / seconds
	u.offered = 8 * float64(u.EnqueuedBytes-before.EnqueuedBytes) / seconds
	u.drops = float64(dropped(u.Drops)-min(dropped(u.Drops), dropped(before.Drops))) / seconds
}

func dropped(reasons map[string]uint64) uint64 {
	var sum uint64
	for _, n := range reasons {
		sum += n
	}
	return sum
}

// hungry tells who wants more than he gets from who has all that he wants. A
// single packet that happens to wait at the instant of the look is no sign of
// hunger (a ping is one); two are, or one at two looks, or a packet for which
// there was no room.
func hungry(before, now dataplane.Counters, drops uint64) bool {
	return drops > 0 || now.BacklogPackets >= 2 || now.BacklogPackets == 1 && before.BacklogPackets >= 1
}

// demand is what the class wants to send: all it can get, or what it sent.
func (u usage) demand() policy.Rate {
	if u.hungry {
		return policy.Unlimited
	}
	return policy.Rate(u.rate)
}

// division is the contract at work on one link at one moment.
type division struct {
	state  plan.State
	used   map[plan.ClassID]usage // groups are in it with what their members did together
	shares map[plan.ClassID]policy.Share
	level  float64                  // bits per second per unit of weight, on the link
	levels map[plan.ClassID]float64 // the same within each group
}

// divide says who should get how much, knowing who wants how much. If but is
// the number of a class, that one is taken to want all it can get.
func divide(state plan.State, used map[plan.ClassID]usage, but ...plan.ClassID) division {
	d := division{state: state, used: used, shares: map[plan.ClassID]policy.Share{}, levels: map[plan.ClassID]float64{}}
	claim := func(class plan.Class) policy.Claim {
		c := policy.Claim{Weight: class.Weight, Min: class.Min, Max: class.Ceiling(), Demand: used[class.ID].demand()}
		if slices.Contains(but, class.ID) {
			c.Demand = policy.Unlimited
		}
		return c
	}
	members := membersOf(state)
	var branches []policy.Branch
	var ids []plan.ClassID
	for _, class := range state.Classes {
		if class.Parent != 0 {
			continue
		}
		branch := policy.Branch{Claim: claim(class)}
		if class.Group {
			branch.Members = []policy.Claim{}
			for _, member := range members[class.ID] {
				branch.Members = append(branch.Members, claim(member))
			}
		}
		branches, ids = append(branches, branch), append(ids, class.ID)
	}
	result := policy.DivideTree(state.Link.Capacity, branches)
	d.level = result.Level
	for i, id := range ids {
		d.shares[id] = result.Shares[i]
		d.levels[id] = result.Groups[i].Level
		for j, member := range members[id] {
			d.shares[member.ID] = result.Groups[i].Shares[j]
		}
	}
	return d
}

// membersOf are the classes in each group.
func membersOf(state plan.State) map[plan.ClassID][]plan.Class {
	members := map[plan.ClassID][]plan.Class{}
	for _, class := range state.Classes {
		if class.Parent != 0 {
			members[class.Parent] = append(members[class.Parent], class)
		}
	}
	return members
}

// addGroups puts into used what the members of each group did together.
func addGroups(state plan.State, used map[plan.ClassID]usage) {
	members := membersOf(state)
	for _, class := range state.Classes {
		if !class.Group {
			continue
		}
		var sum usage
		for _, member := range members[class.ID] {
			sum.add(used[member.ID])
		}
		used[class.ID] = sum
	}
}

func (u *usage) add(other usage) {
	u.EnqueuedPackets += other.EnqueuedPackets
	u.EnqueuedBytes += other.EnqueuedBytes
	u.SentPackets += other.SentPackets
	u.SentBytes += other.SentBytes
	u.BacklogPackets += other.BacklogPackets
	u.BacklogBytes += other.BacklogBytes
	u.DroppedBytes += other.DroppedBytes
	for reason, n := range other.Drops {
		if u.Drops == nil {
			u.Drops = map[string]uint64{}
		}
		u.Drops[reason] += n
	}
	u.rate += other.rate
	u.offered += other.offered
	u.drops += other.drops
	u.hungry = u.hungry || other.hungry
}

// historyLength is how many seconds of rates are kept.
const historyLength = 60

// history is the rates of each class over the last minute. The zero value is
// ready.
type history struct {
	rings map[plan.ClassID]*ring
}

type ring struct {
	rates [historyLength]float64
	next  int
	full  bool
}

// add notes one second and forgets the classes that are gone.
func (h *history) add(used map[plan.ClassID]usage) {
	kept := make(map[plan.ClassID]*ring, len(used))
	for id, u := range used {
		r := h.rings[id]
		if r == nil {
			r = &ring{}
		}
		r.rates[r.next] = u.rate
		r.next = (r.next + 1) % historyLength
		r.full = r.full || r.next == 0
		kept[id] = r
	}
	h.rings = kept
}

// of is one class's rates, the oldest first.
func (h *history) of(id plan.ClassID) []float64 {
	r := h.rings[id]
	if r == nil {
		return nil
	}
	var rates []float64
	if r.full {
		rates = append(rates, r.rates[r.next:]...)
	}
	return append(rates, r.rates[:r.next]...)
}
