// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/control"
	"weir/internal/core/paths"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/quota"
	"weir/internal/core/policy/texts"
	"weir/internal/core/workload"
	"weir/internal/host/dataplane"
	"weir/internal/host/discover"
	"weir/internal/host/sdn/switchport"
)

// World is everything that decides what the kernel should look like.
type World struct {
	Config config.Config
	// Now is the moment that is decided for, in the host's time zone.
	Now time.Time
	// Attached are the workloads that weir attach made; those of the configuration are not
	// among them.
	Attached []config.Attachment
	Ports    []switchport.Port        // of a switch, that are links too
	Found    []discover.Workload      // one for each key, by key, without the host
	Set      map[string]policy.Change // what was set at run time, by key
	Groups   map[string]policy.Change // groups that were made or changed at run time, by name
	// Asked is what comes with workloads that no label says, by key: the annotations of a pod,
	// what was set for a container on the node that it came from. It counts below the
	// configuration and Set, see package ceiling. AskedGroups are groups that were asked for in
	// the same way, by name.
	Asked       map[string]policy.Change
	AskedGroups map[string]policy.Change
	// Allocations are the mins that are set aside for pods, by name.
	Allocations []Allocation
	// Quotas is how far workloads and groups with a quota have come, by key. It is replaced,
	// never changed in place.
	Quotas map[string]quota.Standing
	Number map[string]plan.ClassID  // by key, also of workloads that are gone
	Grants map[string][]AdmittedMin // by link, in the order of admission
	Tuned  map[string]Tuned         // what was set about controllers, by key; nothing follows from it here
	// Accepted are the fields that were asked for by --accept-gaps, by key.
	Accepted map[string][]string
	// Paths is where the packets of workloads are taken, and what of them does not meet the
	// links. It is replaced, never changed in place.
	Paths     paths.Result
	Abilities map[string]dataplane.Abilities // of the links whose backend lacks something, by link
	// Texts is what labels said at former decisions, so that their texts are not parsed again;
	// nothing follows from it.
	Texts *texts.Kept
}

// Clone returns a copy that can be changed without changing w. Layers are never changed in
// place.
func (w World) Clone() World {
	w.Attached = slices.Clone(w.Attached)
	w.Found = slices.Clone(w.Found)
	w.Set = maps.Clone(w.Set)
	w.Groups = maps.Clone(w.Groups)
	w.Asked = maps.Clone(w.Asked)
	w.AskedGroups = maps.Clone(w.AskedGroups)
	w.Number = maps.Clone(w.Number)
	w.Grants = maps.Clone(w.Grants)
	w.Tuned = maps.Clone(w.Tuned)
	w.Accepted = maps.Clone(w.Accepted)
	w.Allocations = slices.Clone(w.Allocations)
	return w
}

// AdmittedMin is a min that a link has admitted.
type AdmittedMin struct {
	Key string      `json:"key"`
	Min policy.Rate `json:"min_bps"`
}

// Tuned is what was set about the controllers of a workload.
type Tuned struct {
	Frozen bool           `json:"frozen,omitempty"`
	Gains  *control.Gains `json:"gains,omitempty"`
}

// InForce returns the gains that count: those that were set, or the default ones.
func (t Tuned) InForce() control.Gains {
	if t.Gains != nil {
		return *t.Gains
	}
	return control.Default
}

// Tune returns the world with a change of a workload's controllers in it, and what was set
// about them before the change and after it.
func (w World) Tune(key string, change api.ControlChange) (next World, before, after Tuned) {
	next = w.Clone()
	before = next.Tuned[key]
	after = before
	if change.Freeze != nil {
		after.Frozen = *change.Freeze
	}
	if change.DefaultGains {
		after.Gains = nil
	}
	if change.Gains != nil {
		after.Gains = new(control.Gains(*change.Gains))
	}
	next.Tuned[key] = after
	if after == (Tuned{}) {
		delete(next.Tuned, key)
	}
	return next, before, after
}

// Links returns the links of the configuration, and the ports of a switch that it does not
// name.
func (w World) Links() []config.Link {
	var links []config.Link
	for _, l := range w.Config.Links {
		links = append(links, l.Ends()...)
	}
	for _, p := range w.Ports {
		if w.PortAt(p.Device) == nil {
			continue
		}
		link := config.DefaultLink(p.Device, p.Bandwidth)
		// Its QoS row says that the switch leaves the qdisc to Weir. What is there
		// may be the switch's own, which it does not remove by itself.
		link.Switch = true
		links = append(links, link)
	}
	return links
}

