// SPDX-License-Identifier: Apache-2.0

// Package away keeps workloads for a while that their source no longer sees. They count as there,
// without devices and cgroups, so that they keep their class:
//
//   - a container that holds a min has it for 30 s, in which a restart brings it back;
//   - a container, a unit or a pod that was known by its cgroup is there until its last socket is
//     closed, which another process may have, or the kernel for what is left of a connection. Those
//     packets count in its class, within its max.
package away

import (
	"log/slog"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/workload"
	"weir/internal/host/agent/decide/reports"
	"weir/internal/host/discover"
)

// grace is how long the min of a container that has stopped is kept for it. A restart takes
// seconds; if other workloads were admitted to its min meanwhile, it would come back to
// nothing.
const grace = 30 * time.Second

// settled is the time after which the backends have let go of a workload's cgroup.
const settled = 2 * time.Second

// absence is a workload that its source no longer sees.
type absence struct {
	discover.Workload
	until time.Time
	// source is where it was found, if it stays after that for as long as a socket of it is
	// open; else "".
	source string
	// unseen says that its source never reported it: it does not count as there.
	unseen bool
}

// List is the workloads that are away. It belongs to the agent's goroutine.
type List struct {
	log    *slog.Logger
	open   func() (map[plan.ClassID]bool, error)
	absent map[string]absence // by key
}

// New returns an empty List. open returns the classes of which sockets are open without a process
// of theirs; nil = that is not known, and no workload is kept for its sockets.
func New(open func() (map[plan.ClassID]bool, error), log *slog.Logger) *List {
	return &List{log: log, open: open, absent: map[string]absence{}}
}

// Retain keeps those of a source's workloads that have just stopped and hold a min, and those of
// which a socket may still be open. One that was renamed is no such thing, nor one that is attached
// by name: its source reports it until it is detached, whether it is there or not.
func (l *List) Retain(source string, before, after []discover.Workload, renamed map[string]string, holdsMin func(key string) bool, now time.Time) {
	has := reports.Keys(after)
	for key := range has {
		delete(l.absent, key)
	}
	for _, gone := range before {
		if _, moved := renamed[gone.Key]; has[gone.Key] || moved {
			continue
		}
		kept := absence{Workload: gone}
		if l.open != nil && mayOutlive(gone) {
			kept.until, kept.source = now.Add(settled), source
		}
		if gone.Kind == workload.KindDocker && holdsMin(gone.Key) {
			kept.until = now.Add(grace)
			l.log.Info("container has stopped; its min is kept for it", "workload", gone.Name, "for", grace)
		}
		if !kept.until.IsZero() {
			kept.Devices, kept.Cgroups, kept.Sockets, kept.Workload.Ended = nil, nil, nil, kept.source != ""
			kept.Note = "" // what it said was about those; a workload with a note and without them has no class
			l.absent[gone.Key] = kept
		}
	}
}

// Keep keeps the limits of a pod that was detached before its source has reported it, not the pod:
// what is left of it, such as a device, is reported later, and is within them.
func (l *List) Keep(pod discover.Workload, now time.Time) {
	l.absent[pod.Key] = absence{Workload: pod, until: now.Add(grace), unseen: true}
}

// mayOutlive reports whether sockets of a workload may outlive its processes.
func mayOutlive(w discover.Workload) bool {
	switch w.Kind {
	case workload.KindDocker, workload.KindUnit:
		return w.Ended || len(w.Cgroups)+len(w.Sockets) > 0
	case workload.KindPod: // detached when its cgroup is gone
		return true
	}
	return false
}

// GiveUp forgets the workloads that have been away for too long, and returns them and why each is
// gone, by key. number has their classes.
func (l *List) GiveUp(now time.Time, number map[string]plan.ClassID) (gone []discover.Workload, why map[string]string) {
	why = map[string]string{}
	var open map[plan.ClassID]bool
	for key, absent := range l.absent {
		switch {
		case now.Before(absent.until):
			continue
		case absent.source == "":
			why[key] = absent.Name + " did not come back within " + grace.String()
		default:
			if open == nil {
				open = l.openSockets()
			}
			if open[number[key]] {
				continue
			}
			why[key] = absent.Name + " has ended, and so has its last socket"
		}
		gone = append(gone, absent.Workload)
		delete(l.absent, key)
	}
	return gone, why
}

// Has reports whether a workload is away.
func (l *List) Has(key string) bool {
	_, is := l.absent[key]
	return is
}

// openSockets asks for the classes of which sockets are open.
func (l *List) openSockets() map[plan.ClassID]bool {
	open, err := l.open()
	if err != nil {
		l.log.Warn("cannot see whose sockets are open", "err", err)
		open = map[plan.ClassID]bool{}
	}
	return open
}

// Found returns the workloads, by key.
func (l *List) Found() map[string]discover.Workload {
	found := map[string]discover.Workload{}
	for key, absent := range l.absent {
		if !absent.unseen {
			found[key] = absent.Workload
		}
	}
	return found
}

// Ended returns the workloads of which a socket may be open, by source: the next agent looks after
// them.
func (l *List) Ended() map[string][]discover.Workload {
	ended := map[string][]discover.Workload{}
	for _, absent := range l.absent {
		if absent.source != "" {
			ended[absent.source] = append(ended[absent.source], absent.Workload)
		}
	}
	return ended
}
