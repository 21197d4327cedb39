// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/workload"
	"weir/internal/host/agent/decide/ceiling"
	"weir/internal/host/agent/decide/gap"
	"weir/internal/host/agent/decide/labels"
	"weir/internal/host/agent/decide/reports"
	"weir/internal/host/discover"
	"weir/internal/host/sdn/switchport"
)

// Decide returns what follows from a world.
func Decide(w World) Decision {
	d := Decision{World: w, Plans: map[string]plan.State{}, LinkGaps: map[string][]gap.Gap{}}
	var keys []string
	all := w.awaited()
	for _, found := range all {
		if steerable(found) {
			keys = append(keys, found.Key)
		}
	}
	for _, name := range w.GroupNames() {
		keys = append(keys, plan.GroupKey(name))
	}
	for _, link := range w.Links() {
		if hasClass(link) {
			keys = append(keys, plan.ZoneKey(link.Name()))
		}
	}
	d.World.Grants = map[string][]AdmittedMin{}
	d.World.Number = plan.NumberWithin(min(w.Config.Carrier().MaxClasses(), plan.ClassesOf(w.Config.Profile)), w.Number, append([]string{plan.HostKey}, keys...))
	for _, found := range append([]discover.Workload{hostWorkload}, all...) {
		d.Rulings = append(d.Rulings, judge(w, found, d.World.Number))
	}
	for _, name := range w.GroupNames() {
		d.Groups = append(d.Groups, judgeGroup(w, name, d.World.Number))
	}
	d.schedule()
	d.allocate()
	for _, link := range w.Links() {
		planned := w.planned(link)
		planned.Class = d.World.Number[plan.ZoneKey(link.Name())]
		d.planLink(planned, w.Grants[link.Name()], w.PortAt(link.Device))
		if gaps := w.linkGaps(link); len(gaps) > 0 {
			d.LinkGaps[link.Name()] = gaps
		}
	}
	for _, rulings := range [][]Ruling{d.Rulings, d.Groups} {
		for i := range rulings {
			rulings[i].findGaps(w)
			rulings[i].findPast(w)
			rulings[i].conclude()
		}
	}
	slices.SortFunc(d.Rulings, func(a, b Ruling) int {
		return cmp.Or(-compareBool(a.Kind == workload.KindHost, b.Kind == workload.KindHost), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	})
	return d
}

// hostWorkload stands for all packets without a mark.
var hostWorkload = discover.Workload{Key: plan.HostKey, Name: config.HostName, Kind: workload.KindHost}

// steerable reports whether the workload has a class. One whose network is not
// up yet has one, so that its first packet finds it.
func steerable(w discover.Workload) bool { return w.Note == "" || present(w) }

// present reports whether there is anything that the workload's packets come from.
func present(w discover.Workload) bool { return len(w.Devices)+len(w.Cgroups) > 0 }

// judge returns the ruling about a workload as far as it does not depend on links.
func judge(w World, found discover.Workload, number map[string]plan.ClassID) Ruling {
	labelled, problems := labels.Read(found, w.Config.Labels, w.Texts)
	labelled.Origin = OriginLabel
	own, notOwn := w.foundLayer(found)
	admin := w.Config.Defaults.Over(w.Config.LayerFor(found.Name))
	label, refused := ceiling.Hold(labelled, admin.Over(w.Set[found.Key]), w.Links())
	asked, beyond := ceiling.Hold(askOf(w.Asked[found.Key]), admin.Over(w.Set[found.Key]), w.Links())
	v := Ruling{Workload: found, Steered: steerable(found), Class: number[found.Key], Refusals: map[string][]error{}, abilities: w.Abilities, taken: w.takenAt(found)}
	v.Policy, v.Origin = merge(
		stratum{OriginFound, own},
		stratum{OriginAllocation, w.groupLayer(found)},
		stratum{OriginConfig, w.Config.Defaults},
		stratum{OriginConfig, w.Config.LayerFor(found.Name)},
		stratum{OriginLabel, label},
		stratum{OriginAsked, asked},
		stratum{OriginSet, w.Set[found.Key]},
	)
	if reports.EndedPod(found) {
		v.Policy = ceiling.Unreserved(v.Policy)
	}
	v.asks, v.Cuts = w.Asked[found.Key], slices.Concat(refused, beyond)
	if found.Note != "" {
		problems = append([]string{found.Note}, problems...)
	}
	problems = append(append(problems, notOwn...), ceiling.Texts(v.Cuts)...)
	if v.Policy.Check() == nil { // else the plan names the mistake
		warnings, _ := policy.CheckRules(v.Policy.Queues)
		for _, w := range warnings {
			v.Warnings = append(v.Warnings, w.Error())
		}
	}
	if v.Policy.Ingress != nil && portless(found) {
		problems = append(problems, "ingress: "+noPortIn)
	}
	if err := w.unknownZone(label.Over(asked).Over(w.Set[found.Key])); err != nil { // those of the configuration are known
		problems = append(problems, err.Error())
	}
	v.Note = strings.Join(problems, "; ")
	return v
}

// noPortIn is why the ingress of a portless workload cannot be steered.
const noPortIn = "what the host's own processes and cgroups receive passes no port on its way, so nothing can hold it"

// portless reports whether what the workload receives passes no device of its own.
func portless(w discover.Workload) bool {
	return w.Kind == workload.KindHost || len(w.Devices) == 0 && len(w.Cgroups) > 0
}

// Receives returns a function that reports whether a link counts what a row of usage receives.
func Receives(d Decision) func(api.UsageRow) bool {
	places, beside := map[string]bool{}, map[string]bool{}
	for _, l := range d.World.Links() {
		if l.Direction == policy.Ingress {
			places[l.Place()] = true
		}
	}
	for _, v := range d.Rulings {
		beside[v.Name] = portless(v.Workload)
	}
	return func(r api.UsageRow) bool {
		return places[r.Device] && !(r.Kind == api.UsageOfWorkload && beside[r.Name])
	}
}

// planLink plans one link, the workloads in the order of their admission. If it is
// a port of a switch, the port says what the host's discipline is there.
func (d *Decision) planLink(link plan.Link, grants []AdmittedMin, port *switchport.Port) {
	order := d.seniority(link, grants)
	ahead := forecast{zones: d.World.zoneClasses(link)}
	if len(d.moments) > 1 {
		ahead = d.foresee(link, order, port)
	}
	state, refusals, err := plan.Build(link, ahead.asking(link, order, port, d.World.Now), d.World.Number)
	if err != nil { // the configuration was checked, so this is not reached by what a person writes
		for _, v := range order {
			v.Refusals[link.Name()] = []error{err}
		}
		return
	}
	d.Plans[link.Name()] = plan.Throttle(state, d.throttled(link, order))
	refused := map[string][]error{}
	for _, r := range refusals {
		refused[r.Key] = append(refused[r.Key], r.Err)
	}
	mins := map[plan.ClassID]policy.Rate{}
	for _, class := range state.Classes {
		mins[class.ID] = class.Min
	}
	floor := func(p policy.Policy) policy.Rate { return p.Floor(link.Capacity, link.Overhead()) }
	for id, min := range ahead.most {
		mins[id] = min
	}
	for _, v := range order {
		errs := refused[v.Key]
		if lost := ahead.lost[v.Key]; lost != nil {
			errs = append(errs, lost)
		}
		if v.untimed != nil {
			errs = append(errs, v.untimed)
		}
		if errs != nil {
			v.Refusals[link.Name()] = errs
		}
		// A number without a class belongs to a workload that Build put with the host.
		// And a group without a min of its own holds its members'.
		if id, ok := d.World.Number[v.Key]; ok && mins[id] > 0 && most(d.moments, v, link, floor) != 0 {
			d.World.Grants[link.Name()] = append(d.World.Grants[link.Name()], AdmittedMin{v.Key, mins[id]})
		}
	}
}

// seniority orders the workloads and groups of a link: those that ask for no more than
// they were granted, in the order in which they were; then those that ask for
// more than that; then the others by their numbers. So no min is lost to
// one that came, or was raised, later.
func (d *Decision) seniority(link plan.Link, grants []AdmittedMin) []*Ruling {
	order := d.steered()
	place := map[string]int{}
	held := map[string]policy.Rate{}
	for i, g := range grants {
		place[g.Key], held[g.Key] = i, g.Min
	}
	type rank struct{ class, within int }
	ranks := make(map[string]rank, len(order))
	for _, v := range order {
		min, granted := held[v.Key]
		switch {
		case granted && most(d.moments, v, link, link.Asked) <= min:
			ranks[v.Key] = rank{0, place[v.Key]}
		case granted:
			ranks[v.Key] = rank{1, place[v.Key]}
		default:
			ranks[v.Key] = rank{2, int(v.Class)}
		}
	}
	slices.SortStableFunc(order, func(a, b *Ruling) int {
		x, y := ranks[a.Key], ranks[b.Key]
		return cmp.Or(cmp.Compare(x.class, y.class), cmp.Compare(x.within, y.within))
	})
	return order
}

// ports returns the devices by which the workload's packets come in, and the cgroups that
// they come from. The link's own device is none: what a link sends cannot be
// what it hears.
func (v *Ruling) ports(link plan.Link) []plan.Port {
	var ports []plan.Port
	for _, d := range v.taken {
		if d.Name != link.Device {
			ports = append(ports, plan.Port{Device: d.Name, Ifindex: d.Index})
		}
	}
	if link.Direction == policy.Ingress {
		return ports // nothing that a cgroup receives passes a port
	}
	for _, folder := range v.Cgroups {
		ports = append(ports, plan.Port{Cgroup: folder})
	}
	for _, folder := range v.Sockets {
		ports = append(ports, plan.Port{Cgroup: folder, Sockets: true})
	}
	return ports
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// judgeGroup returns the ruling about a group as far as it does not depend on links.
func judgeGroup(w World, name string, number map[string]plan.ClassID) Ruling {
	key := plan.GroupKey(name)
	v := Ruling{
		Workload: discover.Workload{Key: key, Name: name, Kind: workload.KindGroup},
		Steered:  true, Class: number[key], Refusals: map[string][]error{}, abilities: w.Abilities,
	}
	configured, _ := w.configured(name)
	asked, beyond := ceiling.Hold(askOf(w.AskedGroups[name]), configured.Over(w.Groups[name]), w.Links())
	v.Policy, v.Origin = merge(stratum{OriginConfig, configured}, stratum{OriginAsked, asked}, stratum{OriginSet, w.Groups[name]})
	v.asks, v.Cuts = w.AskedGroups[name], beyond
	v.Note = strings.Join(ceiling.Texts(v.Cuts), "; ")
	maps.DeleteFunc(v.Origin, func(field, _ string) bool { return !slices.Contains(policy.FieldNames(policy.OnGroup), field) })
	return v
}

// throttled returns the maxes on a link of those that have reached their quota, by class.
func (d *Decision) throttled(link plan.Link, order []*Ruling) map[plan.ClassID]policy.Rate {
	most := map[plan.ClassID]policy.Rate{}
	for _, v := range order {
		s, counted := d.World.Quotas[v.Key]
		if !counted || v.Policy.Quota == nil || *v.Policy.Quota != s.Quota {
			continue
		}
		reach := s.Reach()
		if reached := link.Direction == policy.Ingress && reach.Ingress || link.Direction != policy.Ingress && reach.Egress; !reached {
			continue
		}
		if rate := policy.Throttled(s.Quota, link.Capacity); rate > 0 {
			most[v.Class] = rate
		}
	}
	return most
}
