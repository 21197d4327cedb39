// SPDX-License-Identifier: Apache-2.0

// Package ceiling holds what a workload asks for itself to what the administrator gives it. Every
// source that comes with a workload passes here: labels of containers and of images, annotations
// of pods and of namespaces, what a container brings from another node.
//
//   - A field that the source may not say does not count, nor does the same thing said inside
//     another field: a DSCP of a queue, a max at some time, a min in a zone.
//   - max, min, weight, reserve, burst and the limits are ceilings where weir.yaml, or an operator
//     at run time, gives them. A reservation counts as a min.
//   - A group, a DSCP, queues, a quota, zones and times that the administrator gives stay.
//   - Nothing that is asked for makes the administrator's own words contradict themselves.
//
// What does not count is left out, so that the administrator's value holds, and is a Cut with the
// value that was asked for and the one that is given. Example: weir.yaml gives max 50mbit, a label
// asks for 80mbit; the max is 50 Mbit/s, and the Cut says both.
//
// What it does not do: read labels or annotations, or admit a min. It is pure.
package ceiling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weir/internal/config"
	"weir/internal/core/policy"
)

// Ask is what one source asks for.
type Ask struct {
	Policy policy.Change
	Origin string // of the fields, as in api.Workload.Origin
	// Called returns how sentences call a field, by its name in policy.AllNames: "label
	// weir.limit-packets".
	Called func(field string) string
	// Forbids returns why the source may not say a field, "" if it may; nil = it may say all.
	Forbids func(field string) string
}

// Cut is a field that is asked for and does not count, or of which a part does not.
type Cut struct {
	Field  string // by its name in policy.AllNames
	Origin string // of the ask
	Asked  string // as a person writes it
	Given  string // what the administrator gives in its place; "" = the source may not say it
	Why    string // the reason, with a remedy
	Text   string // the sentence about it
}

// Hold returns what of an ask counts beside what the administrator gives, and what does not.
func Hold(ask Ask, admin policy.Change, links []config.Link) (policy.Change, []Cut) {
	h := holder{ask: ask, admin: admin, links: links, direction: policy.Egress}
	held := h.hold(ask.Policy)
	if ask.Policy.Ingress != nil {
		inner := holder{ask: ask, links: links, direction: policy.Ingress, prefix: "ingress."}
		if admin.Ingress != nil {
			inner.admin = *admin.Ingress
		}
		if held.Ingress = new(inner.hold(*ask.Policy.Ingress)); held.Ingress.Empty() {
			held.Ingress = nil
		}
		h.cuts = append(h.cuts, inner.cuts...)
	}
	held = h.agree(held)
	return held, h.cuts
}

// holder holds an ask to its ceiling in one direction.
type holder struct {
	ask       Ask
	admin     policy.Change // of this direction
	links     []config.Link
	direction policy.Direction
	prefix    string // of the direction's fields
	cuts      []Cut
}

// hold returns the part of a change that counts, in the holder's direction.
func (h *holder) hold(l policy.Change) policy.Change {
	l = h.mayAll(l)
	l = h.lowerAmounts(l)
	l = h.lowerCounts(l)
	l = h.keep(l)
	l = h.lowerQueues(l)
	l = h.lowerFloor(l)
	l = h.lowerZones(l)
	return h.lowerTimes(l)
}

// lowerAmounts leaves rates out that are above the administrator's.
func (h *holder) lowerAmounts(l policy.Change) policy.Change {
	asked, given := l.To(), h.admin.To()
	bounded := func(asked, given policy.Amount) bool { // none = no bound
		return !given.None() && (asked.None() || h.exceeds(asked, given))
	}
	for _, f := range []struct {
		field        string
		asked, given policy.Amount
		above        func(asked, given policy.Amount) bool
	}{
		{"max", asked.Max, given.Max, bounded},
		{"reserve", asked.Reserve, given.Reserve, bounded},
		{"min", asked.Min, given.Min, h.exceeds},
	} {
		if h.both(l, f.field) && f.above(f.asked, f.given) {
			l = h.refuse(l, f.field, f.field)
		}
	}
	return l
}

// lowerCounts leaves numbers and sizes out that are above the administrator's.
func (h *holder) lowerCounts(l policy.Change) policy.Change {
	asked, given := l.To(), h.admin.To()
	if h.both(l, "weight") && asked.Weight > given.Weight {
		l = h.refuse(l, "weight", "weight")
	}
	if l.Gives("burst") && (h.bounded() || h.admin.Gives("burst")) && asked.Burst > given.Burst {
		l = h.refuse(l, "burst", "burst")
	}
	if h.both(l, "limit_packets") && given.LimitPackets > 0 && asked.LimitPackets-1 > given.LimitPackets-1 { // 0 = the default, which may be more
		l = h.refuse(l, "limit_packets", "limit_packets")
	}
	if h.both(l, "limit_bytes") && given.LimitBytes > 0 && asked.LimitBytes-1 > given.LimitBytes-1 {
		l = h.refuse(l, "limit_bytes", "limit_bytes")
	}
	return l
}

// bounded reports whether the administrator gives a max, were it in one zone or at some time.
func (h *holder) bounded() bool {
	p := h.admin.To()
	return !p.Max.None() ||
		slices.ContainsFunc(p.Zones, func(z policy.Zoned) bool { return !z.Max.None() }) ||
		slices.ContainsFunc(p.When, func(then policy.Scheduled) bool { return !then.To.To().Max.None() })
}

