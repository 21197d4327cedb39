// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"maps"
	"slices"
	"strconv"

	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/host/agent/decide/gap"
	"weir/internal/host/dataplane"
)

// planned returns the link as its backend is told, with what the backend has in the
// place of what it lacks: a host whose kernel holds less than its configuration asks for
// is steered all the same.
func (w World) planned(l config.Link) plan.Link {
	link := l.Plan()
	abilities := w.Abilities[link.Name()]
	if abilities.Scheduler != "" {
		link.Scheduler, link.Favour = plan.SchedulerFair, plan.FavourNeither
	}
	if abilities.NoNegativeOverhead {
		link.Framing.Overhead = max(link.Framing.Overhead, link.Framing.Header())
	}
	return link
}

// linkGaps lists what the link's backend does not hold of its settings.
func (w World) linkGaps(l config.Link) []gap.Gap {
	abilities := w.Abilities[l.Name()]
	var gaps []gap.Gap
	if abilities.Scheduler != "" && l.Scheduler != plan.SchedulerFair {
		gaps = append(gaps, gap.Gap{Field: "scheduler", Value: l.Scheduler,
			Reason: "HTB schedules in its place and divides the link as scheduler fair does"})
	}
	if abilities.Scheduler != "" && l.Favour != plan.FavourNeither {
		gaps = append(gaps, gap.Gap{Field: "favour", Value: l.Favour,
			Reason: "HTB sends packet by packet and has no batches to make short or long"})
	}
	if abilities.NoNegativeOverhead && l.Framing.Overhead < l.Framing.Header() {
		gaps = append(gaps, gap.Gap{Field: "overhead", Value: strconv.Itoa(l.Framing.Overhead),
			Reason: "HTB takes no bytes off a packet's length, and counts an overhead of 0"})
	}
	for i := range gaps {
		gaps[i].Link, gaps[i].Device, gaps[i].Direction = l.Name(), l.Place(), l.Direction
		gaps[i].Origin, gaps[i].Accepted = OriginConfig, w.Config.AcceptGaps
	}
	return gaps
}

// expectedAbilities returns the abilities of the world's links; a link that is new will have
// those of the others, since one kernel runs them all.
func (w World) expectedAbilities(known map[string]dataplane.Abilities) map[string]dataplane.Abilities {
	all := maps.Clone(known)
	for _, l := range w.Links() {
		if _, ok := all[l.Name()]; !ok && len(known) > 0 {
			all[l.Name()] = known[slices.Min(slices.Collect(maps.Keys(known)))]
		}
	}
	return all
}
