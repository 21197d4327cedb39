// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"weir/internal/agent/decide"
	"weir/internal/discover"
	"weir/internal/workload"
)

// grace is how long the min of a container that has stopped is kept for it. A
// restart takes seconds; in that time nobody else should be admitted to what it
// had, for then it would come back to nothing.
const grace = 30 * time.Second

// absence is a workload that its source no longer sees, and which counts as there,
// without devices, so that it keeps its class and its min.
type absence struct {
	discover.Workload
	until time.Time
}

// bear keeps those of a source's workloads that have just stopped and hold a min.
// What is attached by name needs no such thing: its source reports it until it is
// detached, whether it is there or not.
func (a *Agent) bear(before, after []discover.Workload, moved map[string]string, now time.Time) {
	has := decide.Keys(after)
	for key := range has {
		delete(a.away, key)
	}
	for _, w := range before {
		_, renamed := moved[w.Key]
		if has[w.Key] || renamed || w.Kind != workload.KindDocker || !a.decided.World.HoldsMin(w.Key) {
			continue
		}
		w.Devices, w.Cgroups = nil, nil
		a.away[w.Key] = absence{w, now.Add(grace)}
		a.log.Info("container has stopped; its min is kept for it", "workload", w.Name, "for", grace)
	}
}

// giveUp lets go of those that have been away for too long.
func (a *Agent) giveUp(ctx context.Context, now time.Time) {
	why := decide.Reasons{General: "a container did not come back", ByKey: map[string]string{}}
	for key, absent := range a.away {
		if now.Before(absent.until) {
			continue
		}
		delete(a.away, key)
		why.ByKey[key] = absent.Name + " did not come back within " + grace.String()
	}
	if len(why.ByKey) == 0 {
		return
	}
	next := a.decided.World.Clone()
	next.Found = a.merged()
	a.commit(ctx, decide.Decide(next), why)
}
