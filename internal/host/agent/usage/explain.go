// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"weir/internal/api"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
)

// Explain says why a class has the rate it has. For one in a group that is first how the
// group's part of the link comes about, and then the class's own of that.
func (d Division) Explain(id plan.ClassID) api.ExplainLink {
	class, _ := d.State.Class(id)
	if class.Parent == 0 {
		return d.top().explain(id)
	}
	outer := d.top().explain(class.Parent)
	e := d.within(class.Parent).explain(id)
	group, _ := d.State.Class(class.Parent)
	e.Group = &api.ExplainGroup{
		Name: group.Name, Binds: outer.Binds, Weight: group.Weight,
		LevelBps: outer.LevelBps, FairBps: outer.FairBps, IdealBps: outer.IdealBps, RateBps: outer.RateBps,
	}
	for i, text := range outer.Text {
		outer.Text[i] = upper(text) // it may begin with the word group
	}
	e.Text = append(outer.Text, e.Text...)
	e.Others = append(e.Others, outer.Others...)
	return e
}

// ExplainGroup says the same of a group's class, with the members that send or want to.
func (d Division) ExplainGroup(id plan.ClassID) api.ExplainLink {
	e := d.Explain(id)
	for i, text := range e.Text {
		e.Text[i] = upper(text) // it begins with the word group
	}
	e.Members = d.within(id).others(id)
	return e
}

// level is one level of a division: the link among groups and workloads without
// one, or a group's part among its members.
type level struct {
	Division
	classes []plan.Class // a group's name begins with "group"
	of      string       // the divided bandwidth, in words
	level   float64
}

// top returns the link's level.
func (d Division) top() level {
	l := level{Division: d, of: d.State.Link.Capacity.String(), level: d.Level}
	for _, class := range d.State.Classes {
		if class.Group {
			class.Name = "group " + class.Name
		}
		if class.Parent == 0 {
			l.classes = append(l.classes, class)
		}
	}
	return l
}

// within returns the level inside a group.
func (d Division) within(group plan.ClassID) level {
	class, _ := d.State.Class(group)
	return level{
		Division: d, classes: membersOf(d.State)[group], level: d.Levels[group],
		of: fmt.Sprintf("the %s of group %s", rate(d.Shares[group].Bps), class.Name),
	}
}

func (d level) class(id plan.ClassID) plan.Class {
	i := slices.IndexFunc(d.classes, func(c plan.Class) bool { return c.ID == id })
	return d.classes[i]
}

func (d level) explain(id plan.ClassID) api.ExplainLink {
	class := d.class(id)
	share := d.Shares[id]
	e := api.ExplainLink{
		Device:   d.State.Link.Place(),
		Binds:    string(share.Binds),
		LevelBps: d.level,
		FairBps:  d.level * float64(class.Weight),
		IdealBps: share.Bps,
		RateBps:  d.Used[id].Rate,
		Others:   d.others(id),
	}
	switch share.Binds {
	case policy.BindShare:
		e.Text = append([]string{d.shareText(class)}, d.reasonsFor(id)...)
	case policy.BindMin:
		e.Text = append([]string{d.minText(class)}, d.reasonsFor(id)...)
	case policy.BindMax:
		e.Text = []string{d.maxText(class)}
	default:
		e.Text = d.demandText(class)
	}
	if !class.Group {
		e.Text = append(e.Text, d.measuredText(class)...)
	}
	return e
}

// others returns the classes that send, or want to, beside one.
func (d level) others(id plan.ClassID) []api.Other {
	others := []api.Other{}
	for _, class := range d.classes {
		if share := d.Shares[class.ID]; class.ID != id && share.Binds != policy.BindIdle {
			others = append(others, api.Other{
				Name: class.Name, Weight: class.Weight,
				RateBps: d.Used[class.ID].Rate, Binds: string(share.Binds),
			})
		}
	}
	slices.SortStableFunc(others, func(a, b api.Other) int { return cmp.Compare(b.RateBps, a.RateBps) })
	return others
}

// gets returns the beginning of a sentence about a class's share.
func (d level) gets(class plan.Class) string {
	return fmt.Sprintf("%s gets %s of %s", class.Name, rate(d.Shares[class.ID].Bps), d.of)
}

func (d level) shareText(class plan.Class) string {
	sharing, weights := d.sharing()
	if sharing == 1 {
		return d.gets(class) + ": all that the others leave."
	}
	left := d.level * float64(weights)
	return fmt.Sprintf("%s: %s is shared by weight among %d, and its weight is %d of %d.",
		d.gets(class), rate(left), sharing, class.Weight, weights)
}

// sharing counts the classes whose rate is their share, and their weights.
func (d level) sharing() (classes int, weights uint64) {
	for _, class := range d.classes {
		if d.Shares[class.ID].Binds == policy.BindShare {
			classes++
			weights += uint64(class.Weight)
		}
	}
	return classes, weights
}

func (d level) minText(class plan.Class) string {
	fair := d.level * float64(class.Weight)
	return fmt.Sprintf("%s: its min is %s, which is more than the %s that its weight of %d would give it.",
		d.gets(class), class.Min, rate(fair), class.Weight)
}

