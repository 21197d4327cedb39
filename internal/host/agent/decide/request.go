// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/closest"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
	"weir/internal/core/workload"
	"weir/internal/host/agent/decide/gap"
	"weir/internal/host/agent/decide/reports"
	"weir/internal/host/discover"
)

// ChangeRequest is a change that a user asks for: the world with the change in it. It is granted
// as a whole or not at all.
type ChangeRequest struct {
	World World
	Key   string            // of the workload or group that it is about
	Given map[string]string // the fields that were asked for, as text
	Why   string
	// settings are those made at run time for the workload or group, before the request
	// and after it; nil where the request is not about settings.
	settings *settings
	// allocation is the one that the request asks for, nil if it asks for something else.
	allocation *Allocation
}

// settings are the fields set at run time of one workload or group.
type settings struct{ from, to policy.Change }

// Set returns the request that "weir set" makes for a workload.
func (d Decision) Set(name string, change api.PolicyChange) (ChangeRequest, error) {
	change, err := d.withQueue(name, change)
	if err != nil {
		return ChangeRequest{}, err
	}
	if err := change.Readable(); err != nil {
		return ChangeRequest{}, api.Mistake(err)
	}
	if change.Empty() {
		return ChangeRequest{}, nothingToChange(policy.OnWorkload)
	}
	v, err := d.Resolve(name)
	if err != nil {
		return ChangeRequest{}, err
	}
	if err := d.World.steersIngress(change, portless(v.Workload)); err != nil {
		return ChangeRequest{}, err
	}
	if err := d.World.unknownZone(change.Change); err != nil {
		return ChangeRequest{}, api.Mistake(err)
	}
	next := d.World.Clone()
	given := change.Texts()
	next.accept(v.Key, given, change.AcceptGaps, change.Reset)
	if change.Asked {
		put(&next.Asked, v.Key, over(next.Asked[v.Key], change))
		return ChangeRequest{World: next, Key: v.Key, Given: given, Why: "asked for it"}, nil
	}
	put(&next.Set, v.Key, over(next.Set[v.Key], change))
	if change.Reset {
		delete(next.Asked, v.Key)
	}
	return ChangeRequest{World: next, Key: v.Key, Given: given, Why: "asked by weir set",
		settings: &settings{d.World.Set[v.Key], next.Set[v.Key]}}, nil
}

// over returns a layer after a change of it.
func over(layer policy.Change, change api.PolicyChange) policy.Change {
	if change.Reset {
		layer = policy.Change{}
	}
	return layer.Over(change.Change)
}

// put keeps a layer under a key, and forgets what stood there if it is empty.
func put(layers *map[string]policy.Change, key string, layer policy.Change) {
	if layer.Empty() {
		delete(*layers, key)
		return
	}
	if *layers == nil {
		*layers = map[string]policy.Change{}
	}
	(*layers)[key] = layer
}

func nothingToChange(on policy.Place) error {
	return &refusal.Error{Kind: refusal.Invalid, Field: "body", Msg: "nothing to change",
		Remedy: "give at least one of " + strings.Join(policy.FieldNames(on), ", ") + " and reset"}
}

// steersIngress refuses a change of ingress that no link would hold, and a quota of what is
// received that no link would count. portless is of the workload.
func (w World) steersIngress(change api.PolicyChange, portless bool) error {
	field, asked := "ingress", change.Ingress != nil && !change.Ingress.Empty()
	if q := change.To().Quota; !asked && q != nil && q.Ingress > 0 {
		field, asked = "quota.ingress", true
	}
	if asked && portless {
		return &refusal.Error{Kind: refusal.Invalid, Field: field, Msg: noPortIn,
			Remedy: "give the link's ingress as much less (ingress: in weir.yaml or weir agent --ingress), or run it in a network namespace of its own (weir attach --netns)"}
	}
	if !asked || slices.ContainsFunc(w.Links(), func(l config.Link) bool { return l.Direction == policy.Ingress }) {
		return nil
	}
	return &refusal.Error{Kind: refusal.Invalid, Field: field, Msg: "no link's ingress is steered",
		Remedy: "say what a link can receive, by ingress: under links: in weir.yaml or weir agent --ingress"}
}

