// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"time"

	"weir/internal/api"
	"weir/internal/core/delay"
	"weir/internal/core/plan"
)

// waitsEpoch is how many snapshots, one a second, an epoch of Waits has.
const waitsEpoch = 10

// Waits has how long the packets of each class and queue of a link waited: all that left since
// the agent has known it, and those of the present and the former epoch of ten seconds, of which
// quantiles are shown. The zero value is ready.
type Waits struct {
	snapshots int
	of        map[waiting]*delays
}

// waiting is a class, or one of its queues from 0 on; wholeClass is the class.
type waiting struct {
	class plan.ClassID
	queue int
}

const wholeClass = -1

// delays has sums that never go back, though the kernel's own counts do.
type delays struct {
	last, total   *delay.Histogram // as the kernel counted last; all that were added up
	begun, former *delay.Histogram // total at the beginning of the present epoch, and of the former
}

// Add takes one snapshot's counts and forgets the classes that are gone. Groups have no counts
// of their own.
func (w *Waits) Add(state plan.State, used map[plan.ClassID]Class) {
	kept := map[waiting]*delays{}
	add := func(at waiting, counted *delay.Histogram) {
		if counted == nil {
			return
		}
		kept[at] = w.of[at].with(counted, w.snapshots%waitsEpoch == 0)
	}
	for _, class := range state.Classes {
		if class.Group {
			continue
		}
		u := used[class.ID]
		add(waiting{class.ID, wholeClass}, u.Delays)
		for q := range u.Inside {
			add(waiting{class.ID, q}, u.Inside[q].Delays)
		}
	}
	w.of = kept
	w.snapshots++
}

// Rest is Add of a snapshot whose counts are those of the one before.
func (w *Waits) Rest() {
	if w.snapshots%waitsEpoch == 0 {
		for _, one := range w.of {
			one.begun, one.former = one.total, one.begun
		}
	}
	w.snapshots++
}

// with returns the counts with those of another snapshot; epoch says that it begins an epoch.
func (w *delays) with(counted *delay.Histogram, epoch bool) *delays {
	if w == nil {
		return &delays{last: counted, total: counted, begun: counted, former: counted}
	}
	next := *w
	next.last = counted
	if counted != w.last && *counted != *w.last {
		next.total = w.total.Plus(counted.Since(w.last))
	}
	if epoch {
		next.begun, next.former = next.total, w.begun
	}
	return &next
}

// Class returns the delays of a class, or of a group's members together; nil where they are
// not measured.
func (w *Waits) Class(state plan.State, class plan.Class) *api.Delay {
	if !class.Group {
		return w.view(waiting{class.ID, wholeClass})
	}
	var members []waiting
	for _, member := range membersOf(state)[class.ID] {
		members = append(members, waiting{member.ID, wholeClass})
	}
	return w.view(members...)
}

// Queue returns the same of a queue inside a class.
func (w *Waits) Queue(class plan.ClassID, queue int) *api.Delay { return w.view(waiting{class, queue}) }

func (w *Waits) view(list ...waiting) *api.Delay {
	var lately, total *delay.Histogram
	for _, at := range list {
		if one := w.of[at]; one != nil {
			lately, total = lately.Plus(one.total.Since(one.former)), total.Plus(one.total)
		}
	}
	if total == nil {
		return nil
	}
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	return &api.Delay{Packets: lately.Count(), Total: total,
		P50Ms: ms(lately.Quantile(0.5)), P99Ms: ms(lately.Quantile(0.99)), MostMs: ms(lately.Most())}
}

// WaitsText returns the sentence of an explanation about how long packets wait.
func WaitsText(d *api.Delay) string {
	switch {
	case d == nil:
		return "How long its packets wait is not measured there."
	case d.Packets == 0:
		return "None of its packets has left in the last seconds, so none has waited."
	}
	return fmt.Sprintf("Of its packets of the last seconds half waited at most %s, 99 of 100 at most %s, and none longer than %s.",
		delay.MsText(d.P50Ms), delay.MsText(d.P99Ms), delay.MsText(d.MostMs))
}