func (d level) maxText(class plan.Class) string {
	free := d.State
	free.Classes = slices.Clone(free.Classes)
	for i := range free.Classes {
		if free.Classes[i].ID == class.ID {
			free.Classes[i].Max, free.Classes[i].Interval = 0, 0
		}
	}
	without := divide(free, d.Used).Shares[class.ID].Bps
	if class.Ceiling() != class.Max {
		return fmt.Sprintf("%s: for its reservation of %s of payload this much leaves on the wire, see weir control %s; without it, it would get %s.",
			d.gets(class), class.Reserve, class.Name, rate(without))
	}
	return fmt.Sprintf("%s: its max is %s; without it, it would get %s.", d.gets(class), class.Max, rate(without))
}

// demandText is about a class that has all it wants: it says what the class could have.
func (d level) demandText(class plan.Class) []string {
	more := []plan.ClassID{class.ID}
	for _, member := range membersOf(d.State)[class.ID] {
		more = append(more, member.ID)
	}
	could := divide(d.State, d.Used, more...)
	share := could.Shares[class.ID]
	text := fmt.Sprintf("%s wants %s and gets it.", class.Name, rate(d.Shares[class.ID].Bps))
	if d.Shares[class.ID].Binds == policy.BindIdle {
		text = fmt.Sprintf("%s %s nothing.", class.Name, d.verb("sends", "receives"))
	}
	bound := map[policy.Bind]string{
		policy.BindShare: fmt.Sprintf("by its weight of %d", class.Weight),
		policy.BindMin:   "by its min",
		policy.BindMax:   "up to its max",
		// Of a group only: a workload that wants all it can get is not held by that.
		policy.BindDemand: "as much as its members' maxes let through",
	}[share.Binds]
	if share.Binds == policy.BindMax && class.Ceiling() != class.Max {
		bound = fmt.Sprintf("which is what its reservation of %s of payload takes on the wire", class.Reserve)
	}
	of := d.of
	if class.Parent != 0 {
		within := could.within(class.Parent) // the group's part may have grown with it
		of = within.of
	}
	return []string{text, fmt.Sprintf("If it wanted more it would get %s of %s, %s.", rate(share.Bps), of, bound)}
}

// reasonsFor says what the others' bounds do to a class that would take more.
func (d level) reasonsFor(id plan.ClassID) []string {
	const most = 4
	var text []string
	for _, bind := range []policy.Bind{policy.BindMin, policy.BindMax, policy.BindDemand} {
		var names []string
		var sum float64
		for _, class := range d.classes {
			if share := d.Shares[class.ID]; class.ID != id && share.Binds == bind && share.Bps > 0 {
				names = append(names, fmt.Sprintf("%s (%s)", class.Name, rate(share.Bps)))
				sum += share.Bps
			}
		}
		if len(names) == 0 {
			continue
		}
		if rest := len(names) - most; rest > 0 {
			names = append(names[:most], fmt.Sprintf("%d more", rest))
		}
		how := map[policy.Bind]string{
			policy.BindMin:    "held up by a min",
			policy.BindMax:    "held down by a max",
			policy.BindDemand: "wanting no more than they " + d.verb("send", "receive"),
		}[bind]
		line := upper(how) + ": " + strings.Join(names, ", ")
		if len(names) > 1 {
			line += ", together " + rate(sum)
		}
		text = append(text, line+".")
	}
	return text
}

// measuredText compares the ideal rate with the measured one.
func (d level) measuredText(class plan.Class) []string {
	used, share := d.Used[class.ID], d.Shares[class.ID]
	var text []string
	const tolerance = 0.05 // of the link: TCP's own swings are smaller over a second
	if used.Hungry && math.Abs(used.Rate-share.Bps) > tolerance*float64(d.State.Link.Capacity) {
		text = append(text, fmt.Sprintf("Over the last second it %s %s: another workload has just started, stopped or changed, or its queue ran empty now and then.", d.verb("sent", "received"), rate(used.Rate)))
	}
	if used.DropsPerSecond >= 1 {
		text = append(text, fmt.Sprintf("%s %s; %.0f packets a second are dropped%s.", d.verb("It offers", "It is sent"), rate(used.Offered), used.DropsPerSecond, dropsText(used.Lost)))
	}
	return text
}

// dropCauses say why packets are dropped, by the kernel's reason (docs/qdisc.md).
var dropCauses = map[string]string{
	"class_packets": "because its queue is full",
	"class_bytes":   "because its queue is full",
	"link_packets":  "because the queues of the whole link are full",
	"link_bytes":    "because the queues of the whole link are full",
	"queue_packets": "because a queue inside it is full",
	"policed":       "because its strict queue is above its rate",
	"aqm":           "by CoDel, because they have waited too long",
	"reset":         "because the qdisc was set anew",
}

// dropsText ends a sentence about drops, given as packets a second by reason: with the
// cause if there is one, else with how many each has.
func dropsText(lost map[string]float64) string {
	causes := map[string]float64{}
	for reason, n := range lost {
		causes[cmp.Or(dropCauses[reason], "for reason "+reason)] += n
	}
	order := slices.SortedFunc(maps.Keys(causes), func(a, b string) int {
		return cmp.Or(cmp.Compare(causes[b], causes[a]), cmp.Compare(a, b))
	})
	if len(order) == 1 {
		return " " + order[0]
	}
	var parts []string
	for _, cause := range order {
		parts = append(parts, fmt.Sprintf("%.3g %s", causes[cause], cause))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// verb returns the word for what a workload does on a link of this direction.
func (d Division) verb(egress, ingress string) string {
	if d.State.Link.Direction == policy.Ingress {
		return ingress
	}
	return egress
}

// rate returns the text of a measured rate.
func rate(bps float64) string { return policy.Approx(bps) }

// upper returns text with a capital at its beginning.
func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
