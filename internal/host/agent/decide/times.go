// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"weir/internal/core/invalid"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/admission"
	"weir/internal/core/policy/times"
	"weir/internal/core/workload"
	"weir/internal/host/sdn/switchport"
)

// maxMoments bounds the moments for which admission is decided: all links are planned for each.
const maxMoments = 200

// schedule finds the moments at which other mins and maxes hold than now. A workload whose
// times make too many of them does without its times: the youngest first, which have the
// highest numbers. So does one whose times are wrong, as a label may make them that says a min
// above the max of the configuration.
func (d *Decision) schedule() {
	now := d.World.Now
	d.moments = []time.Time{now}
	list := slices.DeleteFunc(d.all(), func(v *Ruling) bool { return len(v.Policy.Periods(false)) == 0 })
	slices.SortFunc(list, func(a, b *Ruling) int { return int(a.Class) - int(b.Class) })
	var floors []times.Period
	for _, v := range list {
		if err := v.Policy.Check(); err != nil && withoutTimes(v.Policy).Check() == nil {
			v.Policy, v.untimed = withoutTimes(v.Policy), err
			continue
		}
		more := slices.DeleteFunc(v.Policy.Periods(true), func(p times.Period) bool { return slices.Contains(floors, p) })
		if len(more) > 0 {
			with := append(slices.Clone(floors), more...)
			moments := times.Moments(with, now)
			if len(moments) > maxMoments {
				v.Policy, v.untimed = withoutTimes(v.Policy), errTooManyTimes
				continue
			}
			floors, d.moments = with, moments
		}
		v.timed = new(v.Policy)
		v.Policy = v.timed.At(now)
		v.Until = changes(*v.timed, now)
		for _, field := range v.timed.TimedAt(now) {
			v.Origin[field] = OriginWhen
		}
		if next := times.Next(v.timed.Periods(false), now); d.Until.IsZero() || next.Before(d.Until) {
			d.Until = next
		}
	}
}

// week is how far changes looks, with a day for clocks that change.
const week = 8 * 24 * time.Hour

// changes returns when a policy says something else than now, because of the time; zero if it
// does not within a week. Where periods adjoin that say the same, it does not.
func changes(p policy.Policy, now time.Time) time.Time {
	periods, holds := p.Periods(false), p.At(now)
	for at := times.Next(periods, now); !at.IsZero() && at.Sub(now) <= week; at = times.Next(periods, at) {
		if !reflect.DeepEqual(p.At(at), holds) {
			return at
		}
	}
	return time.Time{}
}

// all returns the rulings about workloads and groups.
func (d *Decision) all() []*Ruling {
	var list []*Ruling
	for _, rulings := range [][]Ruling{d.Rulings, d.Groups} {
		for i := range rulings {
			list = append(list, &rulings[i])
		}
	}
	return list
}

func withoutTimes(p policy.Policy) policy.Policy {
	p.When = nil
	if p.Ingress != nil {
		p.Ingress = new(withoutTimes(*p.Ingress))
	}
	return p
}

// errTooManyTimes is why a workload does without its times.
var errTooManyTimes = &invalid.Error{Field: "when", Msg: fmt.Sprintf("mins and maxes of this host would change in more than %d ways", maxMoments),
	Remedy: "give workloads the same hours, or a min that always holds"}

// at returns the ruling with the policy that is in force at a moment.
func (v *Ruling) at(moment time.Time) *Ruling {
	if v.timed == nil {
		return v
	}
	then := *v
	then.Policy = v.timed.At(moment)
	return &then
}

// TimesText returns a sentence about what is in force because of the time, none if nothing
// differs at times.
func (v Ruling) TimesText() []string {
	var fields []string
	for _, field := range slices.Sorted(maps.Keys(v.Origin)) {
		if v.Origin[field] == OriginWhen {
			fields = append(fields, field)
		}
	}
	until := times.Text(v.Until)
	switch {
	case v.Until.IsZero() && len(fields) == 0:
		return nil
	case v.Until.IsZero():
		return []string{fmt.Sprintf("What it says of this time (%s) is in force, and goes on.", strings.Join(fields, ", "))}
	case len(fields) == 0:
		return []string{fmt.Sprintf("What differs at times (when) begins on %s.", until)}
	}
	return []string{fmt.Sprintf("What it says of this time (%s) is in force until %s.", strings.Join(fields, ", "), until)}
}