// PortAt returns the port that makes a device a link, nil if the configuration makes it one or
// it is none.
func (w World) PortAt(device string) *switchport.Port {
	if slices.ContainsFunc(w.Config.Links, func(l config.Link) bool { return l.Device == device }) {
		return nil
	}
	i := slices.IndexFunc(w.Ports, func(p switchport.Port) bool { return p.Device == device })
	if i < 0 {
		return nil
	}
	return &w.Ports[i]
}

// GroupNames returns the groups of the configuration, those made or asked for at run time and those
// of allocations for several pods, sorted.
func (w World) GroupNames() []string {
	names := slices.Concat(slices.Collect(maps.Keys(w.Groups)), slices.Collect(maps.Keys(w.AskedGroups)))
	for _, g := range w.Config.Groups {
		names = append(names, g.Name)
	}
	for _, a := range w.Allocations {
		if a.shared() {
			names = append(names, a.group())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// configured returns what the configuration says of a group.
func (w World) configured(name string) (policy.Change, bool) {
	for _, g := range w.Config.Groups {
		if g.Name == name {
			return g.Layer, true
		}
	}
	return policy.Change{}, false
}

// Rename moves everything that was remembered under some keys to others, which may be among them.
func (w *World) Rename(moved map[string]string) {
	move(w.Set, moved)
	move(w.Asked, moved)
	move(w.Tuned, moved)
	move(w.Accepted, moved)
	move(w.Number, moved)
	for device := range w.Grants {
		w.Grants[device] = slices.Clone(w.Grants[device])
		for i, g := range w.Grants[device] {
			w.Grants[device][i].Key = cmp.Or(moved[g.Key], g.Key)
		}
	}
}

// move gives the entries of some keys to others.
func move[V any](entries map[string]V, moved map[string]string) {
	taken := map[string]V{}
	for from, to := range moved {
		if v, ok := entries[from]; ok {
			taken[to] = v
			delete(entries, from)
		}
	}
	maps.Copy(entries, taken)
}

// forget takes a workload and what was set for it out of the world.
func (w *World) forget(key string) {
	w.Found = without(w.Found, key)
	delete(w.Set, key)
	delete(w.Asked, key)
	delete(w.Tuned, key)
	delete(w.Accepted, key)
}

// ForgetPods takes those of some workloads out of the world that are pods and detached.
func (w *World) ForgetPods(gone []discover.Workload) {
	for _, g := range gone {
		if g.Kind == workload.KindPod && !w.Attaches(g) {
			w.forget(g.Key)
		}
	}
}

// without returns the workloads that do not have the key.
func without(list []discover.Workload, key string) []discover.Workload {
	return slices.DeleteFunc(slices.Clone(list), func(w discover.Workload) bool { return w.Key == key })
}

// byKey compares workloads for sorting.
func byKey(x, y discover.Workload) int { return cmp.Compare(x.Key, y.Key) }

// HoldsMin reports whether any link has admitted a min of the workload.
func (w World) HoldsMin(key string) bool {
	for _, grants := range w.Grants {
		for _, g := range grants {
			if g.Key == key {
				return true
			}
		}
	}
	return false
}

// Foresee returns what of a configuration an agent would not put into force if exactly those
// workloads and groups existed that it calls by their whole name: a line for each, by name.
// Admission is that of the year from now on. Patterns, labels and settings made at run time are not
// considered.
func Foresee(c config.Config, now time.Time) []string {
	d := Decide(World{Config: c, Now: now, Number: map[string]plan.ClassID{}}.foreseen())
	var notes []string
	for _, v := range append(d.Rulings, d.Groups...) {
		if v.State == workload.StateRefused {
			notes = append(notes, v.Name+": "+v.Note)
		}
	}
	return notes
}

// foreseen returns the world with all workloads that its configuration calls by their whole
// name, also those that are not there.
func (w World) foreseen() World {
	w = w.Clone()
	for _, name := range w.Config.Named() {
		if !slices.ContainsFunc(w.Found, func(f discover.Workload) bool { return f.Name == name }) {
			w.Found = append(w.Found, discover.Workload{Key: "foreseen:" + name, Name: name})
		}
	}
	return w
}
