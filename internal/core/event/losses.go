// SPDX-License-Identifier: Apache-2.0

package event

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// DropReasons are the reasons for which the kernel side drops packets (enum weir_drop in
// bpf/weir.h), but for reset: packets that wait when a device goes down are lost with it.
var DropReasons = []string{"class_packets", "class_bytes", "link_packets", "link_bytes", "queue_packets", "policed", "aqm"}

// Bounds are the parts of a workload's packets, 0 to 1, above which dropping them is told.
type Bounds struct {
	Any      float64            // for all reasons that By does not name; 0 = never
	ByReason map[string]float64 // 0 = never
}

// DefaultBounds are those of a configuration that says nothing. TCP that fills a link loses 1 %
// and less to CoDel.
var DefaultBounds = Bounds{Any: 0.1}

// of returns the bound for a reason, 0 if there is none.
func (b Bounds) of(reason string) float64 {
	if bound, ok := b.ByReason[reason]; ok {
		return bound
	}
	if reason == "reset" {
		return 0
	}
	return b.Any
}

const (
	// smoothing is the part of a mean that a new second makes up: it follows within 3 s.
	smoothing = 0.4
	// fewest is the rate of dropped packets, in a second, below which nothing is told.
	fewest = 10
)

// losses are means over the last seconds, for what has lost packets lately.
type losses map[Subject]*mean

type mean struct{ offered, dropped float64 } // packets a second

func (m mean) part() float64 {
	if m.offered <= 0 {
		return 0
	}
	return math.Min(m.dropped/m.offered, 1)
}

// follow takes in a second. What has not lost packets for a while is forgotten.
func (ls losses) follow(s Sight) {
	seen := map[Subject]bool{}
	for _, o := range s.Objects {
		for _, l := range o.Losses {
			about := Subject{Type: o.Type, Name: o.Name, Link: l.Link, Direction: l.Direction}
			ls.second(about, l, seen)
		}
	}
	maps.DeleteFunc(ls, func(about Subject, m *mean) bool {
		if !seen[about] {
			m.add(0, 0)
		}
		return m.dropped < 0.01
	})
}

// second adds what one workload lost on one link.
func (ls losses) second(about Subject, l Losses, seen map[Subject]bool) {
	for reason := range l.Dropped {
		about.Reason = reason
		if ls[about] == nil {
			// What was offered before is not known; as much as now is the best guess.
			ls[about] = &mean{offered: l.Offered}
		}
	}
	for _, reason := range DropReasons {
		about.Reason = reason
		if m := ls[about]; m != nil {
			m.add(l.Offered, l.Dropped[reason])
			seen[about] = true
		}
	}
}

func (m *mean) add(offered, dropped float64) {
	m.offered += smoothing * (offered - m.offered)
	m.dropped += smoothing * (dropped - m.dropped)
}

func lookDrops(l look) (found []Condition) {
	for _, about := range slices.SortedFunc(maps.Keys(l.losses), bySubject) {
		m, bound := l.losses[about], l.bounds.of(about.Reason)
		least := float64(fewest)
		if l.near(about) {
			bound, least = bound/2, fewest/2
		}
		if bound > 0 && m.part() > bound && m.dropped >= least {
			found = append(found, Condition{about, fmt.Sprintf("%.0f %% of its packets on %s (%s) are dropped: %s", 100*m.part(), about.Link, about.Direction, about.Reason),
				dropRemedies[about.Reason]})
		}
	}
	return found
}

// dropRemedies say what to do about drops, by reason.
var dropRemedies = map[string]string{
	"class_packets": "what sends does not slow down: give it a larger share or limit_packets, or limit it at its source",
	"class_bytes":   "what sends does not slow down: give it a larger share or limit_bytes, or limit it at its source",
	"link_packets":  "the link has no room for what waits: limit those that flood it (a max), or give the workload a min",
	"link_bytes":    "the link has no room for what waits: limit those that flood it (a max), or give the workload a min",
	"queue_packets": "one of its queues is full: give the queue a higher rate or weight, or a larger limit_packets",
	"policed":       "its strict queue is above its rate: raise the queue's rate, or send less by it",
	"aqm":           "what sends does not slow down when CoDel drops: give it a larger share, or limit it at its source",
}

func bySubject(x, y Subject) int {
	return cmp.Or(cmp.Compare(x.Type, y.Type), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Link, y.Link),
		cmp.Compare(x.Direction, y.Direction), cmp.Compare(x.Reason, y.Reason))
}
