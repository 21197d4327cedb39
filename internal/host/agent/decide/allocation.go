// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/invalid"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/admission"
	"weir/internal/core/refusal"
	"weir/internal/core/workload"
	"weir/internal/host/agent/decide/gap"
	"weir/internal/host/agent/decide/reports"
	"weir/internal/host/discover"
)

// Allocation is a min on some links that is set aside for pods by their names, whether these
// are there or not. On each of the links, the min of a pod is at least the sum of its
// allocations; its policy may ask for more. An allocation for several pods, or for none yet, is
// a group of its own with that min, claim.NAMESPACE.NAME, and its weight is that of its members
// together. Example: 60 Mbit/s of eth0 for default/web-0 hold a class with that min, in state
// waiting, before the pod has a network.
type Allocation struct {
	Name string    `json:"name"` // identity, such as the UID of a claim
	For  string    `json:"for"`  // for people, such as the claim's NAMESPACE/NAME; no two have the same
	Pods []string  `json:"pods"` // NAMESPACE/POD, sorted
	Mins []LinkMin `json:"mins"` // by link, one for each
}

// LinkMin is a min on one link.
type LinkMin struct {
	Link string      `json:"link"` // its name, see plan.Link.Name
	Min  policy.Rate `json:"min_bps"`
}

// OriginAllocation is the origin of the group of a pod that an allocation for several pods makes.
const OriginAllocation = "allocation"

// podKey returns the key of the pod with a name.
func podKey(pod string) string { return workload.Key(workload.KindPod, pod) }

// Key returns the key of the workload or group that has the allocation's mins.
func (a Allocation) Key() string {
	if a.shared() {
		return plan.GroupKey(a.group())
	}
	return podKey(a.Pods[0])
}

// group returns the name of the group that the allocation is if several pods have it:
// claim.shop.uplink for shop/uplink. A longer name than groups may have ends with a digest.
func (a Allocation) group() string {
	const most = 128 // policy.CheckGroupName
	name := "claim." + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '.'
	}, a.For)
	if len(name) <= most {
		return name
	}
	digest := fnv.New64a()
	_, _ = digest.Write([]byte(a.For)) // it never fails
	return fmt.Sprintf("%s-%016x", name[:most-17], digest.Sum64())
}

// shared reports whether the allocation is a group.
func (a Allocation) shared() bool { return len(a.Pods) != 1 }

// on returns the allocation's min on a link, 0 if it has none there.
func (a Allocation) on(link string) policy.Rate {
	for _, m := range a.Mins {
		if m.Link == link {
			return m.Min
		}
	}
	return 0
}

// allocated returns what is allocated to the workload or group with a key, by link; nil if
// nothing is.
func (w World) allocated(key string) map[string]policy.Rate {
	var mins map[string]policy.Rate
	for _, a := range w.Allocations {
		if a.Key() != key {
			continue
		}
		if mins == nil {
			mins = map[string]policy.Rate{}
		}
		for _, m := range a.Mins {
			mins[m.Link] += m.Min
		}
	}
	return mins
}

// awaited returns the workloads that were found, and those that allocations name and that are
// not there, by key.
func (w World) awaited() []discover.Workload {
	if len(w.Allocations) == 0 {
		return w.Found
	}
	has := reports.Keys(w.Found)
	list := slices.Clone(w.Found)
	for _, a := range w.Allocations {
		for _, pod := range a.Pods {
			if key := podKey(pod); !has[key] {
				has[key] = true
				list = append(list, discover.Workload{Key: key, Name: pod, Kind: workload.KindPod})
			}
		}
	}
	slices.SortFunc(list, byKey)
	return list
}

// awaits reports whether a workload is not there: only allocations name it.
func (w World) awaits(key string) bool {
	return !reports.Keys(w.Found)[key] && reports.Keys(w.awaited())[key]
}

// allocationGroup returns the allocation for several pods that is the group of this name.
func (w World) allocationGroup(name string) (Allocation, bool) {
	i := slices.IndexFunc(w.Allocations, func(a Allocation) bool { return a.shared() && a.group() == name })
	if i < 0 {
		return Allocation{}, false
	}
	return w.Allocations[i], true
}

