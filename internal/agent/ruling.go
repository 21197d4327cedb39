// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"time"

	"weir/internal/agent/decide"
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
		all = append(all, a.logChanges(l, changes, why)...)
	}
	a.complain()
	a.limitOffload()
	return all, errors.Join(failed...)
}

// adopt makes a decision the present one as far as commit goes without the kernel: it keeps
// the decision's world and wants the plans of every link.
func (a *Agent) adopt(ctx context.Context, next decide.Decision, why decide.Reasons) {
	if err := a.store.save(a.keep(next.World)); err != nil {
		// Better to steer and forget than not to steer. The user who asks for a change
		// is told before, see grant.
		a.log.Error("a restarted agent will not know what is in force now", "err", err)
	}
	a.logStates(a.decided, next, why)
	a.logLinkGaps(a.decided, next)
	a.record(ctx, a.decided, next, why)
	a.decided = next
	for _, l := range a.links {
		if want, ok := next.Plans[l.config.Name()]; ok {
			l.wants(want)
		}
	}
}