// forecast is what a link will hold, over all moments.
type forecast struct {
	// lost is why mins do not fit at some moment, by key, or contradict what else is said of
	// it. They are held at none: what is promised is promised for good.
	lost map[string]error
	// most is the largest min of each class.
	most map[plan.ClassID]policy.Rate
	// zones are the classes that the link has for its zones.
	zones []plan.Workload
}

// foresee plans a link for every moment, the workloads in the order of their admission.
func (d *Decision) foresee(link plan.Link, order []*Ruling, port *switchport.Port) forecast {
	f := forecast{lost: map[string]error{}, zones: d.World.zoneClasses(link)}
	for again := true; again; {
		again = false
		f.most = map[plan.ClassID]policy.Rate{}
		wrongNow := map[string]bool{} // is told as such
		for i, moment := range d.moments {
			state, refusals, err := plan.Build(link, f.asking(link, order, port, moment), d.World.Number)
			if err != nil {
				return f // the same as now
			}
			for _, r := range refusals {
				err := lostAt(r.Err, moment, i == 0)
				if err == nil {
					wrongNow[r.Key] = wrongNow[r.Key] || i == 0
				} else if f.lost[r.Key] == nil && !wrongNow[r.Key] {
					f.lost[r.Key], again = err, true
				}
			}
			for _, class := range state.Classes {
				f.most[class.ID] = max(f.most[class.ID], class.Min)
			}
		}
	}
	return f
}

// lostAt returns why a min is lost that was refused at a moment, nil if it was not. A
// contradiction of now is not said of the times.
func lostAt(err error, moment time.Time, isNow bool) error {
	if refused, ok := errors.AsType[*admission.Refused](err); ok {
		then := *refused
		if !isNow {
			then.From = moment
		}
		return &then
	}
	mistake, ok := errors.AsType[*invalid.Error](err)
	if isNow || !ok || !slices.Contains([]string{"min", "reserve"}, mistake.Root()) {
		return nil
	}
	then := *mistake
	then.Msg += " on " + times.Text(moment)
	return &then
}

// asking returns what is asked of a link at a moment, without the mins that are lost.
func (f forecast) asking(link plan.Link, order []*Ruling, port *switchport.Port, moment time.Time) []plan.Workload {
	list := slices.Clone(f.zones)
	for _, v := range order {
		if v.Kind == workload.KindGroup && v.abilities[link.Name()].NoGroups {
			continue
		}
		asked := v.at(moment).promised(link)
		if f.lost[v.Key] != nil {
			asked = plan.WithoutFloors(asked)
		}
		if port != nil && v.Kind == workload.KindHost {
			asked.Discipline, asked.Queues, asked.AQM = port.Policy.Discipline, port.Policy.Queues, port.Policy.AQM
		}
		list = append(list, plan.Workload{Key: v.Key, Name: v.Name, Policy: asked,
			Ports: v.ports(link), Group: v.Kind == workload.KindGroup})
	}
	return list
}

// most returns the largest rate that a workload's policy on a link comes to at any moment.
func most(moments []time.Time, v *Ruling, link plan.Link, of func(policy.Policy) policy.Rate) (largest policy.Rate) {
	for _, moment := range moments {
		largest = max(largest, of(v.at(moment).promised(link)))
	}
	return largest
}

// Due reports whether something else may be in force at a moment than was decided: its time has
// come, the clock was set back, or the host has another time zone.
func (d Decision) Due(now time.Time) bool {
	return !d.Until.IsZero() && (!now.Before(d.Until) || now.Before(d.World.Now) || now.Location() != d.World.Now.Location())
}