// hasGroup reports whether a group of this name was made or asked for at run time, or is in the
// configuration.
func (w World) hasGroup(name string) bool {
	_, made := w.Groups[name]
	_, asked := w.AskedGroups[name]
	_, configured := w.configured(name)
	return made || asked || configured
}

// groupLayer returns the layer with the group of an allocation for several pods, the first that
// names the pod; it says nothing of other workloads.
func (w World) groupLayer(found discover.Workload) policy.Change {
	if found.Key != podKey(found.Name) {
		return policy.Change{}
	}
	for _, a := range w.Allocations {
		if a.shared() && slices.Contains(a.Pods, found.Name) {
			return policy.ChangeTo(policy.Policy{Group: a.group()}, "group")
		}
	}
	return policy.Change{}
}

// allocate notes for each ruling what is allocated to it. What is allocated to the members of
// a group with a min comes on top of that: the min was promised to the group without it.
func (d *Decision) allocate() {
	if len(d.World.Allocations) == 0 {
		return
	}
	for i := range d.Rulings {
		d.Rulings[i].allocated = d.World.allocated(d.Rulings[i].Key)
	}
	for i := range d.Groups {
		group := &d.Groups[i]
		group.allocated, group.within = d.World.allocated(group.Key), map[string]policy.Rate{}
		members := d.Members(group.Name)
		for _, v := range members {
			for link, min := range v.allocated {
				group.within[link] += min
			}
		}
		if _, made := d.World.allocationGroup(group.Name); made && len(members) > 0 {
			group.Policy.Weight = 0
			for _, v := range members {
				group.Policy.Weight = min(group.Policy.Weight+v.Policy.Weight, policy.MaxWeight)
			}
		}
	}
}

// withAllocated returns a policy in the direction of a link with what is allocated to the
// workload or group there.
func (v *Ruling) withAllocated(p policy.Policy, link plan.Link) policy.Policy {
	floor := max(p.Min.Of(link.Capacity), v.allocated[link.Name()])
	if link.Direction == policy.Ingress && portless(v.Workload) && v.Kind != workload.KindGroup {
		floor = p.Min.Of(link.Capacity) // nothing can hold it there
	}
	if within := v.within[link.Name()]; within > 0 && floor > 0 {
		floor += within
		if top := p.Max.Of(link.Capacity); top > 0 {
			floor = max(min(floor, top), p.Min.Of(link.Capacity))
		}
	}
	if floor != p.Min.Of(link.Capacity) {
		p.Min = policy.Amount{Rate: floor}
	}
	return p
}

// Allocate returns the request for an allocation, or for other pods or mins of one that there
// is.
func (d Decision) Allocate(a Allocation) (ChangeRequest, error) {
	a.Pods, a.Mins = slices.Sorted(slices.Values(a.Pods)), slices.Clone(a.Mins)
	slices.SortFunc(a.Mins, func(x, y LinkMin) int { return cmp.Compare(x.Link, y.Link) })
	if err := d.checkAllocation(a); err != nil {
		return ChangeRequest{}, err
	}
	next := d.World.Clone()
	next.Allocations = slices.DeleteFunc(next.Allocations, func(b Allocation) bool { return b.Name == a.Name })
	next.Allocations = append(next.Allocations, a)
	slices.SortFunc(next.Allocations, func(x, y Allocation) int { return cmp.Compare(x.Name, y.Name) })
	return ChangeRequest{World: next, Key: a.Key(), Why: "allocated for " + a.For, allocation: &a}, nil
}

// mostPods may have an allocation together, as many as Kubernetes lets have a claim. Each is
// decided about, whether it is there or not.
const mostPods = 256

