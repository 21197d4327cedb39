// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"weir/internal/agent/decide"
	"weir/internal/dataplane"
)

// abilities are those of the links' backends that lack something, by the links'
// names; of a link that is not steered, those that it had last.
func (a *Agent) abilities() map[string]dataplane.Abilities {
	known := map[string]dataplane.Abilities{}
	for _, l := range a.links {
		if l.backend != nil {
			l.abilities = l.backend.Abilities()
		}
		if l.abilities != (dataplane.Abilities{}) {
			known[l.config.Name()] = l.abilities
		}
	}
	return known
}

// learn decides anew where a link's backend holds more or less than the one that was
// decided for, as after a start on another kernel.
func (a *Agent) learn(ctx context.Context) {
	known := a.abilities()
	if maps.Equal(known, a.decided.World.Abilities) {
		return
	}
	next := a.decided.World.Clone()
	next.Abilities = known
	a.adopt(ctx, decide.Decide(next), decide.Reasons{General: "what the links' backends hold"})
}

// scheduler names what schedules the link: the backend's own, or the one that was asked
// for.
func (l *link) scheduler() string {
	if l.backend == nil {
		return l.config.Scheduler
	}
	return cmp.Or(l.abilities.Scheduler, l.config.Scheduler)
}

// logLinkGaps writes down what of the links' settings is not held, and what is held
// again.
func (a *Agent) logLinkGaps(before, after decide.Decision) {
	for _, name := range slices.Sorted(maps.Keys(after.LinkGaps)) {
		for _, g := range after.LinkGaps[name] {
			if !slices.Contains(before.LinkGaps[name], g) {
				a.log.Warn("link does not have all that was asked for it", "link", name, "setting", g.What(), "note", g.Reason, "accepted", g.Accepted)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.LinkGaps)) {
		if _, there := after.Plans[name]; there && len(after.LinkGaps[name]) == 0 && len(before.LinkGaps[name]) > 0 {
			a.log.Info("link has all that was asked for it", "link", name)
		}
	}
}
