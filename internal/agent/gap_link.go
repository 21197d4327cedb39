// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"weir/internal/config"
	"weir/internal/dataplane"
	"weir/internal/plan"
)

// planned returns the link as its backend is told, with what the backend has in the
// place of what it lacks: a host whose kernel holds less than its configuration asks for
// is steered all the same.
func (w world) planned(l config.Link) plan.Link {
	link := l.Plan()
	abilities := w.abilities[link.Name()]
	if abilities.Scheduler != "" {
		link.Scheduler = plan.SchedulerFair
	}
	if abilities.NoNegativeOverhead {
		link.Overhead = max(link.Overhead, 0)
	}
	return link
}

// linkGaps lists what the link's backend does not hold of its settings.
func (w world) linkGaps(l config.Link) []gap {
	abilities := w.abilities[l.Name()]
	var gaps []gap
	if abilities.Scheduler != "" && l.Scheduler != plan.SchedulerFair {
		gaps = append(gaps, gap{field: "scheduler", value: l.Scheduler,
			reason: "HTB schedules in its place and divides the link as scheduler fair does"})
	}
	if abilities.NoNegativeOverhead && l.Overhead < 0 {
		gaps = append(gaps, gap{field: "overhead", value: strconv.Itoa(l.Overhead),
			reason: "HTB takes no bytes off a packet's length, and counts an overhead of 0"})
	}
	for i := range gaps {
		gaps[i].link, gaps[i].device, gaps[i].direction = l.Name(), l.Device, l.Direction
		gaps[i].origin, gaps[i].accepted = originConfig, w.config.AcceptGaps
	}
	return gaps
}

// scheduler names what schedules the link: the backend's own, or the one that was asked
// for.
func (l *link) scheduler() string {
	if l.backend == nil {
		return l.config.Scheduler
	}
	return cmp.Or(l.abilities.Scheduler, l.config.Scheduler)
}

// gapSentences say what is not held on a link.
func gapSentences(gaps []gap) []string {
	var text []string
	for _, g := range gaps {
		text = append(text, fmt.Sprintf("%s is not held here: %s.", upper(g.what()), g.reason))
	}
	return text
}

// logLinkGaps writes down what of the links' settings is not held, and what is held
// again.
func (a *Agent) logLinkGaps(before, after decision) {
	for _, name := range slices.Sorted(maps.Keys(after.linkGaps)) {
		for _, g := range after.linkGaps[name] {
			if !slices.Contains(before.linkGaps[name], g) {
				a.log.Warn("link does not have all that was asked for it", "link", name, "setting", g.what(), "note", g.reason, "accepted", g.accepted)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.linkGaps)) {
		if _, there := after.plans[name]; there && len(after.linkGaps[name]) == 0 && len(before.linkGaps[name]) > 0 {
			a.log.Info("link has all that was asked for it", "link", name)
		}
	}
}

// expected returns the abilities of the world's links; a link that is new will have
// those of the others, since one kernel runs them all.
func (w world) expected(known map[string]dataplane.Abilities) map[string]dataplane.Abilities {
	all := maps.Clone(known)
	for _, l := range w.links() {
		if _, ok := all[l.Name()]; !ok && len(known) > 0 {
			all[l.Name()] = known[slices.Min(slices.Collect(maps.Keys(known)))]
		}
	}
	return all
}