// checkAllocation refuses an allocation that is wrong in itself, or whose name is taken.
func (d Decision) checkAllocation(a Allocation) error {
	wrong := func(field, value, msg, remedy string) error {
		return &refusal.Error{Kind: refusal.Invalid, Field: field, Value: value, Msg: msg, Remedy: remedy}
	}
	if a.Name == "" || a.For == "" {
		return wrong("for", a.For, "an allocation without a name", "give the name of the claim, NAMESPACE/CLAIM")
	}
	if n := len(a.Pods); n > mostPods {
		return wrong("pods", "", fmt.Sprintf("%d pods, %d are the most", n, mostPods), "name fewer, or allocate to each by itself")
	}
	for i, pod := range a.Pods {
		if err := config.CheckPodName(pod); err != nil {
			e := api.Mistake(err)
			e.Field = "pods"
			return e
		}
		if i > 0 && a.Pods[i-1] == pod {
			return wrong("pods", pod, "is there twice", "name each pod once")
		}
	}
	if len(a.Mins) == 0 {
		return wrong("mins", "", "an allocation of nothing", "give a link and a rate")
	}
	for i, m := range a.Mins {
		if err := (policy.Amount{Rate: m.Min}).Check(); err != nil || m.Min == 0 {
			return wrong("mins.min_bps", fmt.Sprint(uint64(m.Min)), fmt.Sprintf("is no rate from %s to %s", policy.MinRate, policy.MaxRate), "give bits per second, or leave the link out")
		}
		if _, steered := d.Plans[m.Link]; !steered {
			return &refusal.Error{Kind: refusal.Unknown, Field: "mins.device", Value: m.Link, Msg: fmt.Sprintf("no link is called %q", m.Link),
				Remedy: "this host has " + cmp.Or(strings.Join(slices.Sorted(maps.Keys(d.Plans)), ", "), "none")}
		}
		if i > 0 && a.Mins[i-1].Link == m.Link {
			return wrong("mins.device", m.Link, "is there twice", "give each link once, with the sum")
		}
	}
	for _, b := range d.World.Allocations {
		if b.Name != a.Name && b.For == a.For {
			return &refusal.Error{Kind: refusal.Conflict, Field: "for", Value: a.For, Msg: "has an allocation already, " + b.Name, Remedy: "release that one first"}
		}
	}
	if group := a.group(); a.shared() && (d.World.hasGroup(group) || slices.ContainsFunc(d.World.Allocations, func(b Allocation) bool { return b.Name != a.Name && b.group() == group })) {
		return &refusal.Error{Kind: refusal.Conflict, Field: "for", Value: a.For, Msg: fmt.Sprintf("there is a group %s, which its pods would be", group), Remedy: "remove that one first"}
	}
	return nil
}

// Release returns the request that ends an allocation.
func (d Decision) Release(name string) (ChangeRequest, error) {
	i := slices.IndexFunc(d.World.Allocations, func(a Allocation) bool { return a.Name == name })
	if i < 0 {
		return ChangeRequest{}, &refusal.Error{Kind: refusal.Unknown, Field: "allocation", Value: name,
			Msg: fmt.Sprintf("no allocation is called %q", name), Remedy: "GET /v1/allocations lists those that there are"}
	}
	next, gone := d.World.Clone(), d.World.Allocations[i]
	next.Allocations = slices.Delete(next.Allocations, i, i+1)
	return ChangeRequest{World: next, Key: gone.Key(), Why: "released of " + gone.For}, nil
}

// allocatable refuses an allocation that would not be held on each of its links, or with which
// another workload or group would lose a part of its policy.
func (r ChangeRequest) allocatable(before, after Decision) error {
	for _, m := range r.allocation.Mins {
		if err := after.heldBack(*r.allocation, m); err != nil {
			return err
		}
	}
	was := before.ByKey()
	for _, v := range slices.Concat(after.Rulings, after.Groups) {
		for _, link := range slices.Sorted(maps.Keys(v.Refusals)) {
			if had := was[v.Key]; had == nil || len(had.Refusals[link]) < len(v.Refusals[link]) {
				return &refusal.Error{Kind: refusal.Conflict, Field: "mins", Object: "link " + link, Value: r.allocation.on(link).Compact(),
					Msg: fmt.Sprintf("%s would lose a part of its policy on link %s: %s", v.Name, link, reason(v.Refusals[link][0])), Remedy: "change that first"}
			}
		}
	}
	return nil
}

