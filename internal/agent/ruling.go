// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"time"

	"weir/internal/config"
)

// ruling is a world with the decision about it and the workloads that weir attach made.
type ruling struct {
	world    world
	decided  decision
	attached []config.Attachment
}

// rule decides about a world, which takes over the class numbers and the mins that the
// decision grants.
func rule(w world, attached []config.Attachment) ruling {
	d := decide(w)
	w.number, w.grants = d.number, d.grants
	return ruling{w, d, attached}
}

// commit makes a ruling the present one, keeps it, and puts it into force on every link that
// is steered. The error is about the links; the agent tries again what failed there.
func (a *Agent) commit(ctx context.Context, next ruling, why reasons) ([]plannedChange, error) {
	a.adopt(ctx, next, why)
	var failed []error
	var all []plannedChange
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

// adopt makes a ruling the present one as far as commit goes without the kernel: it keeps the
// ruling and wants it of every link.
func (a *Agent) adopt(ctx context.Context, next ruling, why reasons) {
	d := next.decided
	if err := a.store.save(a.keep(next)); err != nil {
		// Better to steer and forget than not to steer. The user who asks for a change
		// is told before, see try.
		a.log.Error("a restarted agent will not know what is in force now", "err", err)
	}
	a.logStates(a.decided, d, why)
	a.logLinkGaps(a.decided, d)
	a.record(ctx, a.decided, d, why)
	a.world, a.decided, a.attached = next.world, d, next.attached
	for _, l := range a.links {
		if want, ok := d.plans[l.config.Name()]; ok {
			l.wants(want)
		}
	}
}