// withQueue turns a reservation of one queue into a change of the queues.
func (d Decision) withQueue(name string, change api.PolicyChange) (api.PolicyChange, error) {
	v, err := d.Resolve(name)
	if err != nil {
		return change, nil // which is found out again
	}
	if change.Change, err = reserveQueue(v.Policy, change.Change); err != nil {
		return change, err
	}
	if change.Ingress != nil {
		in, err := reserveQueue(v.Policy.In(policy.Ingress), *change.Ingress)
		if err != nil {
			return change, err
		}
		change.Ingress = &in
	}
	return change, nil
}

func reserveQueue(p policy.Policy, change policy.Change) (policy.Change, error) {
	if change.ReserveQueue == "" {
		return change, nil
	}
	queues := slices.Clone(p.Queues)
	if change.Gives("queues") {
		queues = slices.Clone(change.To().Queues)
	}
	i := slices.IndexFunc(queues, func(q policy.Queue) bool { return q.Name == change.ReserveQueue })
	switch {
	case i < 0:
		e := &refusal.Error{Kind: refusal.Invalid, Field: "queue", Value: change.ReserveQueue, Msg: "the workload has no such queue"}
		for _, q := range queues {
			e.Remedy += ", " + q.Name
		}
		if e.Remedy = strings.TrimPrefix(e.Remedy, ", "); e.Remedy == "" {
			e.Remedy = "give it queues first, see weir set --discipline and --queue"
		} else {
			e.Remedy = "it has " + e.Remedy
		}
		return change, e
	case !change.Gives("reserve"):
		return change, &refusal.Error{Kind: refusal.Invalid, Field: "reserve", Msg: "is missing", Remedy: "say how much the queue is to have"}
	}
	queues[i].Reserve = change.To().Reserve
	change = change.Without("reserve")
	change.ReserveQueue = ""
	change.Set("queues", func(p *policy.Policy) { p.Queues = queues })
	return change, nil
}

// SetGroup returns the request that "weir group set" makes.
func (d Decision) SetGroup(name string, change api.GroupChange) (ChangeRequest, error) {
	if err := policy.CheckGroupName(name); err != nil {
		return ChangeRequest{}, api.Mistake(err)
	}
	if err := change.Readable(); err != nil {
		return ChangeRequest{}, api.Mistake(err)
	}
	if err := d.World.unknownZone(change.Change); err != nil {
		return ChangeRequest{}, api.Mistake(err)
	}
	if err := d.World.steersIngress(change.PolicyChange, false); err != nil {
		return ChangeRequest{}, err
	}
	key := plan.GroupKey(name)
	if _, exists := d.Group(key); exists && change.Empty() {
		return ChangeRequest{}, nothingToChange(policy.OnGroup)
	}
	next := d.World.Clone()
	groups := &next.Groups
	if change.Asked {
		groups = &next.AskedGroups
	}
	if *groups == nil {
		*groups = map[string]policy.Change{}
	}
	(*groups)[name] = over((*groups)[name], change.PolicyChange).Only(policy.FieldNames(policy.OnGroup)...)
	if _, configured := next.configured(name); configured && (*groups)[name].Empty() {
		delete(*groups, name)
	}
	next.accept(key, map[string]string{"group": name}, change.AcceptGaps, change.Reset)
	if change.Asked {
		return ChangeRequest{World: next, Key: key, Given: change.Texts(), Why: "asked for it"}, nil
	}
	return ChangeRequest{World: next, Key: key, Given: change.Texts(), Why: "asked by weir group set",
		settings: &settings{d.World.Groups[name], next.Groups[name]}}, nil
}

// DeleteGroup returns the request that "weir group delete" makes.
func (d Decision) DeleteGroup(name string) (ChangeRequest, error) {
	v, err := d.ResolveGroup(name)
	if err != nil {
		return ChangeRequest{}, err
	}
	refuse := func(msg, remedy string) (ChangeRequest, error) {
		return ChangeRequest{}, &refusal.Error{Kind: refusal.Conflict, Field: "group", Value: name, Msg: msg, Remedy: remedy}
	}
	if _, configured := d.World.configured(name); configured {
		return refuse(name+" is in the configuration", "take it out of groups: in "+d.World.Config.Path)
	}
	if a, made := d.World.allocationGroup(name); made {
		return refuse(name+" is the group of an allocation", "it goes with allocation "+a.Name)
	}
	if members := d.Members(name); len(members) > 0 {
		var names []string
		for _, m := range members {
			names = append(names, m.Name)
		}
		return refuse("still in it: "+strings.Join(names, ", "),
			fmt.Sprintf("take each out first: weir set %s --group none", names[0]))
	}
	next := d.World.Clone()
	delete(next.Groups, name)
	delete(next.AskedGroups, name)
	delete(next.Accepted, v.Key)
	return ChangeRequest{World: next, Key: v.Key, Why: "asked by weir group delete"}, nil
}