// heldBack returns why an allocation does not have its min on a link, nil if it has. The error
// is a *refusal.Error.
func (d Decision) heldBack(a Allocation, m LinkMin) error {
	refuse := func(kind refusal.Kind, field, msg, remedy string) error {
		return &refusal.Error{Kind: kind, Object: "link " + m.Link, Field: field, Value: m.Min.Compact(), Msg: msg, Remedy: remedy}
	}
	state, steered := d.Plans[m.Link]
	v, there := d.any(a.Key())
	if !steered || !there {
		return refuse(refusal.Unknown, "device", fmt.Sprintf("no link is called %q any longer", m.Link), "steer it again, by links: in weir.yaml")
	}
	if a.shared() {
		if v.Missing(m.Link) {
			return refuse(refusal.NotHeld, "pods", fmt.Sprintf("link %s holds no groups, and an allocation for several pods is one", m.Link),
				"give each pod a claim of its own, by a ResourceClaimTemplate; "+gap.Kernel)
		}
		for _, pod := range a.Pods {
			if member, _ := d.Ruling(podKey(pod)); member.Policy.Group != a.group() {
				return refuse(refusal.Conflict, "pods", fmt.Sprintf("%s is in group %s, and an allocation for several pods is a group of its own", pod, member.Policy.Group),
					"give each pod a claim of its own, by a ResourceClaimTemplate")
			}
		}
	}
	if state.Link.Direction == policy.Ingress && portless(v.Workload) && v.Kind != workload.KindGroup {
		return refuse(refusal.NotHeld, "ingress", noPortIn, "give the pod a network of its own (hostNetwork: false)")
	}
	class, _ := state.Class(v.Class)
	if class.Name == v.Name && class.Min >= d.World.allocated(v.Key)[m.Link] {
		return nil
	}
	why := errors.Join(v.Refusals[m.Link]...)
	if full, ok := errors.AsType[*admission.Refused](why); ok {
		e := api.NoRoom(full, m.Link)
		e.Value, e.Msg = m.Min.Compact(), fmt.Sprintf("%s has no room for it: %s", e.Object, full.Reason())
		return e
	}
	if mistake, ok := errors.AsType[*invalid.Error](why); ok {
		e := api.Mistake(mistake)
		e.Kind, e.Object = refusal.Conflict, "link "+m.Link
		return e
	}
	if why != nil {
		return refuse(refusal.Conflict, "min", why.Error(), "see weir get "+v.Name)
	}
	return refuse(refusal.NotHeld, "min", fmt.Sprintf("%s has no class on link %s", v.Name, m.Link), "see weir get "+v.Name)
}

// AllocationView is an allocation as the API shows it. steered returns why a link is not steered
// now, "" if it is.
func (d Decision) AllocationView(a Allocation, steered func(link string) string) api.Allocation {
	view := api.Allocation{Name: a.Name, For: a.For, Pods: slices.Clone(a.Pods)}
	if v, ok := d.any(a.Key()); ok {
		view.Class = uint16(v.Class)
	}
	for _, m := range a.Mins {
		device, ingress := strings.CutSuffix(m.Link, " "+string(policy.Ingress))
		shown := api.AllocatedMin{LinkMin: api.LinkMin{Device: device, Direction: string(policy.Egress), MinBps: uint64(m.Min)}}
		if ingress {
			shown.Direction = string(policy.Ingress)
		}
		if err := d.heldBack(a, m); err != nil {
			shown.Note = err.Error()
		} else if why := steered(m.Link); why != "" {
			shown.Note = why
		}
		shown.Held = shown.Note == ""
		view.Mins = append(view.Mins, shown)
	}
	return view
}

// Allocated returns the sum of what is allocated on a link and held by its plan.
func (d Decision) Allocated(link string) policy.Rate {
	var sum policy.Rate
	for _, a := range d.World.Allocations {
		if min := a.on(link); min > 0 && d.heldBack(a, LinkMin{link, min}) == nil {
			sum += min
		}
	}
	return sum
}
