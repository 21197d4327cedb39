// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/config"
	"weir/internal/dataplane"
	"weir/internal/discover"
	"weir/internal/invalid"
	"weir/internal/plan"
	"weir/internal/policy"
	"weir/internal/sdn/switchport"
	"weir/internal/workload"
)

// The states of a workload, as in api.Workload.State.
const (
	stateActive    = workload.StateActive
	stateWaiting   = workload.StateWaiting
	stateUnsteered = workload.StateUnsteered
	stateRefused   = workload.StateRefused
	stateNotHeld   = workload.StateNotHeld
)

// Kinds of workloads, as in api.Workload.Kind, that are treated in ways of their own.
const (
	kindHost   = workload.KindHost
	kindDocker = workload.KindDocker
	kindGroup  = workload.KindGroup
)

// grant is a min that a link has admitted.
type grant struct {
	Key string      `json:"key"`
	Min policy.Rate `json:"min_bps"`
}

// world is everything that decides what the kernel should look like.
type world struct {
	config config.Config
	ports  []switchport.Port        // of a switch, that are links too
	found  []discover.Workload      // one for each key, by key, without the host
	set    map[string]policy.Change // what was set at run time, by key
	groups map[string]policy.Change // groups that were made or changed at run time, by name
	number map[string]plan.ClassID  // by key, also of workloads that are gone
	grants map[string][]grant       // by link, in the order of admission
	tuned  map[string]tuned         // what was set about controllers, by key
	// accepted are the fields that were asked for by --accept-gaps, by key.
	accepted  map[string][]string
	abilities map[string]dataplane.Abilities // of the links whose backend lacks something, by link
}

// clone can be changed without changing w. Layers are never changed in place.
func (w world) clone() world {
	w.found = slices.Clone(w.found)
	w.set = maps.Clone(w.set)
	w.groups = maps.Clone(w.groups)
	w.number = maps.Clone(w.number)
	w.grants = maps.Clone(w.grants)
	w.tuned = maps.Clone(w.tuned)
	w.accepted = maps.Clone(w.accepted)
	return w
}

// verdict is what was decided about one workload.
type verdict struct {
	discover.Workload
	policy   policy.Policy
	origin   map[string]string // by field
	class    plan.ClassID
	steered  bool
	state    string
	note     string
	warnings []string           // about rules that overlap
	refusals map[string][]error // by link: why the plan there does not hold all of the policy
	gaps     []gap              // what the links' backends do not hold of the policy
	// abilities are the world's.
	abilities map[string]dataplane.Abilities
}

// decision is what follows from a world.
type decision struct {
	verdicts []verdict             // the host first, then by name
	groups   []verdict             // by name
	plans    map[string]plan.State // by link
	number   map[string]plan.ClassID
	grants   map[string][]grant
	linkGaps map[string][]gap // by link: what its backend does not hold of its settings
}

