// SPDX-License-Identifier: Apache-2.0

package ceiling

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
)

// lowerQueues leaves out queues, and a discipline, that take the place of the administrator's
// queues, and queues that hold more packets than the administrator lets wait.
func (h *holder) lowerQueues(l policy.Change) policy.Change {
	if given := h.admin.To().Queues; h.admin.Gives("queues") && len(given) > 0 {
		asked, admin := l.Apply(policy.Default()), h.admin.Apply(policy.Default())
		if l.Gives("discipline") && (h.admin.Gives("discipline") || !asked.Discipline.HasQueues()) && !policy.Same("discipline", asked, admin) {
			l = h.refuse(l, "discipline", "queues")
		}
		if l.Gives("queues") && !policy.Same("queues", asked, admin) {
			l = h.refuse(l, "queues", "queues")
		}
		return l
	}
	most := h.admin.To().LimitPackets
	longer := func(q policy.Queue) bool { return q.LimitPackets > most }
	if l.Gives("queues") && h.admin.Gives("limit_packets") && most > 0 && slices.ContainsFunc(l.To().Queues, longer) {
		l = h.refuse(l, "queues", "limit_packets")
	}
	return l
}

// lowerFloor leaves reservations out that take more on the wire than the min, or the
// reservation, that the administrator gives: they count as a min.
func (h *holder) lowerFloor(l policy.Change) policy.Change {
	if !h.admin.Gives("min") && !h.admin.Gives("reserve") {
		return l
	}
	given := h.admin.Only("min", "reserve").Apply(policy.Default())
	tooMuch := func(l policy.Change) bool {
		return slices.ContainsFunc(h.links, func(link config.Link) bool {
			end := link.Plan()
			asked := l.Apply(policy.Default()).InZone(end.Part, end.Aside)
			return h.sameWay(link) && max(asked.Min.Of(end.Capacity), policy.WireOf(asked.Reserved(end.Capacity), end.Overhead())) > h.leastFloor(end)
		})
	}
	by := "min"
	if given.Min.None() {
		by = "reserve"
	}
	if l.Gives("min") && !h.admin.Gives("min") && !given.Reserve.None() && tooMuch(l.Only("min")) {
		l = h.refuse(l, "min", "reserve")
	}
	if l.Gives("reserve") && tooMuch(l.Only("reserve")) {
		l = h.refuse(l, "reserve", by)
	}
	if l.Gives("queues") && tooMuch(l.Only("reserve", "queues")) {
		l = h.refuse(l, "queues", by)
	}
	return l
}

// leastFloor returns the least rate that the administrator's min and reservation come to on a link,
// at any time.
func (h *holder) leastFloor(link plan.Link) policy.Rate {
	p := h.admin.Only("min", "reserve", "zones").Apply(policy.Default())
	least := p.InZone(link.Part, link.Aside).Floor(link.Capacity, link.Overhead())
	for _, then := range h.admin.To().When {
		p := then.To.Only("min").Apply(p)
		least = min(least, p.InZone(link.Part, link.Aside).Floor(link.Capacity, link.Overhead()))
	}
	return least
}

// zoned returns what a policy says of a zone as a change.
func zoned(z policy.Zoned) policy.Change {
	var c policy.Change
	if z.Weight != 0 {
		c.Set("weight", func(p *policy.Policy) { p.Weight = z.Weight })
	}
	if !z.Min.None() {
		c.Set("min", func(p *policy.Policy) { p.Min = z.Min })
	}
	if !z.Max.None() {
		c.Set("max", func(p *policy.Policy) { p.Max = z.Max })
	}
	return c
}

// lowerZones leaves zones out that are given more than the administrator gives the workload, or of
// which the default one loses the administrator's max: what is said of a zone takes the place of
// what is said of all.
func (h *holder) lowerZones(l policy.Change) policy.Change {
	for _, z := range inZones(l) {
		why := h.above(zoned(z))
		if why == "" && h.standard(z.Zone) {
			switch {
			case h.admin.Gives("when"):
				why = "it would take the place of what differs at times"
			case z.Max.None() && h.bounded():
				why = "it takes the max away there"
			}
		}
		if why != "" {
			return h.leaveOut(l, "zones", "zone "+z.Zone, why)
		}
	}
	return l
}

func inZones(l policy.Change) []policy.Zoned {
	if !l.Gives("zones") {
		return nil
	}
	return l.To().Zones
}

// standard reports whether a zone is the default one of a link, where a workload has the mins and
// maxes that are said of no zone.
func (h *holder) standard(zone string) bool {
	return slices.ContainsFunc(h.links, func(link config.Link) bool {
		end := link.Plan()
		return h.sameWay(link) && end.Part == zone && !end.Aside
	})
}

// lowerTimes leaves what differs at times out if any of it is above the ceiling.
func (h *holder) lowerTimes(l policy.Change) policy.Change {
	if !l.Gives("when") {
		return l
	}
	for _, then := range l.To().When {
		if why := h.above(then.To); why != "" {
			return h.leaveOut(l, "when", then.Period.String(), why)
		}
	}
	return l
}

// above returns which field of a change is above the ceiling, "" if none is.
func (h *holder) above(l policy.Change) string {
	inner := holder{ask: h.ask, admin: h.admin, links: h.links, direction: h.direction, prefix: h.prefix}
	if inner.lowerFloor(inner.lowerCounts(inner.lowerAmounts(l))); len(inner.cuts) == 0 {
		return ""
	}
	c := inner.cuts[0]
	return fmt.Sprintf("%s %s, and the administrator's is %s", strings.TrimPrefix(c.Field, h.prefix), c.Asked, c.Given)
}

// leaveOut returns the change without times or zones that ask for too much.
func (h *holder) leaveOut(l policy.Change, field, of, why string) policy.Change {
	var given []string
	for _, name := range []string{"weight", "min", "max"} {
		if h.admin.Gives(name) {
			given = append(given, name+" "+text(h.admin, name))
		}
	}
	h.cut(field, text(l, field), strings.Join(given, " "), h.ask.Called(h.prefix+field),
		fmt.Sprintf("what it says of %s is more than the administrator gives: %s; write less, or raise it in weir.yaml", of, why))
	return l.Without(field)
}

// agree leaves out what contradicts what the administrator says of some time, in either direction:
// a decision does without the times of a policy that are wrong, so a min above the max of Saturdays
// would cost that max.
func (h *holder) agree(l policy.Change) policy.Change {
	lost := func(l policy.Change) bool { return losesTimes(h.admin.Over(l)) }
	if !h.admin.Gives("when") && !h.admin.Gives("ingress.when") || losesTimes(h.admin) || !lost(l) {
		return l
	}
	cut := func(field string) {
		h.cut(field, text(l, field), text(h.admin, "when"), h.named(field, text(l, field)), "beside it what the administrator says of some time would not hold; take it away, or change that in weir.yaml")
		l = l.Without(field)
	}
	given := l.Given()
	if alone := slices.IndexFunc(given, func(field string) bool { return !lost(l.Without(field)) }); alone >= 0 {
		cut(given[alone])
		return l
	}
	for _, field := range given {
		if lost(l) {
			cut(field)
		}
	}
	return l
}

// losesTimes reports whether a decision does without the times of a policy.
func losesTimes(c policy.Change) bool {
	return c.Apply(policy.Default()).Check() != nil && c.Without("when").Without("ingress.when").Apply(policy.Default()).Check() == nil
}
