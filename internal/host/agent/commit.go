// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"maps"
	"time"

	"weir/internal/host/agent/decide"
	"weir/internal/host/agent/memory"
	"weir/internal/host/agent/past"
)

// commit makes a decision the present one, keeps it, and puts it into force on every link that
// is steered. The error is about the links; the agent tries again what failed there.
func (a *Agent) commit(ctx context.Context, next decide.Decision, why decide.Reasons) ([]decide.PlannedChange, error) {
	a.adopt(ctx, next, why)
	var failed []error
	var all []decide.PlannedChange
	for _, l := range a.links {
		if l.backend == nil || !l.dirty {
			continue
		}
		changes, err := l.set(ctx, time.Now())
		failed = append(failed, err)
		list := decide.Explained(changes, l.config.Name(), next, why)
		a.record.Changes(l.log, list)
		all = append(all, list...)
	}
	a.links.complain()
	a.offloads.Follow(next.Rulings, a.links.slowest())
	return all, errors.Join(failed...)
}

// adopt makes a decision the present one as far as commit goes without the kernel: it keeps
// the decision's world and wants the plans of every link.
func (a *Agent) adopt(ctx context.Context, next decide.Decision, why decide.Reasons) {
	if err := a.save(next.World); err != nil {
		// Better to steer and forget than not to steer. The user who asks for a change
		// is told before, see grant.
		a.log.Error("a restarted agent will not know what is in force now", "err", err)
	}
	a.settle(next)
	a.record.Decided(ctx, a.decided, next, why)
	a.decided = next
	past.Ask(a.opts.Paths, next)
	a.links.want(next.Plans)
}

// save keeps a world, and what the sources saw, for the next agent.
func (a *Agent) save(w decide.World) error { return a.store.Save(memory.Of(w, a.finder.seen())) }

// learn decides anew where a link's backend holds more or less than the one that was
// decided for, as after a start on another kernel.
func (a *Agent) learn(ctx context.Context) {
	known := a.links.abilities()
	if maps.Equal(known, a.decided.World.Abilities) {
		return
	}
	next := a.decided.World.Clone()
	next.Abilities = known
	a.adopt(ctx, decide.Decide(next), decide.Reasons{General: "what the links' backends hold"})
}