// decide is the agent's judgement.
func decide(w world) decision {
	d := decision{plans: map[string]plan.State{}, grants: map[string][]grant{}, linkGaps: map[string][]gap{}}
	var keys []string
	for _, found := range w.found {
		if steerable(found) {
			keys = append(keys, found.Key)
		}
	}
	for _, name := range w.groupNames() {
		keys = append(keys, plan.GroupKey(name))
	}
	mask := cmp.Or(plan.Mask(w.config.MarkMask), plan.DefaultMask)
	d.number = plan.NumberWithin(mask.MaxClasses(), w.number, append([]string{plan.HostKey}, keys...))
	for _, found := range append([]discover.Workload{hostWorkload}, w.found...) {
		d.verdicts = append(d.verdicts, judge(w, found, d.number))
	}
	for _, name := range w.groupNames() {
		d.groups = append(d.groups, judgeGroup(w, name, d.number))
	}
	for _, link := range w.links() {
		d.planLink(w.planned(link), w.grants[link.Name()], w.portAt(link.Device))
		if gaps := w.linkGaps(link); len(gaps) > 0 {
			d.linkGaps[link.Name()] = gaps
		}
	}
	for _, verdicts := range [][]verdict{d.verdicts, d.groups} {
		for i := range verdicts {
			verdicts[i].findGaps(w)
			verdicts[i].conclude()
		}
	}
	slices.SortFunc(d.verdicts, func(a, b verdict) int {
		return cmp.Or(-compareBool(a.Kind == kindHost, b.Kind == kindHost), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	})
	return d
}

// hostWorkload stands for whatever carries no mark.
var hostWorkload = discover.Workload{Key: plan.HostKey, Name: config.HostName, Kind: kindHost}

// steerable reports whether the workload has a class. One whose network is not
// up yet has one, so that its first packet finds it.
func steerable(w discover.Workload) bool { return w.Note == "" || present(w) }

// present reports whether there is anything that the workload's packets come from.
func present(w discover.Workload) bool { return len(w.Devices)+len(w.Cgroups) > 0 }

// judge gives a workload its policy.
func judge(w world, found discover.Workload, number map[string]plan.ClassID) verdict {
	labels, problems := w.labelled(found)
	v := verdict{Workload: found, steered: steerable(found), class: number[found.Key], refusals: map[string][]error{}, abilities: w.abilities}
	v.policy, v.origin = merge(
		stratum{originFound, w.foundLayer(found)},
		stratum{originConfig, w.config.Defaults},
		stratum{originConfig, w.config.LayerFor(found.Name)},
		stratum{originLabel, labels},
		stratum{originSet, w.set[found.Key]},
	)
	if found.Note != "" {
		problems = append([]string{found.Note}, problems...)
	}
	if v.policy.Check() == nil { // else the plan says what is wrong
		warnings, _ := policy.CheckRules(v.policy.Queues)
		for _, w := range warnings {
			v.warnings = append(v.warnings, w.Error())
		}
	}
	if v.policy.Ingress != nil && portless(found) {
		problems = append(problems, "ingress: "+noPortIn)
	}
	v.note = strings.Join(problems, "; ")
	return v
}

// noPortIn is why the ingress of a portless workload cannot be steered.
const noPortIn = "what the host's own processes and cgroups receive passes no port on its way, so nothing can hold it"

// portless reports whether what the workload receives passes no device of its own.
func portless(w discover.Workload) bool {
	return w.Kind == kindHost || len(w.Devices) == 0 && len(w.Cgroups) > 0
}

// planLink plans one link, the workloads in the order of their admission. If it is
// a port of a switch, the port says what the host's discipline is there.
func (d *decision) planLink(link plan.Link, grants []grant, port *switchport.Port) {
	order := seniority(d.steered(), link, grants)
	var workloads []plan.Workload
	for _, v := range order {
		if v.Kind == kindGroup && v.abilities[link.Name()].NoGroups {
			continue
		}
		asked := v.promised(link)
		if port != nil && v.Kind == kindHost {
			asked.Discipline, asked.Queues, asked.AQM = port.Policy.Discipline, port.Policy.Queues, port.Policy.AQM
		}
		workloads = append(workloads, plan.Workload{Key: v.Key, Name: v.Name, Policy: asked,
			Ports: ports(v.Workload, link), Group: v.Kind == kindGroup})
	}
	state, refusals, err := plan.Build(link, workloads, d.number)
	if err != nil { // the configuration was checked, so this is not reached by what a person writes
		for _, v := range order {
			v.refusals[link.Name()] = []error{err}
		}
		return
	}
	d.plans[link.Name()] = state
	refused := map[string][]error{}
	for _, r := range refusals {
		refused[r.Key] = append(refused[r.Key], r.Err)
	}
	mins := map[plan.ClassID]policy.Rate{}
	for _, class := range state.Classes {
		mins[class.ID] = class.Min
	}
	for _, v := range order {
		if errs := refused[v.Key]; errs != nil {
			v.refusals[link.Name()] = errs
		}
		// A number without a class is of somebody whom Build put with the host.
		// And a group without a min of its own holds its members'.
		if id, ok := d.number[v.Key]; ok && mins[id] > 0 && v.promised(link).Floor(link.Capacity, link.Overhead) != 0 {
			d.grants[link.Name()] = append(d.grants[link.Name()], grant{v.Key, mins[id]})
		}
	}
}

// promised returns the workload's policy on a link, without a group where the link's
// backend has none. The rest of what a backend lacks stays: it costs nothing, and
// queues mark packets with their DSCP all the same.
func (v *verdict) promised(link plan.Link) policy.Policy {
	p := v.policyOn(link)
	if v.abilities[link.Name()].NoGroups {
		p.Group = ""
	}
	return p
}

// policyOn is the workload's policy in the direction of a link. It is in the same
// group in both.
func (v *verdict) policyOn(link plan.Link) policy.Policy {
	if link.Direction != policy.Ingress {
		return v.policy.In(policy.Egress)
	}
	asked := v.policy
	if portless(v.Workload) {
		asked.Ingress = nil
	}
	p := asked.In(policy.Ingress)
	p.Group = v.policy.Group
	return p
}

// steered are the workloads and groups that have a class.
func (d *decision) steered() []*verdict {
	var list []*verdict
	for _, verdicts := range [][]verdict{d.verdicts, d.groups} {
		for i := range verdicts {
			if verdicts[i].steered {
				list = append(list, &verdicts[i])
			}
		}
	}
	return list
}

// seniority orders the workloads and groups of a link: those that ask for no more than
// they were granted, in the order in which they were; then those that ask for
// more than that; then the others by their numbers. So nobody's min is lost to
// somebody who came, or raised his, later.
func seniority(order []*verdict, link plan.Link, grants []grant) []*verdict {
	place := map[string]int{}
	held := map[string]policy.Rate{}
	for i, g := range grants {
		place[g.Key], held[g.Key] = i, g.Min
	}
	rank := func(v *verdict) (class, within int) {
		min, granted := held[v.Key]
		switch {
		case granted && v.promised(link).Floor(link.Capacity, link.Overhead) <= min:
			return 0, place[v.Key]
		case granted:
			return 1, place[v.Key]
		}
		return 2, int(v.class)
	}
	slices.SortStableFunc(order, func(a, b *verdict) int {
		classA, withinA := rank(a)
		classB, withinB := rank(b)
		return cmp.Or(cmp.Compare(classA, classB), cmp.Compare(withinA, withinB))
	})
	return order
}

// ports are the devices by which the workload's packets come in, and the cgroups
// that they come from. The link's own device is none: what a link sends cannot be
// what it hears.
func ports(w discover.Workload, link plan.Link) []plan.Port {
	var ports []plan.Port
	for _, d := range w.Devices {
		if d.Name != link.Device {
			ports = append(ports, plan.Port{Device: d.Name, Ifindex: d.Ifindex})
		}
	}
	if link.Direction == policy.Ingress {
		return ports // nothing that a cgroup receives passes a port
	}
	for _, folder := range w.Cgroups {
		ports = append(ports, plan.Port{Cgroup: folder})
	}
	return ports
}

// conclude sums up what became of a workload.
func (v *verdict) conclude() {
	v.state = stateActive
	switch {
	case !v.steered:
		v.state = stateUnsteered
	case len(v.refusals) > 0:
		v.state = stateRefused
		var notes []string
		for _, device := range slices.Sorted(maps.Keys(v.refusals)) {
			for _, err := range v.refusals[device] {
				notes = append(notes, fmt.Sprintf("link %s: %s", device, reason(err)))
			}
		}
		v.note = join(append(notes, v.note)...)
	case !present(v.Workload) && v.Kind != kindHost && v.Kind != kindGroup && v.Kind != workload.KindOwn:
		v.state = stateWaiting
	case len(v.gaps) > 0:
		v.state = stateNotHeld
	}
	for _, g := range slices.Backward(v.gaps) {
		v.note = join(g.String(), v.note)
	}
}

// join puts the notes that say something into one.
func join(notes ...string) string {
	return strings.Join(slices.DeleteFunc(notes, func(n string) bool { return n == "" }), "; ")
}

// reason is why a plan does not hold all of a policy, for people.
func reason(err error) string {
	var refused *policy.Refused
	if errors.As(err, &refused) {
		return refused.Field() + " is not in force: " + refused.Reason()
	}
	var mistake *invalid.Error
	if errors.As(err, &mistake) {
		return mistake.Field + " is not in force: " + mistake.Msg
	}
	return err.Error()
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

// verdict finds a workload's.
func (d decision) verdict(key string) (verdict, bool) { return verdictOf(d.verdicts, key) }

// group finds a group's.
func (d decision) group(key string) (verdict, bool) { return verdictOf(d.groups, key) }

// any finds a workload's or a group's.
func (d decision) any(key string) (verdict, bool) {
	if v, ok := d.verdict(key); ok {
		return v, true
	}
	return d.group(key)
}

func verdictOf(list []verdict, key string) (verdict, bool) {
	i := slices.IndexFunc(list, func(v verdict) bool { return v.Key == key })
	if i < 0 {
		return verdict{}, false
	}
	return list[i], true
}

// workloads are all that can be named, the host among them.
func (d decision) workloads() []discover.Workload {
	list := make([]discover.Workload, len(d.verdicts))
	for i, v := range d.verdicts {
		list[i] = v.Workload
	}
	return list
}

// forget takes a workload and what was set for it out of the world.
func (w *world) forget(key string) {
	w.found = without(w.found, key)
	delete(w.set, key)
	delete(w.accepted, key)
}

func without(list []discover.Workload, key string) []discover.Workload {
	return slices.DeleteFunc(slices.Clone(list), func(w discover.Workload) bool { return w.Key == key })
}

// byKey orders workloads.
func byKey(x, y discover.Workload) int { return cmp.Compare(x.Key, y.Key) }
