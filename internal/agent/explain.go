// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"weir/internal/api"
	"weir/internal/plan"
	"weir/internal/policy"
)

// explain says why the class has the rate it has.
func explain(d division, id plan.ClassID) api.ExplainLink {
	class, _ := d.state.Class(id)
	share := d.shares[id]
	e := api.ExplainLink{
		Device:   d.state.Link.Device,
		Binds:    string(share.Binds),
		LevelBps: d.level,
		FairBps:  d.level * float64(class.Weight),
		IdealBps: share.Bps,
		RateBps:  d.used[id].rate,
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
	e.Text = append(e.Text, d.measuredText(class)...)
	return e
}

// others are those that send, or want to, beside one class.
func (d division) others(id plan.ClassID) []api.Other {
	others := []api.Other{}
	for _, class := range d.state.Classes {
		if share := d.shares[class.ID]; class.ID != id && share.Binds != policy.BindIdle {
			others = append(others, api.Other{
				Name: class.Name, Weight: class.Weight,
				RateBps: d.used[class.ID].rate, Binds: string(share.Binds),
			})
		}
	}
	slices.SortStableFunc(others, func(a, b api.Other) int { return cmp.Compare(b.RateBps, a.RateBps) })
	return others
}

// gets begins a sentence about a class's share.
func (d division) gets(class plan.Class) string {
	return fmt.Sprintf("%s gets %s of %s", class.Name, rate(d.shares[class.ID].Bps), d.state.Link.Capacity)
}

func (d division) shareText(class plan.Class) string {
	sharing, weights := d.sharing()
	if sharing == 1 {
		return d.gets(class) + ": all that the others leave."
	}
	left := d.level * float64(weights)
	return fmt.Sprintf("%s: %s is shared by weight among %d, and its weight is %d of %d.",
		d.gets(class), rate(left), sharing, class.Weight, weights)
}

// sharing counts the classes whose rate is their share, and their weights.
func (d division) sharing() (classes int, weights uint64) {
	for _, class := range d.state.Classes {
		if d.shares[class.ID].Binds == policy.BindShare {
			classes++
			weights += uint64(class.Weight)
		}
	}
	return classes, weights
}

func (d division) minText(class plan.Class) string {
	fair := d.level * float64(class.Weight)
	return fmt.Sprintf("%s: its min is %s, which is more than the %s that its weight of %d would give it.",
		d.gets(class), class.Min, rate(fair), class.Weight)
}

func (d division) maxText(class plan.Class) string {
	free := d.state
	free.Classes = slices.Clone(free.Classes)
	for i := range free.Classes {
		if free.Classes[i].ID == class.ID {
			free.Classes[i].Max = 0
		}
	}
	without := divide(free, d.used).shares[class.ID].Bps
	return fmt.Sprintf("%s: its max is %s; without it, it would get %s.", d.gets(class), class.Max, rate(without))
}

// demandText speaks of a class that has all it wants: what it could have.
func (d division) demandText(class plan.Class) []string {
	could := divide(d.state, d.used, class.ID)
	share := could.shares[class.ID]
	text := fmt.Sprintf("%s wants %s and gets it.", class.Name, rate(d.shares[class.ID].Bps))
	if d.shares[class.ID].Binds == policy.BindIdle {
		text = fmt.Sprintf("%s sends nothing.", class.Name)
	}
	bound := map[policy.Bind]string{
		policy.BindShare: fmt.Sprintf("by its weight of %d", class.Weight),
		policy.BindMin:   "by its min",
		policy.BindMax:   "up to its max",
	}[share.Binds]
	return []string{text, fmt.Sprintf("If it wanted more it would get %s of %s, %s.", rate(share.Bps), d.state.Link.Capacity, bound)}
}

// reasonsFor says what the others' bounds do to a class that would take more.
func (d division) reasonsFor(id plan.ClassID) []string {
	const most = 4
	var text []string
	for _, bind := range []policy.Bind{policy.BindMin, policy.BindMax, policy.BindDemand} {
		var names []string
		var sum float64
		for _, class := range d.state.Classes {
			if share := d.shares[class.ID]; class.ID != id && share.Binds == bind && share.Bps > 0 {
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
			policy.BindDemand: "wanting no more than they send",
		}[bind]
		line := upper(how) + ": " + strings.Join(names, ", ")
		if len(names) > 1 {
			line += ", together " + rate(sum)
		}
		text = append(text, line+".")
	}
	return text
}

// measuredText compares what should be with what was.
func (d division) measuredText(class plan.Class) []string {
	used, share := d.used[class.ID], d.shares[class.ID]
	var text []string
	const tolerance = 0.05 // of the link: TCP's own swings are smaller over a second
	if used.hungry && math.Abs(used.rate-share.Bps) > tolerance*float64(d.state.Link.Capacity) {
		text = append(text, fmt.Sprintf("Over the last second it sent %s: somebody has just started, stopped or changed, or its queue ran empty now and then.", rate(used.rate)))
	}
	if used.drops >= 1 {
		text = append(text, fmt.Sprintf("It offers %s; %.0f packets a second find its queue full and are dropped.", rate(used.offered), used.drops))
	}
	return text
}

// rate is a measured rate for people.
func rate(bps float64) string { return policy.Approx(bps) }

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
