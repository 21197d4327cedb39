// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/dataplane"
)

// Class is what a class did between two snapshots.
type Class struct {
	dataplane.Counters                    // at the later one
	Rate               float64            // sent, bits per second
	Offered            float64            // enqueued or dropped, bits per second
	OfferedPackets     float64            // enqueued or dropped, packets per second
	DropsPerSecond     float64            // packets per second
	Lost               map[string]float64 // the same by reason, without those that are 0
	Hungry             bool               // it would send more if it were let
	Waits              Waiting
	Inside             []Queue
}

// Waiting is what is known about the time between two snapshots in which packets of a class waited.
type Waiting struct {
	Seconds float64 // at least
	Bits    float64 // sent in them
	Of      float64 // seconds between the snapshots
	Whole   bool    // it waited in no other time
}

// part returns the part of the time in which packets waited, 0 to 1.
func (w Waiting) part() float64 {
	if w.Of <= 0 {
		return 0
	}
	return min(w.Seconds/w.Of, 1)
}

// Queue is what a queue inside a class did between two snapshots.
type Queue struct {
	dataplane.QueueCounters         // at the later one
	Rate                    float64 // sent, bits per second
	Offered                 float64 // enqueued or dropped, bits per second
	DropsPerSecond          float64 // packets per second
}

// measure compares two snapshots of a link. A class that is in the later one
// only, or whose counters went back (it was made anew), counts from zero.
func measure(before, after dataplane.LinkCounters) map[plan.ClassID]Class {
	seconds := after.At.Sub(before.At).Seconds()
	first := before.At.IsZero() || seconds <= 0
	used := make(map[plan.ClassID]Class, len(after.Classes))
	for id, now := range after.Classes {
		u := Class{Counters: now}
		for _, q := range now.Queues {
			u.Inside = append(u.Inside, Queue{QueueCounters: q})
		}
		if !first {
			u.since(before.Classes[id], seconds, after.WaitsWhole)
		}
		used[id] = u
	}
	return used
}

func (u *Class) since(before dataplane.Counters, seconds float64, whole bool) {
	if u.SentBytes < before.SentBytes || u.EnqueuedBytes < before.EnqueuedBytes {
		before = dataplane.Counters{}
	}
	for i := range u.Inside {
		if i < len(before.Queues) {
			u.Inside[i].since(before.Queues[i], seconds)
		} else {
			u.Inside[i].since(dataplane.QueueCounters{}, seconds)
		}
	}
	drops := dropped(u.Drops) - min(dropped(u.Drops), dropped(before.Drops))
	u.Rate = 8 * float64(u.SentBytes-before.SentBytes) / seconds
	u.Offered = 8 * float64(u.EnqueuedBytes-before.EnqueuedBytes) / seconds
	u.OfferedPackets = float64(u.EnqueuedPackets-min(u.EnqueuedPackets, before.EnqueuedPackets)) / seconds
	u.DropsPerSecond = float64(drops) / seconds
	for reason, n := range u.Drops {
		if was := before.Drops[reason]; n > was && seconds > 0 {
			if u.Lost == nil {
				u.Lost = map[string]float64{}
			}
			u.Lost[reason] = float64(n-was) / seconds
		}
	}
	u.Waits = waited(before, u.Counters, seconds, whole)
	u.Hungry = u.Waits.part() >= always || !whole && hungry(before, u.Counters, drops)
}

func (u *Queue) since(before dataplane.QueueCounters, seconds float64) {
	if u.SentBytes < before.SentBytes || u.EnqueuedBytes < before.EnqueuedBytes {
		before = dataplane.QueueCounters{} // another queue has this place now
	}
	u.Rate = 8 * float64(u.SentBytes-before.SentBytes) / seconds
	u.Offered = 8 * float64(u.EnqueuedBytes-before.EnqueuedBytes) / seconds
	u.DropsPerSecond = float64(dropped(u.Drops)-min(dropped(u.Drops), dropped(before.Drops))) / seconds
}

func dropped(reasons map[string]uint64) uint64 {
	var sum uint64
	for _, n := range reasons {
		sum += n
	}
	return sum
}

// always is the part of the time in which packets of a class wait that takes all it can get. A
// little is missing where a TCP slows down, or where the time began or ended in a second.
const always = 0.9

// waited compares the times of waiting of two snapshots.
func waited(before, now dataplane.Counters, seconds float64, whole bool) Waiting {
	w := Waiting{Of: seconds, Whole: whole}
	if now.Waited >= before.Waited && now.WaitedBytes >= before.WaitedBytes {
		w.Seconds, w.Bits = min((now.Waited-before.Waited).Seconds(), seconds), 8*float64(now.WaitedBytes-before.WaitedBytes)
	}
	return w
}

// hungry reports whether a class wants more than it gets, by a guess, for a backend that does not
// know the times in which packets wait. A single packet that waits at the
// instant of a snapshot is no sign of that (a ping is one); two are, or one at two snapshots,
// or a packet for which there was no room.
func hungry(before, now dataplane.Counters, drops uint64) bool {
	return drops > 0 || now.BacklogPackets >= 2 || now.BacklogPackets == 1 && before.BacklogPackets >= 1
}

// demand returns what the class wants to send: all it can get, or what it sent.
func (u Class) demand() policy.Rate {
	if u.Hungry {
		return policy.Unlimited
	}
	return policy.Rate(u.Rate)
}

func (u *Class) add(other Class) {
	u.EnqueuedPackets += other.EnqueuedPackets
	u.EnqueuedBytes += other.EnqueuedBytes
	u.SentPackets += other.SentPackets
	u.SentBytes += other.SentBytes
	u.BacklogPackets += other.BacklogPackets
	u.BacklogBytes += other.BacklogBytes
	u.DroppedBytes += other.DroppedBytes
	u.Marked += other.Marked
	u.Thinned += other.Thinned
	u.Delays = u.Delays.Plus(other.Delays)
	for reason, n := range other.Drops {
		if u.Drops == nil {
			u.Drops = map[string]uint64{}
		}
		u.Drops[reason] += n
	}
	u.Rate += other.Rate
	u.Offered += other.Offered
	u.OfferedPackets += other.OfferedPackets
	u.DropsPerSecond += other.DropsPerSecond
	u.Hungry = u.Hungry || other.Hungry
	u.Waits.Seconds = max(u.Waits.Seconds, other.Waits.Seconds)
	u.Waits.Of, u.Waits.Whole = other.Waits.Of, other.Waits.Whole
}