// keep leaves fields out that the administrator gives and that have no order of more and less.
func (h *holder) keep(l policy.Change) policy.Change {
	asked, given := l.Apply(policy.Default()), h.admin.Apply(policy.Default())
	for _, field := range []string{"group", "dscp", "quota", "when", "zones"} {
		if h.both(l, field) && !policy.Same(field, asked, given) {
			l = h.refuse(l, field, field)
		}
	}
	return l
}

// both reports whether a change and the administrator give a field.
func (h *holder) both(l policy.Change, field string) bool {
	return l.Gives(field) && h.admin.Gives(field)
}

// exceeds reports whether an amount is above another on any link of the direction.
func (h *holder) exceeds(asked, given policy.Amount) bool {
	if asked.Percent == 0 && given.Percent == 0 {
		return asked.Rate > given.Rate
	}
	return slices.ContainsFunc(h.links, func(link config.Link) bool {
		return h.sameWay(link) && asked.Of(link.Capacity()) > given.Of(link.Capacity())
	})
}

// sameWay reports whether a link's end is of the direction; Link says nothing of egress.
func (h *holder) sameWay(link config.Link) bool {
	return (link.Direction == policy.Ingress) == (h.direction == policy.Ingress)
}

// refuse returns the change without a field, because of what the administrator gives of another
// or the same.
func (h *holder) refuse(l policy.Change, field, by string) policy.Change {
	asked, given := text(l, field), cmp.Or(text(h.admin, by), "none")
	sentence := fmt.Sprintf("the administrator's %s is %s; take it away, or change it in weir.yaml", by, given)
	switch {
	case slices.Contains(lists, by):
		sentence = fmt.Sprintf("weir.yaml or weir set gives %s; change it there", article(by))
	case by != "group" && by != "dscp" && given != "none":
		sentence = fmt.Sprintf("the administrator's %s is %s; write %[2]s or less, or raise it in weir.yaml", by, given)
	}
	h.cut(field, asked, given, h.named(field, asked), sentence)
	return l.Without(field)
}

// lists are the fields whose values are too long for a sentence.
var lists = []string{"queues", "zones", "quota", "when"}

func article(field string) string {
	if field == "quota" {
		return "a quota"
	}
	return field
}

// named returns a field and what was asked of it, for a sentence.
func (h *holder) named(field, asked string) string {
	name := h.ask.Called(h.prefix + field)
	if slices.Contains(lists, strings.TrimPrefix(field, "ingress.")) {
		return name
	}
	return name + " " + cmp.Or(asked, "none")
}

// cut notes that a field, or the part of it that what names, does not count.
func (h *holder) cut(field, asked, given, what, why string) {
	h.cuts = append(h.cuts, Cut{Field: h.prefix + field, Origin: h.ask.Origin, Asked: asked, Given: given, Why: why, Text: what + " does not count: " + why})
}

// text returns a field of a change as a person writes it, "" if the change does not give it.
func text(l policy.Change, field string) string { return l.Texts()[field] }

// mayAll leaves out what the source may not say.
func (h *holder) mayAll(l policy.Change) policy.Change {
	if h.ask.Forbids == nil {
		return l
	}
	for _, field := range own(l) {
		if why := h.ask.Forbids(h.prefix + field); why != "" {
			h.cut(field, text(l, field), "", h.ask.Called(h.prefix+field), why)
			l = l.Without(field)
		}
	}
	l = h.mayQueues(l)
	for _, field := range []string{"zones", "when"} {
		for _, inside := range inside(l, field) {
			if why := h.ask.Forbids(h.prefix + inside); why != "" {
				h.cut(field, text(l, field), "", h.ask.Called(h.prefix+field), fmt.Sprintf("it says %s: %s", inside, why))
				l = l.Without(field)
				break
			}
		}
	}
	return l
}

// mayQueues takes out of queues what the source may not say.
func (h *holder) mayQueues(l policy.Change) policy.Change {
	if !l.Gives("queues") {
		return l
	}
	queues, asked := slices.Clone(l.To().Queues), text(l, "queues")
	for i := range queues {
		q := &queues[i]
		for _, part := range []struct {
			field string
			given bool
			drop  func()
		}{
			{"dscp", q.DSCP != nil, func() { q.DSCP = nil }},
			{"reserve", !q.Reserve.None(), func() { q.Reserve = policy.Amount{} }},
		} {
			if why := h.ask.Forbids(h.prefix + part.field); part.given && why != "" {
				h.cut("queues", asked, "", fmt.Sprintf("%s: %s of queue %s", h.ask.Called(h.prefix+"queues"), part.field, q.Name), why)
				part.drop()
			}
		}
	}
	l.Set("queues", func(p *policy.Policy) { p.Queues = queues })
	return l
}

// own returns the fields of a change without those of ingress.
func own(l policy.Change) []string {
	return slices.DeleteFunc(l.Given(), func(field string) bool { return strings.HasPrefix(field, "ingress.") })
}

// inside returns the fields that zones or times of a change say.
func inside(l policy.Change, field string) (fields []string) {
	if !l.Gives(field) {
		return nil
	}
	if field == "when" {
		for _, then := range l.To().When {
			fields = append(fields, own(then.To)...)
		}
		return fields
	}
	for _, z := range l.To().Zones {
		fields = append(fields, own(zoned(z))...)
	}
	return fields
}