// ResolveGroup finds a group by its name. The error is a *refusal.Error.
func (d Decision) ResolveGroup(name string) (Ruling, error) {
	if v, ok := d.Group(plan.GroupKey(name)); ok {
		return v, nil
	}
	e := &refusal.Error{Kind: refusal.Unknown, Field: "group", Value: name,
		Msg: fmt.Sprintf("no group is called %q", name), Remedy: "weir group list shows those that there are"}
	if near := closest.Words(name, d.World.GroupNames(), 3); len(near) > 0 {
		e.Remedy = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return Ruling{}, e
}

// CheckAttachment refuses what cannot be attached, as far as the attachment itself shows.
func (d Decision) CheckAttachment(at config.Attachment) error {
	if at.Name == "" {
		return api.Mistake(config.CheckName(at.Name))
	}
	if err := at.Check(); err != nil {
		return api.Mistake(err)
	}
	if slices.ContainsFunc(d.World.Links(), func(l config.Link) bool { return l.Name() == at.Device }) {
		return &refusal.Error{Kind: refusal.Invalid, Field: "device", Value: at.Device,
			Msg: "is a link that Weir steers", Remedy: "name the device by which the workload's packets come to the host"}
	}
	for _, v := range d.Rulings {
		if v.Name == at.Name && !v.Ended && !d.Again(at) && !d.World.awaits(v.Key) {
			return &refusal.Error{Kind: refusal.Conflict, Field: "name", Value: at.Name,
				Msg: fmt.Sprintf("is taken by %s", v.Key), Remedy: "choose another name, or detach that one first"}
		}
	}
	return nil
}

// Again reports whether an attachment is one of a pod that is attached already, which takes
// the place of the former.
func (d Decision) Again(at config.Attachment) bool {
	return at.Pod != "" && d.World.attachedAt(at) >= 0
}

// attachedAt returns the place in w.Attached of the attachment that makes the same workload,
// -1 if there is none.
func (w World) attachedAt(at config.Attachment) int {
	key := WorkloadOf(at).Key
	return slices.IndexFunc(w.Attached, func(b config.Attachment) bool { return WorkloadOf(b).Key == key })
}

// Attach returns the request that "weir attach" makes, with a policy. The devices and
// cgroups are those that the attachment's source finds now.
func (d Decision) Attach(at config.Attachment, change api.PolicyChange, devices []discover.Device, cgroups []string) (ChangeRequest, error) {
	if err := d.owned(at, devices, cgroups); err != nil {
		return ChangeRequest{}, err
	}
	if err := change.Readable(); err != nil {
		return ChangeRequest{}, api.Mistake(err)
	}
	if err := d.World.steersIngress(change, at.Netns == "" && (at.Unit != "" || at.Cgroup != "")); err != nil {
		return ChangeRequest{}, err
	}
	if err := d.World.unknownZone(change.Change); err != nil {
		return ChangeRequest{}, api.Mistake(err)
	}
	w, given, next := Attached(at, devices), change.Texts(), d.World.Clone()
	if i := next.attachedAt(at); i >= 0 { // a pod, see Again; what its source saw stays until it reports
		next.Attached[i] = at
		if !change.Asked {
			delete(next.Set, w.Key)
		}
	} else {
		if w.Kind == workload.KindPod && !slices.ContainsFunc(next.Found, func(f discover.Workload) bool { return f.Key == w.Key && !reports.EndedPod(f) }) {
			next.forget(w.Key) // what a former pod of that name had
		}
		next.Attached = append(next.Attached, at)
		next.Found = append(next.Found, w)
		slices.SortFunc(next.Found, byKey)
	}
	delete(next.Asked, w.Key)
	if layers := &next.Set; !change.Change.Empty() {
		if change.Asked {
			layers = &next.Asked
		}
		put(layers, w.Key, change.Change)
	}
	next.accept(w.Key, given, change.AcceptGaps, true)
	return ChangeRequest{World: next, Key: w.Key, Given: given, Why: "asked by weir attach"}, nil
}

// Detach returns the request that "weir detach" makes, and the attachment that it ends.
func (d Decision) Detach(name string) (ChangeRequest, config.Attachment, error) {
	v, err := d.Resolve(name)
	if err != nil {
		return ChangeRequest{}, config.Attachment{}, err
	}
	i := slices.IndexFunc(d.World.Attached, func(at config.Attachment) bool { return WorkloadOf(at).Key == v.Key })
	if i < 0 {
		return ChangeRequest{}, config.Attachment{}, d.World.notAttached(v.Workload)
	}
	at, next := d.World.Attached[i], d.World.Clone()
	next.Attached = slices.Delete(next.Attached, i, i+1)
	if reports.Outlived(v.Workload) {
		next.Found = reports.WithEnd(next.Found, v.Key)
	} else {
		next.forget(v.Key)
	}
	return ChangeRequest{World: next, Key: v.Key, Why: "asked by weir detach"}, at, nil
}

func (w World) notAttached(found discover.Workload) error {
	e := &refusal.Error{Kind: refusal.Conflict, Field: "name", Value: found.Name,
		Msg: found.Name + " was not attached by weir attach", Remedy: "it goes when its source no longer has it, a container when it is stopped"}
	if found.Name == config.HostName {
		e.Remedy = "the host is always there"
	}
	if slices.ContainsFunc(w.Config.Attach, func(at config.Attachment) bool { return means(at, found) }) {
		e.Remedy = "take it out of attach: in " + w.Config.Path
		if found.Name == config.ImagePulls {
			e.Remedy = "take it out of workloads: or attach: in " + w.Config.Path
		}
	}
	return e
}

// Outcome is what follows from a request that is granted.
type Outcome struct {
	Decision Decision
	// The same fields of api.ChangeResult.
	Stored, Dropped, NotHeld map[string]string
}

// Try decides about a request. It refuses one of which something that was asked for would
// not come into force; the error is a *refusal.Error.
func (d Decision) Try(r ChangeRequest) (Outcome, error) {
	after := Decide(r.World)
	if r.allocation != nil {
		if err := r.allocatable(d, after); err != nil {
			return Outcome{}, err
		}
		return Outcome{Decision: after}, nil
	}
	if err := r.acceptable(d, after); err != nil {
		return Outcome{}, err
	}
	o := Outcome{Decision: after}
	if r.settings == nil {
		return o, nil
	}
	was, existed := d.any(r.Key)
	is, _ := after.any(r.Key)
	if existed {
		o.Stored, o.Dropped = r.settings.effectless(was.Policy, is.Policy)
	}
	o.NotHeld = is.storedUnheld(*r.settings, existed)
	maps.DeleteFunc(o.NotHeld, func(field, _ string) bool { return o.Stored[field] != "" })
	return o, nil
}

// effectless returns the fields that the request stores although the policy in force has
// them already, and those that it drops; nil where there are none.
func (s settings) effectless(was, is policy.Policy) (stored, dropped map[string]string) {
	stored, dropped = map[string]string{}, map[string]string{}
	had, has := layerText(s.from), layerText(s.to)
	for field, value := range has {
		if had[field] != value && policy.Same(field, was, is) {
			stored[field] = value
		}
	}
	for field, value := range had {
		if _, kept := has[field]; !kept {
			dropped[field] = value
		}
	}
	return orNone(stored), orNone(dropped)
}

// storedUnheld returns what the request stores that no link holds, as a person writes it,
// by field. A group is one that is not held as a whole.
func (v Ruling) storedUnheld(s settings, existed bool) map[string]string {
	unheld := map[string]string{}
	had := layerText(s.from)
	for field, value := range layerText(s.to) {
		lacks := func(g gap.Gap) bool { return v.Kind == workload.KindGroup || g.Field == gapField(field) }
		if had[field] != value && slices.ContainsFunc(v.Gaps, lacks) {
			unheld[field] = value
		}
	}
	if v.Kind == workload.KindGroup && !existed && len(unheld) == 0 && len(v.Gaps) > 0 {
		unheld["group"] = v.Name
	}
	return orNone(unheld)
}

// orNone returns fields, nil if there are none.
func orNone(fields map[string]string) map[string]string {
	if len(fields) == 0 {
		return nil
	}
	return fields
}

// layerText returns the fields of a layer as a person writes them. Queues that only
// follow from a discipline without any are left out.
func layerText(l policy.Change) map[string]string {
	text := l.Texts()
	maps.DeleteFunc(text, func(field, value string) bool { return strings.HasSuffix(field, "queues") && value == "none" })
	return text
}
